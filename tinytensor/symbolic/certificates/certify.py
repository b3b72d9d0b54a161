"""Certificates are checked: the file is read, `coqc` compiles it, and its theorems and their axioms are printed.

A certificate may say few kinds of sentences (`SENTENCES`), so that nothing in it can assume a statement, change what a
word means, or read another file. What is left in a comment or a string is no sentence. `coqc` then checks every proof;
a second file, written here, asks it for the statement of each theorem and for the axioms under it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tinytensor.native.platform.distribution import programs
from tinytensor.symbolic.certificates.certificate import MEANINGS

PACKAGES = "coq and libcoq-coquelicot"
SECONDS, BYTES = 60, 4 * 2**30  # of a processor and of memory, at most, for one run of coqc
PATIENCE = 600  # seconds: a processor may be shared by many
LIBRARY = "Tinytensor"
REQUIRED = {
    "From Coq Require Import Reals",
    "From Coquelicot Require Import Coquelicot",
    f"From {LIBRARY} Require Import {LIBRARY}",
}
AXIOMS = {  # of the real numbers of Coq's standard library, and of equal functions
    "ClassicalDedekindReals.sig_forall_dec": "a decidable statement on all natural numbers can be decided",
    "ClassicalDedekindReals.sig_not_dec": "a negated statement can be decided",
    "FunctionalExtensionality.functional_extensionality_dep": "functions with equal values are equal",
    "Classical_Prop.classic": "a statement or its negation is true",
}
TRUSTED = (
    "the kernel of Coq, and its axioms of the real numbers",
    "that the definitions of the program are the function: the meanings of its operations, which `derive` compares "
    "with the function in numbers",
    "that the library of sums reads as its comments say",
    "real numbers: rounding is not covered",
)
NAME = r"[^\W\d][\w']*"
# what a sentence outside of a proof may be; the group is the name that it declares, if it declares one
SENTENCES = [
    *(re.escape(one).replace(r"\ ", r"\s+") for one in sorted(REQUIRED)),
    r"Open\s+Scope\s+R_scope",
    rf"(?:Section|End)\s+{NAME}",
    rf"#\[local\]\s*Hint\s+Unfold(?:\s+{NAME})+\s*:\s*formulas",
    rf"Local\s+Notation\s+(?P<notation>{NAME})\s*:=(?s:.*)",
    r"Variables?\s+(?P<variables>(?s:.*))",
    rf"Hypothesis\s+(?P<hypothesis>{NAME})\s*:(?s:.*)",
    rf"(?:Let|Definition|Lemma|Theorem)\s+(?P<declared>{NAME})(?s:.*)",
]
BINDERS = re.compile(r"(?:\b(?:forall|fun|let|exists|fix)|Σ)\s+([\w' \n\t]+)|[({]([\w' \n\t]+):")
# tactics that leave a proof open, or make a constant that no sentence declares
FORBIDDEN = re.compile(r"\b(?:admit|give_up|\w+_no_check|(?:transparent_)?abstract)\b")
HIDDEN = re.compile(r"[{}`]|:>")  # arguments that Coq fills in, and coercions: neither is printed
IN_SECTIONS = ("Variable", "Hypothesis", "Let", "Local")


class Unreadable(ValueError):
    """The text is no sequence of Coq's sentences."""


@dataclass(frozen=True)
class CertifiedTheorem:
    """A theorem that Coq's kernel accepts: its statement as Coq prints it."""

    name: str
    statement: str


@dataclass
class Certified:
    """What came of a check: the theorems, the axioms under them, and what is refused. True if nothing is refused."""

    theorems: list[CertifiedTheorem] = field(default_factory=list)
    axioms: tuple[str, ...] = ()
    refused: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.theorems) and not self.refused

    def __str__(self) -> str:
        lines = [*self.definitions, ""] if self.definitions else []
        for theorem in self.theorems:
            lines += [f"{theorem.name}:", *[f"    {line}" for line in theorem.statement.splitlines()]]
            lines += [""]
        lines += ["axioms:", *[f"    {a}: {AXIOMS.get(a, 'unknown')}" for a in self.axioms], ""] if self.axioms else []
        if self.refused:
            return "\n".join([*lines, *[f"NOT accepted: {one}" for one in self.refused]])
        count = f"{len(self.theorems)} theorem{'s' * (len(self.theorems) != 1)}"
        return "\n".join([*lines, f"accepted by Coq's kernel: {count}", "trusted:", *[f"    {one}" for one in TRUSTED]])


