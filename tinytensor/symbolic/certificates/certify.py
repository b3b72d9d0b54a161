"""Certificates are checked: the file is read, `coqc` compiles it, and its theorems and their axioms are printed.

A certificate may say few kinds of sentences (`SENTENCES`), so that nothing in it can assume a statement, change what a
word means, or read another file. What is left in a comment or a string is no sentence. `coqc` then checks every proof;
a second file, written here, asks it for the definitions, the statements of the theorems, and the axioms under them.
statements.py reads what it prints.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tinytensor.native.platform.distribution import programs
from tinytensor.symbolic.certificates.certificate import MEANINGS
from tinytensor.symbolic.certificates.statements import NAME, NO_DERIVATIVE, Definitions, refusal

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
    if sentence.startswith("Theorem") and "is_derive" not in sentence:
        yield NO_DERIVATIVE


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
        known = Definitions(dict(zip(defined, result.definitions, strict=True)))
        why = {theorem.name: refusal(theorem.statement, known) for theorem in result.theorems}
        result.refused += [*known.refused, *[f"{name}: {said}" for name, said in why.items() if said]]
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
