"""Gradients that Coq's kernel checks: accepted as they are, and refused with a planted mistake."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from derivations import __main__ as command
from derivations.claims import LONG, PARTS, Refuted
from derivations.exact.rules_in_coq import rules_in_coq
from derivations.proofs import coq
from derivations.proofs.rules import covered
from tests.tools.coq import certified, needed, printed
from tinytensor.core.op import OPS
from tinytensor.symbolic.certificates import certify as certifying
from tinytensor.symbolic.certificates import statements
from tinytensor.symbolic.certificates.certify import AXIOMS, absent, certify, refusals, sentences
from tinytensor.symbolic.certificates.statements import NOT_MET, NOT_MET_IN_TIME, Definitions, refusal


@pytest.mark.slow
@pytest.mark.parametrize("function", coq.FUNCTIONS, ids=lambda function: function.__name__)
def test_certificate_is_accepted(function):
    result = certified(coq.certificate_of(function))
    assert result, str(result)
    arguments = [n for n, sizes in coq.FUNCTIONS[function].items() if isinstance(sizes, tuple)]
    assert [theorem.name for theorem in result.theorems] == [f"gradient_of_{n}" for n in arguments]
    assert all("is_derive" in theorem.statement for theorem in result.theorems)
    assert set(result.axioms) <= set(AXIOMS)


# a formula of the file for least squares, and a wrong one: in a gradient, and in a theorem
MISTAKES = {
    "a sign": ("dy (n : nat) : R := - (2 * (A n - y n) / INR N)", "dy (n : nat) : R := 2 * (A n - y n) / INR N"),
    "a missing 1/N": ("dA (n : nat) : R := 2 * (A n - y n) / INR N", "dA (n : nat) : R := 2 * (A n - y n)"),
    "a transposed index": ("(Σ n < N, X n d * dA n)", "(Σ n < N, X d n * dA n)"),
    "a sign in a theorem": ("(w d) (dw N D X w y d).", "(w d) (- dw N D X w y d)."),
    "a transposed index in a theorem": ("(X n d) (dX N D X w y n d).", "(X n d) (dX N D X w y d n)."),
    "a missing 1/N in a theorem": ("loss N D X (put1 w d r) y)", "INR N * loss N D X (put1 w d r) y)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_formula_is_refused(mistake):
    right, wrong = MISTAKES[mistake]
    text = coq.certificate_of(coq.least_squares)
    assert text.count(right) == 1
    result = certified(text.replace(right, wrong))
    assert not result and "coqc: File" in str(result)


@pytest.mark.slow
def test_each_scalar_rule_is_accepted():
    coq.rules_in_the_kernel()


@pytest.mark.slow
def test_some_scalar_rules_are_accepted():
    rules = [rule for name in ("true_divide", "tanh", "relu") for rule in coq.rules_of(name)]
    assert [theorem.name for theorem in certified(rules_in_coq("some", rules)).theorems] == [
        "rule_of_true_divide_a",
        "rule_of_true_divide_b",
        "rule_of_tanh_x",
        "rule_of_relu_x",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp", "hypot", "sigmoid", "power"])
def test_a_wrong_rule_is_refused(name):
    needed()
    wrong = list(coq.rules_of(name, lambda gradient: 2 * gradient))
    with pytest.raises(Refuted, match="coqc: File"):
        coq.accepted(rules_in_coq("wrong", wrong))


@pytest.mark.slow
def test_no_scalar_rule_is_left_out_in_silence():
    """An operation with formulas of one entry is in the file, unless a table says why not."""
    known = {rule.operation for rule in coq.scalar_rules()}
    assert {"exp", "log", "sqrt", "tanh", "sigmoid", "softsign", "erf", "mul", "true_divide", "power", "relu"} <= known
    assert set(coq.NOT_IN_COQ) <= set(covered()) and not known & set(coq.NOT_IN_COQ)
    unary = {n for n in covered() if OPS[n].kernel and len(OPS[n].params) == 1}
    assert unary - known <= {"softmax", "log_softmax", *coq.NOT_IN_COQ}


@pytest.mark.slow
def test_equation_17_is_accepted():
    needed()
    evidence = coq.equation_17_in_the_kernel()
    arrays = ("E", "P", "X", "Q", "K", "V", "W", "F", "b", "G", "c", "O_")  # O is 0 in Coq
    assert all(f"gradient_of_{n}:" in evidence.text for n in arrays)


@pytest.mark.slow
def test_a_wrong_closed_form_of_equation_17_is_refused():
    text = coq.head()
    right = "dL (i m : nat) : R := w i * (q i m - delta m (y i)) / N"
    assert text.count(right) == 1, text
    assert "coqc: File" in str(certified(text.replace(right, right.replace(" / N", ""))))


THEOREM = """
Theorem rule_of_exp : forall g x : R, is_derive (fun r => g * exp r) x (exp x * g).
Proof. rule. Qed.
"""


@pytest.mark.parametrize(
    "planted",
    [
        "Lemma one : 0 = 1. Proof. (* Qed. *) Admitted. (* Qed. *)",
        "Lemma one : 0 = 1. Proof. (* (* nested *) Qed. *) admit. Qed.",
        "Lemma one : 0 = 1. Proof. Axiom two : 0 = 1. apply two. Qed.",
        "Axiom one : 0 = 1.",
        "(* a comment *)Axiom(* another *)one : 0 = 1.",
        '(* " *) is in a string " *) Axiom one : 0 = 1.',
        "Parameter one : 0 = 1.",
        "Conjecture one : 0 = 1.",
        "Hypothesis one : 0 = 1.",
        "Variable one : 0 = 1.",
        "Section A. End A. Hypothesis one : 0 = 1.",
        "Unset Guard Checking.",
        "#[bypass_check(guard)] Fixpoint one (n : nat) : 0 = 1 := one n.",
        'Declare ML Module "one".',
        "Load one.",
        "From Coq Require Import Lra.",
        "Require Import one.",
        'Notation "x = y" := True.',
        "Definition one {exp : R -> R} : R := exp 0.",
        "Lemma one : 0 = 1. Proof. lra.",
        "Lemma one : 0 = 1. Proof. exact_no_check I. Qed.",
        "Lemma one : 1 = 1. Proof. vm_compute. reflexivity. Qed.",
        "Lemma one : 1 = 1. Proof. exact (eq_refl <: 1 = 1). Qed.",
        "Definition one : 1 = 1 := eq_refl <<: 1 = 1.",
        "Definition ехр (x : R) : R := x.",  # Cyrillic letters
        "Lemma ΡΙ : R. Proof. exact 3. Qed.",  # Greek letters
        "Lemma 𝐞𝐱𝐩 : R. Proof. exact 3. Qed.",
        "Section A. Variables x х : R. End A.",
        *[f"Definition {x} (y : R) : R := y." for x in ("ν", "exp\u3164", "exp\uffa0", "mսl", "tɑnh", "ıf", "丨")],
        "Inductive one : Prop := two.",
        "Instance one : two.",
        "Canonical one := two.",
        "Lemma one : exists n, n = n. Proof. refine ?[a]. [a]: { Unset Guard Checking. reflexivity. } Qed.",
        "Lemma one : R. Proof. transparent_abstract (exact 1) using exp. Qed.",
        "Definition one := ltac:(transparent_abstract (exact 1) using exp).",
        "Definition one {half : R} (x : R) : R := half * x.",
        "Definition one [half : R] (x : R) : R := half * x.",
        "Section A. Variable one :> nat -> R. End A.",
    ],
)
def test_a_certificate_may_not_say(planted):
    text = "\n".join(list(coq_header())) + THEOREM
    assert refusals(text) == []
    assert refusals(text + planted) != []
    in_comment = f"{text}(* {planted} *)" if not re.search(r'"|\(\*', planted) else text
    assert refusals(in_comment) == []  # where it says nothing


PROGRAM = """
Definition loss (N : nat) (x : nat -> R) : R := Σ n < N, x n ^ 2.
Definition dx (N : nat) (x : nat -> R) (n : nat) : R := 2 * x n.
Definition m (N : nat) (x : nat -> R) : R := (Σ n < N, x n) / INR N.
"""
SUM = "forall (N : nat) (x : nat -> R), (0 < N)%nat -> "
TABLE = "forall (N : nat) (t : nat -> nat) (x : nat -> R), (0 < N)%nat -> "
AT = "forall n : nat, (n < N)%nat -> "
DX = "is_derive (fun r => certificate.loss N (put1 x n r)) (x n) (certificate.dx N x n)"
ABOVE = "(forall n : nat, (n < N)%nat -> 0 < x n) -> "
IN_RANGE = "(forall i : nat, (i < N + 1)%nat -> (t i < 2 * N)%nat) -> "


MET = [
    "",
    ABOVE,
    "x 0%nat <> 0 -> ",
    "(nat -> R) -> R -> ",
    "-1 < certificate.m N x < 1 -> ",
    ABOVE + ABOVE,
    ABOVE + "(forall n : nat, (n < N)%nat -> x n < 1) -> ",
    "0 < 1 / (INR N - 1) * (Σ n < N, (x n - certificate.m N x) ^ 2) -> ",
    "(forall k n : nat, (k < 1)%nat -> (n < N)%nat -> -1 < asin (x n / 20) < sigmoid (x n)) -> ",
]
UNMET = [
    ABOVE + "x 0%nat < 0 -> ",
    ABOVE + "(forall n : nat, (n < N)%nat -> x n < 0) -> ",
    ABOVE + "(Σ n < N, x n) < 0 -> ",
    ABOVE + "certificate.m N x < 0 -> ",
    "1 < 0 -> ",
    "0 < 1 /\\ 1 < 0 -> ",
    "0 < 0 -> ",
    "PI <> PI -> ",
    "x 0%nat <> x 0%nat -> ",
    "0 < - x 0%nat ^ 2 -> ",
    "0 < ln (- exp (x 0%nat)) -> ",
    "Rabs (x 0%nat) < 0 -> ",
    "1 < sigmoid (x 0%nat) -> ",
    "1 < sin (x 0%nat) -> ",
    "x 0%nat < x 1%nat -> x 1%nat < x 2%nat -> x 2%nat < x 0%nat -> ",
    "INR N < 1 -> ",
    "INR (N - N) <> 0 -> ",
    "0 < certificate.loss N x < 0 -> ",
    "1 / (x 0%nat - x 0%nat) <> 0 -> ",
    "x 0%nat + 10 ^ 60 <> 10 ^ 60 + x 0%nat -> ",
    "exp (ln (x 0%nat)) <> x 0%nat -> ",
    "asin (1 - 1 / 10 ^ 17) < 157 / 100 -> ",
    "delta N N <> 1 -> ",
    "same (x 0%nat - x 0%nat) <> 1 -> ",
    "larger (x 0%nat) 0 < 0 -> ",
    "ln 0 < 0 -> ",
    "Rpower 0 2 < 1 -> ",
    "/ 0 <> 0 -> ",
    "1 < 1 / Rabs (x 0%nat / 3 * 3 - x 0%nat) -> ",
    "ln (Rabs (x 0%nat / 3 * 3 - x 0%nat)) < 0 -> ",
]
OTHER = [
    SUM + AT + DX + " \\/ True",
    SUM + AT + DX + " -> True",
    SUM + AT + f"({DX} \\/ True)",
    SUM + AT + f"~ {DX}",
    SUM + AT + "True",
    SUM + "(N < 0)%nat -> " + AT + DX,
    SUM + "(N < 1)%nat -> " + AT + DX,
    SUM + "(0 < 0)%nat -> " + AT + DX,
    SUM + AT + "(n < N - N)%nat -> " + DX,
    SUM + AT + "(n < N / 2)%nat -> " + DX,
    SUM + AT + "(1 < N)%nat -> " + DX,
    SUM + "False -> " + AT + DX,
    SUM + "0 = 1 -> " + AT + DX,
    SUM + "~ 0 < 1 -> " + AT + DX,
    SUM + "(forall n : nat, (n < N)%nat -> False) -> " + AT + DX,
    SUM + "(forall n : nat, (n < N)%nat -> (N < n)%nat) -> " + AT + DX,
    SUM + "(forall n : nat, 0 < x n) -> " + AT + DX,
    SUM + "(forall n : nat, (n < N)%nat -> 0 < x n -> 0 < 1) -> " + AT + DX,
    SUM + f"(forall n : nat, (n < N)%nat -> {DX}) -> " + AT + DX,
    f"forall (N : nat) (x : nat -> R) (dx : nat -> (nat -> R) -> nat -> R), (0 < N)%nat -> {AT}"
    + DX.replace("certificate.dx", "dx"),
    f"forall (N : nat) (x : nat -> R) (f : R -> R), (0 < N)%nat -> {AT}{DX}",
    f"forall (N : nat) (x : nat -> R) (lies : False), (0 < N)%nat -> {AT}{DX}",
    "forall is_derive : (R -> R) -> R -> R -> Prop, is_derive (fun r : R => r) 0 0",
    "let exp := ln in forall x : R, is_derive (fun r : R_AbsRing => r) x 1",
    SUM + AT + DX.replace("x n r", "x 0%nat r").replace("(x n)", "(x 0%nat)"),
    SUM + AT + DX.replace("dx N x n", "dx N x N"),
    SUM + AT + DX.replace("certificate.dx N x n", "Derive (fun r => certificate.loss N (put1 x n r)) (x n)"),
]
WORDS = [
    "fun exp : R => exp",
    "fun (exp : R -> R) (x : R) => exp x",
    "fun x : R => let exp := ln in exp x",
    "Σ exp < 2, INR exp",
    "Σ a0 < 2, INR a0",
    "fun x : R => sinh x",
    "fun x : R => Derive exp x",
    "fun n : nat => INR (n / 2)",
    "fun x : R => if Rlt_dec 0 x then x else 0",
    "fun x : R => x²",
    "fun x : R => (fun y : R => y) x",
]
LONG_SUM = "60 * (60 * (60 * (60 * (60 * N))))"
ENDLESS = [
    f"0 < (Σ k < {LONG_SUM}, 1 + x 0%nat ^ 2) -> ",
    f"(forall k, (k < {LONG_SUM})%nat -> 0 < 1 + x 0%nat ^ 2) -> ",
]
DEFINED = ("loss", "dx", "m")
KNOWN = ["fun (x : R) (n : nat) => exp x * INR (n - 1)", "1"]


def both(hypotheses: str) -> list[str]:
    """Statements with these hypotheses, without a table and with one."""
    return [SUM + hypotheses + AT + DX, TABLE + IN_RANGE + hypotheses + AT + DX]


@cache
def whole() -> dict[str, str]:
    """All statements and definitions of this file, as Coq prints them with nothing left out."""
    statements = [s for h in (*MET, *UNMET, *ENDLESS) for s in both(h)] + OTHER
    terms = [*statements, *WORDS, *KNOWN]
    commands = [*[f"Check ({term})" for term in terms], *[f"Print certificate.{name}" for name in DEFINED]]
    return dict(zip([*terms, *DEFINED], printed("\n".join(coq_header()) + PROGRAM, commands), strict=True))


def refused(statement: str) -> str:
    return refusal(whole()[statement], Definitions({name: whole()[name] for name in DEFINED}))


@pytest.mark.parametrize("hypotheses", MET)
def test_statements_of_certificates_are_accepted(hypotheses):
    assert [refused(statement) for statement in both(hypotheses)] == ["", ""]


@pytest.mark.parametrize("hypotheses", UNMET)
def test_hypotheses_that_no_numbers_meet_are_refused(hypotheses):
    assert [refused(statement) for statement in both(hypotheses)] == [NOT_MET, NOT_MET]


@pytest.mark.parametrize("hypothesis", ENDLESS)
def test_the_search_for_numbers_that_meet_hypotheses_ends(hypothesis, monkeypatch):
    monkeypatch.setattr(statements, "SECONDS", 0.1)
    assert refused(both(hypothesis)[0]).startswith(NOT_MET_IN_TIME)


@pytest.mark.parametrize("statement", OTHER)
def test_statements_that_say_something_else_are_refused(statement):
    assert refused(statement) not in ("", NOT_MET)


def test_a_definition_of_other_words_is_refused():
    refused = Definitions({f"a{n}": whole()[term] for n, term in enumerate([*WORDS, *KNOWN])}).refused
    assert [why.partition(":")[0] for why in refused] == [f"a{n}" for n in range(len(WORDS))]


@pytest.mark.slow
def test_a_theorem_under_a_contradiction_is_refused():
    """Coq proves any derivative from it."""
    theorem = """