def sentences(text: str) -> Iterator[str]:
    """The sentences of a file of Coq, without comments, which nest and may hold strings."""
    said, at, depth, in_string = "", 0, 0, False
    while at < len(text):
        two, one = text[at : at + 2], text[at]
        if in_string:
            in_string = one != '"'
            said += "" if depth else one
        elif one == '"':
            in_string = True
            said += "" if depth else one
        elif two == "(*":
            depth, at = depth + 1, at + 1
        elif two == "*)" and depth:
            depth, at = depth - 1, at + 1
            said += " " if not depth else ""
        elif depth:
            pass
        elif one == "." and (at + 1 == len(text) or text[at + 1].isspace()):
            yield said.strip()
            said = ""
        else:
            said += one
        at += 1
    if depth or in_string or said.strip():
        raise Unreadable("the file ends within a comment, a string or a sentence")


def refusals(text: str) -> list[str]:
    """The sentences that a certificate may not have, and why."""
    result: list[str] = []
    try:
        every = list(sentences(text))
    except Unreadable as error:
        return [str(error)]
    depth, in_proof, theorems = 0, False, 0
    for sentence in every:
        short = " ".join(sentence.split())[:80]
        if '"' in sentence:
            result.append(f"a string in {short!r}")
        elif in_proof:
            command = sentence.lstrip("-+*{} \n\t")
            if command == "Qed":
                in_proof = False
            elif FORBIDDEN.search(command) or re.match(r"[^a-z[(]", command) or HIDDEN.search(command):
                result.append(f"{short!r} within a proof")
        elif sentence == "Proof" or sentence == "Proof using All":
            in_proof = True
        else:
            result += [f"{short!r}: {why}" for why in _refused(sentence, depth)]
            depth += sentence.startswith("Section") - sentence.startswith("End")
            theorems += sentence.startswith("Theorem")
    if in_proof:
        result.append("a proof without Qed")
    if not theorems:
        result.append("there is no theorem")
    return result


def _refused(sentence: str, depth: int) -> Iterator[str]:
    """Why a sentence outside of a proof is refused."""
    match = next((m for form in SENTENCES if (m := re.fullmatch(form, sentence))), None)
    if match is None:
        yield "a certificate has no such sentence"
        return
    if HIDDEN.search(sentence) or FORBIDDEN.search(sentence):
        yield "a certificate has no arguments that are left out, no coercion and no such tactic"
    if sentence.startswith(IN_SECTIONS) and not depth:
        yield "outside of a section it is an assumption"
    known = {k: v for k, v in match.groupdict().items() if v}
    names = [known[k] for k in ("notation", "hypothesis", "declared") if k in known]
    if "variables" in known:
        names += re.findall(NAME, re.sub(r":[^()]*", " ", known["variables"]))
    for name in names:
        if name in MEANINGS:
            yield f"the name {name} has a meaning already"
    for name in bound_in(sentence) & MEANINGS:
        yield f"the name {name} has a meaning already, and is bound here"
    if sentence.startswith("Theorem") and "is_derive" not in sentence:
        yield NO_DERIVATIVE


def bound_in(text: str) -> set[str]:
    """The names that a text binds."""
    return {word for binder in BINDERS.findall(text) for part in binder for word in part.split()}


NO_DERIVATIVE = "its conclusion is not of the form is_derive (fun r => ...) point formula"
OTHER_WORDS = re.compile(r"~|/\\|\\/|\b(?:is_derive|True|False|exists)\b")
RELATION = re.compile(r"[^<>=]+ (?:<>|<) [^<>=]+(?: < [^<>=]+)?")  # of numbers: a <> b, a < b, a < b < c