Definition loss (x : R) : R := x * x.
Definition dx (x : R) : R := 7 * x.
Theorem gradient_of_x : forall x : R, 0 < x -> x < 0 -> is_derive (fun r => loss r) x (dx x).
Proof. intros x A B. destruct (Rlt_asym 0 x A B). Qed.
"""
    result = certified("\n".join(coq_header()) + theorem)
    assert result.refused == [f"gradient_of_x: {NOT_MET}"]


def test_a_section_variable_in_the_place_of_a_definition_is_refused():
    text = """
Section Forged.
Definition dx : R := 7.
Variable slope : R.
Hypothesis moved : is_derive (fun r => exp r) 0 slope.
Theorem gradient : is_derive (fun r => exp r) 0 slope.
Proof. exact moved. Qed.
End Forged.
"""
    assert refusals("\n".join(coq_header()) + text) == []
    assert certified("\n".join(coq_header()) + text).refused
    assert certified("\n".join(coq_header()) + THEOREM)


PROVED = """Proof.
  intros; unfold loss, dx; simpl;
  first
  [ solve [ring]
  | solve [apply is_derive_const]
  | solve [auto_derive; auto; ring]
  | replace n with 0%nat by (destruct n; [reflexivity | destruct (Nat.nlt_0_r n); now apply Nat.succ_lt_mono]);
    unfold put1; simpl; auto_derive; auto; ring ].