def parts_of(text: str, separator: str, most: int = 0) -> list[str]:
    """The parts of a text between separators that stand in no brackets."""
    parts, depth, at = [""], 0, 0
    while at < len(text):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if not depth and text.startswith(separator, at) and not (most and len(parts) > most):
            parts, at = [*parts, ""], at + len(separator)
        else:
            parts[-1], at = parts[-1] + text[at], at + 1
    return [part.strip() for part in parts if part.strip()]


def taken_apart(text: str) -> tuple[dict[str, str], list[str], str]:
    """The names that a statement binds, with their types, its hypotheses, and its conclusion."""
    types: dict[str, str] = {}
    hypotheses: list[str] = []
    while True:
        if text.startswith("forall "):
            binders, text = parts_of(text.removeprefix("forall "), ",", 1)
            for group in parts_of(binders, " ") if binders.startswith("(") else [binders]:
                names, _, of = group.strip("()").partition(" : ")
                types |= dict.fromkeys(names.split(), of)
        elif len(parts := parts_of(text, "->", 1)) == 2:
            if not re.fullmatch(r"(?:nat|R|->|[() ])+", parts[0]):  # the type of a name that is not used
                hypotheses.append(parts[0])
            text = parts[1]
        else:
            return types, hypotheses, text


def refused_in(statement: str, definitions: set[str], outer: set[str] | None = None) -> Iterator[str]:
    """Why a statement, as Coq prints it, is refused: as a theorem, or as a hypothesis of one with the sizes `outer`.

    Its hypotheses say that sizes are above 0, that indices and entries of tables are below a size, and of numbers what
    RELATION says, for all such indices. All of those on whole numbers are met where indices and tables are 0. A theorem
    ends in one derivative. No name that it binds is that of a definition, which is printed beside it.
    """
    types, hypotheses, conclusion = taken_apart(" ".join(statement.split()))
    yield from (f"it binds {name}, the name of a definition" for name in definitions & types.keys())
    sizes = {n for n in types if f"(0 < {n})%nat" in hypotheses} if outer is None else outer
    for said in hypotheses if outer is None else [*hypotheses, conclusion]:
        if said.startswith("(forall "):
            yield from refused_in(said[1:-1], definitions, sizes)
        elif said.endswith("%nat") and not _is_of_whole_numbers(said, sizes):
            yield f"its hypothesis {said} is none on a size, an index or a table"
        elif not said.endswith("%nat") and (not RELATION.fullmatch(said) or OTHER_WORDS.search(said)):
            yield f"its hypothesis {said} is no comparison of numbers"
    words = parts_of(conclusion, " ")
    if outer is None and (len(words) != 4 or words[0] != "is_derive" or not words[1].startswith("(fun ")):
        yield NO_DERIVATIVE


def refused_definition(printed: str, definitions: set[str]) -> Iterator[str]:
    """Why a definition, as Coq's kernel has it, is refused: it must read as what it is."""
    for name in bound_in(printed.partition("=")[2]) & (definitions | MEANINGS):
        yield f"it binds {name}, which has a meaning already"
    for name in re.findall(rf"\bcertificate\.({NAME})", printed):
        yield f"it uses {name}, which is no definition of the certificate"
    if re.search(r"\bINR \([^()]*/", printed):
        yield "it divides whole numbers"


def refused_arguments(statement: str, parameters: dict[str, list[str]]) -> Iterator[str]:
    """Why the derivative that a statement ends in is not that of its function by the entry at its point.

    What moves is the name of the point, or the entry X i of it, as (put1 X i r). A definition gets its own parameters
    (`parameters`) by their names, and in its function what moves in the place of one of them.
    """
    function, point, formula = parts_of(taken_apart(" ".join(statement.split()))[2], " ")[1:]
    moving, _, body = function[1:-1].removeprefix("fun ").partition(" => ")
    r = moving.partition(" ")[0]
    array, *entry = point.strip("()").split()
    moved = f"(put{len(entry)} {array} {' '.join(entry)} {r})" if entry else r
    if not re.fullmatch(NAME, array) or not re.search(rf"(?<![\w']){re.escape(moved)}(?![\w'])", body):
        yield f"its function does not move {point}"
    if re.search(rf"(?<![\w']){r}(?![\w'])|(?<![\w']){array}(?![\w'])", body.replace(moved, " ")):
        yield f"its function has {point} beside what moves"
    for text, value in ((body, moved), (formula, array)):
        for name, arguments in _calls(text, parameters.keys()):
            own = [value if p == array else p for p in parameters[name]]
            agree = (p in (a, "_") for p, a in zip(own, arguments))  # Coq prints a parameter that is not used as _
            if len(arguments) != len(own) or not all(agree):
                yield f"it has {' '.join([name, *arguments])} for {' '.join([name, *own])}"