Qed."""
BY_X = "Theorem gradient_of_x : forall x : R, is_derive (fun r => loss r) x (dx x)."
SQUARE = "Definition loss (x : R) : R := x * x."


@pytest.mark.parametrize("blank", ["\v", "\u202e", "\u200b", "\u00a0", "\f", "\x00"])
def test_what_is_not_seen_is_refused_in_a_comment_too(blank):
    assert refusals("\n".join(coq_header()) + f"(* a {blank} b *)" + THEOREM)


@pytest.mark.slow
def test_an_argument_that_coq_does_not_print_is_refused():
    text = Path(__file__).with_name("hidden_space.v").read_text("utf-8")
    assert refusals(text) == []
    assert "its conclusion is not" in str(certified(text))


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["COQPATH", "XDG_DATA_HOME", "XDG_DATA_DIRS"])
def test_the_environment_does_not_name_another_library(variable, monkeypatch, tmp_path):
    needed()
    folder = tmp_path / "coq" / "Coquelicot"
    folder.mkdir(parents=True)
    (folder / "Coquelicot.v").write_text("Definition is_derive (f : nat -> nat) (x y : nat) : Prop := True.")
    subprocess.run(["coqc", "-q", "-R", ".", "Coquelicot", "Coquelicot.v"], cwd=folder, check=True)
    monkeypatch.setenv(variable, str(tmp_path if variable[0] == "X" else folder.parent))
    (tmp_path / "a.v").write_text("\n".join(coq_header()) + THEOREM)
    assert certify(tmp_path / "a.v")


FORGED = {  # definitions and a theorem that Coq proves, and why it does not say what it seems to say
    "parameters in another order": (
        "Section P. Variables (y x : R). Definition loss := x * x * y. Definition dx := x * x + 0 * y. End P.",
        "Theorem gradient_of_x : forall x y : R, is_derive (fun r => loss r y) x (dx x y).",
        "certificate.loss has another argument than y",
    ),
    "a variable with the name of a definition": (
        "Definition e := exp. Section P. Variable e : R -> R. Definition loss (x : R) := e x. End P. "
        "Definition dx (x : R) := 0 * x + 1.",
        "Theorem gradient_of_x : forall x : R, is_derive (fun r => loss (fun t => t) r) x (dx x).",
        "it binds e",
    ),
    "a let with the name of a definition": (
        "Definition e := exp. Section P. Let e (t : R) := t. Definition loss (x : R) := e x. End P. "
        "Definition dx (x : R) := 0 * x + 1.",
        BY_X,
        "e has no meaning",
    ),
    "a lemma as a function": (
        "Lemma sinh : R -> R. Proof. exact (fun x => x). Qed. Definition loss (x : R) := 0 * sinh 1 + x. "
        "Definition dx (x : R) := 0 * x + 1.",
        BY_X,
        "sinh has no meaning",
    ),
    "a parameter with the name of a function": (
        "Definition loss exp (x : R) : R := exp x. Definition dx (x : R) := 0 * x + 1.",
        "Theorem gradient_of_x : forall x : R, is_derive (fun r => loss (Rmult 1) r) x (dx x).",
        "it binds exp",
    ),
    "a function that does not move": (
        f"{SQUARE} Definition dx (x : R) := 0 * x.",
        "Theorem gradient_of_x : forall x : R, is_derive (fun r => loss x) x (dx x).",
        "x is not expected in its function",
    ),
    "another point": (
        f"{SQUARE} Definition dx (x : R) := 4 + 0 * x.",
        "Theorem gradient_of_x : forall x : R, is_derive (fun r => loss r) 2 (dx x).",
        "does not move",
    ),
    "another argument": (
        f"{SQUARE} Definition dx (x : R) := x.",
        "Theorem gradient_of_x : forall x : R, is_derive (fun r => loss r) x (dx (x + x)).",
        "dx has another argument than x",
    ),
    "a curve with the name of a definition": (
        "Definition c : R := 1. Definition loss (x : nat -> R) : R := x 0%nat. "
        "Definition dx (x : nat -> R) (n : nat) := 2 * x n + INR n * 0.",
        "Theorem gradient_of_x : forall (x : nat -> R) (n : nat), (n < 1)%nat -> "
        "is_derive (fun c => c * loss (put1 x n c)) (x n) (dx x n).",
        "it binds c",
    ),
    "a definition with the name of a function": (
        "Definition exp (x : R) := x. Definition loss (x : R) := x + 0 * exp 1. Definition dx (x : R) := 0 * x + 1.",
        BY_X,
        "exp: the name has a meaning already",
    ),
    "a definition that moves nothing": (
        f"Definition put5 (x : {5 * 'nat -> '}R) (a b c d e : nat) (r : R) (i j k l m : nat) := x i j k l m. "
        f"Definition loss (x : {5 * 'nat -> '}R) := x{5 * ' 0%nat'}. "
        f"Definition dx (x : {5 * 'nat -> '}R) (a b c d e : nat) := 0.",
        f"Theorem gradient_of_x : forall (x : {5 * 'nat -> '}R) (a b c d e : nat), "
        "is_derive (fun r => loss (put5 x a b c d e r)) (x a b c d e) (dx x a b c d e).",
        "does not move",
    ),
    "no derivative": (
        f"{SQUARE} Definition dx (x : R) := 2 * x.",
        "Theorem gradient_of_x : forall x : R, loss x = x * x.",
        "its conclusion is not",
    ),
    "a half of whole numbers": (
        "Definition loss (x : R) := INR (1 / 2) * x. Definition dx (x : R) := 0 * x.",
        BY_X,
        "Nat.div has no meaning",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGED)
def test_a_definition_or_a_theorem_that_reads_as_another_is_refused(name):
    definitions, theorem, why = FORGED[name]
    result = certified("\n".join([*coq_header(), definitions, theorem, PROVED]))
    assert why in str(result) and not result and "coqc" not in str(result)


@pytest.mark.slow
def test_what_reads_as_it_is_is_accepted():
    text = [*coq_header(), SQUARE, "Definition dx (x : R) := 2 * x.", BY_X, PROVED]
    assert certified("\n".join(text))


@pytest.mark.slow
def test_a_recursion_that_is_assumed_to_end_is_seen(monkeypatch):
    monkeypatch.setattr(certifying, "refusals", lambda text: [])
    recursion = "Unset Guard Checking. Lemma bad : False. Proof. exact ((fix f (n : nat) : False := f n) 0%nat). Qed."
    text = [*coq_header(), recursion, SQUARE, "Definition dx (x : R) := 7 * x.", BY_X, "Proof. destruct bad. Qed."]
    assert "bad is assumed to be guarded" in str(certified("\n".join(text)))


def coq_header():
    return (f"{line}." for line in certifying.OPENING)


def test_sentences_are_those_of_coq():
    assert sentences("A (* b. *) e. G h.i j. N 0.5.") == ["A   e", "G h.i j", "N 0.5"]
    for text in ("A (* b.", "A (* (* b. *) A.", "A. A", 'A (* "*)" *).', "A *) b."):
        assert "the file has" in refusals(text)[0]
    assert "there is no theorem" in refusals("Open Scope R_scope.")


@pytest.mark.slow
def test_an_axiom_of_the_library_would_be_seen(monkeypatch, tmp_path):
    """An axiom that no sentence of the certificate declares is in the list that Coq prints."""
    needed()
    axiom = "\nAxiom made_up : forall (f : R -> R) (x y : R), is_derive f x y.\nLtac rule ::= intros; apply made_up.\n"
    whole = certifying.library()
    monkeypatch.setattr(certifying, "library", lambda: whole + axiom)
    result = certifying.Coq(tmp_path, seconds=None).certify("\n".join(coq_header()) + THEOREM.replace("exp x * g", "g"))
    assert not result and "rests on the axiom" in str(result) and "made_up" in str(result)


@pytest.mark.slow
def test_a_proof_that_takes_too_long_is_stopped(monkeypatch):
    needed()
    monkeypatch.setattr(coq.coq(), "seconds", 1)
    endless = "\nLemma one : 0 = 1. Proof. repeat (idtac; rewrite <- (Rplus_0_r 0)). Qed.\n"
    result = coq.coq().certify("\n".join(coq_header()) + endless + THEOREM)
    assert not result and "is stopped" in str(result)


def test_without_coq_a_sentence_names_the_packages(monkeypatch, tmp_path):
    (tmp_path / "a.v").write_text("\n".join(coq_header()) + THEOREM)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="coq and libcoq-coquelicot"):
        certify(tmp_path / "a.v")


def test_coq_without_its_library_is_no_coq(monkeypatch):
    """As where apt-get has installed the package coq alone."""
    done = SimpleNamespace(returncode=1, stderr="Error: Cannot find a physical path bound to logical path Coquelicot.")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)
    assert re.search("no library Coquelicot.* coq and libcoq-coquelicot", absent())


def test_without_coq_its_part_is_left_out_with_a_sentence(monkeypatch, capsys):
    asked: list[list[str]] = []
    monkeypatch.setattr(command, "claims_of", lambda parts: asked.append(parts) or [])
    monkeypatch.setattr(command.report, "write", lambda directory, results: [])
    assert command.main(["--quick"]) == 0
    assert ("left out" in capsys.readouterr().err) is bool(absent())
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert command.main(["--quick"]) == 0
    assert f"the part coq is left out: {absent()}" in capsys.readouterr().err
    assert asked[-1] == [part for part in PARTS if part not in ("coq", *LONG)]