def _calls(text: str, names: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """The applications of some names in a text, each with its arguments, outside in."""
    words = parts_of(text, " ")
    while len(words) == 1 and text.startswith("("):
        text = text[1:-1]
        words = parts_of(text, " ")
    for at, word in enumerate(words):
        if word in names:
            stop = next((k for k in range(at + 1, len(words)) if not re.match(r"[\w(]", words[k])), len(words))
            yield word, words[at + 1 : stop]
        if word.startswith("("):
            yield from _calls(word, names)


def _is_of_whole_numbers(hypothesis: str, sizes: set[str]) -> bool:
    """Does it say that a size is above 0, or that an index or an entry of a table is below a size?"""
    below, _, limit = hypothesis.removeprefix("(").removesuffix(")%nat").partition(" < ")
    if below == "0" and limit in sizes:
        return True
    index = re.fullmatch(rf"({NAME})(?: {NAME})*", below)
    number = re.sub(NAME, lambda word: "97" if word[0] in sizes else "?", limit)
    above_0 = re.fullmatch(r"[\d+*() -]+", number) and "**" not in number and eval(number) > 0
    return bool(index and index[1] not in sizes and above_0)


def absent() -> str:
    """The part of Coq that is not installed, in a sentence: coqc, or its library Coquelicot; empty if none."""
    part = "coqc is"
    if shutil.which("coqc"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "library.v"
            file.write_text("From Coquelicot Require Coquelicot.\n", encoding="utf-8")
            done = subprocess.run(["coqc", "-q", str(file)], capture_output=True, encoding="utf-8")
        part = "coqc has no library Coquelicot: it is" if "Coquelicot" in done.stderr and done.returncode else ""
    return part and f"{part} not installed; on Debian and Ubuntu it comes with the packages {PACKAGES}"


class Coq:
    """A folder in which coqc runs: the library, compiled once, and certificates.

    seconds: of a processor, at most, for one run of coqc; None, for certificates of our own: as long as it takes.
    """

    def __init__(self, folder: Path, seconds: int | None = SECONDS):
        self.folder, self.seconds = folder, seconds
        (folder / f"{LIBRARY}.v").write_text(library(), encoding="utf-8")
        error = self.compile(LIBRARY)[1] if shutil.which("coqc") else "there is no coqc"
        if error and (missing := absent()):
            raise ModuleNotFoundError(missing)
        if error:
            raise RuntimeError(f"certify: the library of Coq does not compile: {error}")

    def compile(self, name: str) -> tuple[str, str]:
        """Compile a file of the folder: what coqc prints, and its error, empty if there is none."""
        call = ["coqc", "-q", "-w", "none", "-R", str(self.folder), LIBRARY, f"{name}.v"]
        if sys.platform != "win32":
            limits = f"ulimit -t {self.seconds or 'unlimited'}; ulimit -v {BYTES // 1024} 2> /dev/null"
            call = ["sh", "-c", f'{limits}; exec "$@"', "sh", *call]
        patience = self.seconds and PATIENCE
        try:
            run = subprocess.run(call, cwd=self.folder, capture_output=True, encoding="utf-8", timeout=patience)
        except subprocess.TimeoutExpired:
            return "", f"coqc does not end within {patience} s"
        if run.returncode == 0:
            return run.stdout, ""
        message = (
            run.stderr.strip()
            or f"coqc is stopped: {self.seconds} s of a processor, or {BYTES / 2**30:.0f} GB, are used up"
        )
        return run.stdout, message.replace(f"{self.folder}/", "").replace('File "./', 'File "')

    def certify(self, text: str) -> Certified:
        """Check the text of a certificate."""
        result = Certified(refused=refusals(text))
        if result.refused:
            return result
        (self.folder / "certificate.v").write_text(text, encoding="utf-8")
        _, error = self.compile("certificate")
        if error:
            result.refused.append(f"coqc: {error}")
            return result
        names, defined = (
            [re.match(rf"{word}\s+({NAME})", s)[1] for s in sentences(text) if s.startswith(word)]
            for word in ("Theorem", "Definition")
        )
        statements, result.definitions, result.axioms = self._printed(names, defined)
        result.theorems = [CertifiedTheorem(*pair) for pair in zip(names, statements, strict=True)]
        parameters = {}
        for name, printed in zip(defined, result.definitions, strict=True):
            result.refused += [f"{name}: {why}" for why in refused_definition(printed, set(defined))]
            parameters[name] = _parameters(printed)
        for theorem in result.theorems:
            why = [*refused_in(theorem.statement, set(defined))]
            why = why or [*refused_arguments(theorem.statement, parameters)]
            result.refused += [f"{theorem.name}: {one}" for one in why]
        result.refused += [f"a theorem rests on the axiom {a}" for a in result.axioms if a not in AXIOMS]
        return result

    def _printed(self, theorems: list[str], definitions: list[str]) -> tuple[list[str], list[str], tuple[str, ...]]:
        """The statement of each theorem, each definition, and the axioms under the theorems, as Coq prints them."""
        asked = [f"From {LIBRARY} Require certificate.", *sorted(f"{one}." for one in REQUIRED)]
        asked += ["Open Scope R_scope.", "Set Printing Width 110."]
        for command in [f"Check certificate.{n}" for n in theorems] + [f"Print certificate.{n}" for n in definitions]:
            asked += [f"{command}.", f'Goal True. idtac "{MARK}". Abort.']
        asked += [f"Definition all_theorems := ({', '.join(f'certificate.{name}' for name in theorems)})."]
        asked += ["Print Assumptions all_theorems."]
        (self.folder / "asked.v").write_text("\n".join(asked) + "\n", encoding="utf-8")
        printed, error = self.compile("asked")
        if error:
            raise RuntimeError(f"certify: coqc does not print the theorems: {error}")
        names = {*theorems, *definitions}
        printed = re.sub(rf"\bcertificate\.({NAME})", lambda name: name[1] if name[1] in names else name[0], printed)
        *parts, assumptions = printed.split(MARK)
        statements, made = [], []
        for part in parts[: len(theorems)]:
            shown = part.strip().partition("\n")[2] or part.strip()
            shown = re.sub(r"^\s*:\s*", "", shown)
            statements.append(re.sub(r"^ {5,7}", "", shown, flags=re.M))
        for part in parts[len(theorems) :]:
            made.append(" ".join(re.split(r"\n\s+: |\n\n", part.strip())[0].split()))
        # what the list says besides names of axioms, such as that a recursion is assumed to end, is in AXIOMS neither
        said = [line.partition(" :")[0].rstrip() for line in re.findall(r"^\S.*", assumptions, re.M)]
        return statements, made, tuple(a for a in said if a not in ("Axioms:", "Closed under the global context"))


def _parameters(printed: str) -> list[str]:
    """The names of the parameters of a definition, as Coq prints it: name = fun (N : nat) (x : nat -> R) => ..."""
    value = printed.partition(" = ")[2]
    if not value.startswith("fun "):
        return []
    binders = value.removeprefix("fun ").partition(" => ")[0]
    groups = parts_of(binders, " ") if binders.startswith("(") else [binders]
    return [name for group in groups for name in group.strip("()").partition(" : ")[0].split()]


MARK = "---- next ----"


def library() -> str:
    """The library of Coq that certificates use."""
    return (programs() / "derivations" / "coq" / f"{LIBRARY}.v").read_text(encoding="utf-8")


def certify(file: str | Path) -> Certified:
    """Check a certificate by Coq's kernel: its theorems, their axioms, and what is refused.

    ModuleNotFoundError where coqc or its library Coquelicot is not installed.
    """
    text = Path(file).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        return Coq(Path(folder)).certify(text)
