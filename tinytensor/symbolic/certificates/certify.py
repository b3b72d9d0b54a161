"""Certificates are checked: the file is read, `coqc` compiles it, and its theorems and their axioms are printed.

A certificate may say few kinds of sentences (`SENTENCES`), so that nothing in it can assume a statement, change what a
word means, or read another file. What is left in a comment or a string is no sentence. `coqc` then checks every proof;
a second file, written here, asks it for the definitions, the statements of the theorems, and the axioms under them.
statements.py reads what it prints.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unicodedata import category

from tinytensor.native.platform.distribution import programs
from tinytensor.symbolic.certificates.certificate import GREEK, OPENING
from tinytensor.symbolic.certificates.statements import NAME, Definitions, Unread, refusal

PACKAGES = "coq and libcoq-coquelicot"
SECONDS, BYTES = 60, 4 * 2**30  # of a processor and of memory, at most, for one run of coqc
PATIENCE = 600  # seconds: a processor may be shared by many
LIBRARY = "Tinytensor"
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
# what a sentence outside of a proof may be
SENTENCES = [
    *(re.escape(sentence).replace(r"\ ", r"\s+") for sentence in OPENING),
    rf"(?:Section|End)\s+{NAME}",
    rf"#\[local\]\s*Hint\s+Unfold(?:\s+{NAME})+\s*:\s*formulas",
    rf"Local\s+Notation\s+{NAME}\s*:=(?s:.*)",
    r"Variables?\s+(?s:.*)",
    rf"Hypothesis\s+{NAME}\s*:(?s:.*)",
    rf"(?:Let|Definition|Lemma|Theorem)\s+{NAME}(?s:.*)",
]
# tactics that leave a proof open, make a constant that no sentence declares, or compute outside of the small kernel
FORBIDDEN = re.compile(r"\b(?:admit|give_up|\w+_no_check|(?:transparent_)?abstract|(?:vm|native)_compute)\b|<:")
HIDDEN = re.compile(r"[{}`]|:>")  # arguments that Coq fills in, and coercions: neither is printed
IN_SECTIONS = ("Variable", "Hypothesis", "Let", "Local")


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
            return "\n".join([*lines, *[f"NOT accepted: {why}" for why in self.refused]])
        count = f"{len(self.theorems)} theorem{'s' * (len(self.theorems) != 1)}"
        return "\n".join(
            [*lines, f"accepted by Coq's kernel: {count}", "trusted:", *[f"    {what}" for what in TRUSTED]]
        )


PIECE = re.compile(r'(?P<string>"[^"]*")|(?P<open>\(\*)|(?P<close>\*\))|(?P<end>\.(?!\S))|.', re.S)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a file of Coq, without comments, which nest and may hold strings."""
    said, depth = "", 0
    for match in PIECE.finditer(text):
        piece = match.lastgroup
        if piece == "open":
            depth += 1
        elif piece == "close" and depth:
            depth -= 1
            said += "" if depth else " "
        elif piece == "end" and not depth:
            yield said.strip()
            said = ""
        elif match[0] == '"':  # without an end
            said, depth = match[0], 1
            break
        elif not depth:
            said += match[0]
    if depth or said.strip():
        raise Unread("the file ends within a comment, a string or a sentence")


def refusals(text: str) -> list[str]:
    """The sentences that a certificate may not have, and why."""
    try:
        every = list(sentences(text))
    except Unread as error:
        return [str(error)]
    result = list(looks(text, every))
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
        elif sentence in ("Proof", "Proof using All"):
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


def looks(text: str, every: list[str]) -> Iterator[str]:
    """Why a text may not be what it looks like: characters that are not seen, and letters that look like others."""
    if strange := {c for c in text if c not in " \n\t" and (c.isspace() or category(c).startswith("C"))}:
        yield f"characters that are not seen: {sorted(map(ascii, strange))}"
    if strange := {c for c in "".join(every) if not c.isascii() and c not in f"Σ{GREEK}"}:
        yield f"letters that may look like others: {sorted(strange)}"


def _refused(sentence: str, depth: int) -> Iterator[str]:
    """Why a sentence outside of a proof is refused."""
    if not any(re.fullmatch(form, sentence) for form in SENTENCES):
        yield "a certificate has no such sentence"
    elif re.search(r"(?<!#)\[", sentence) or HIDDEN.search(sentence) or FORBIDDEN.search(sentence):
        yield "a certificate has no arguments that are left out, no coercion and no such tactic"
    elif sentence.startswith(IN_SECTIONS) and not depth:
        yield "outside of a section it is an assumption"


def absent() -> str:
    """The part of Coq that is not installed, in a sentence: coqc, or its library Coquelicot; empty if none."""
    part = "coqc is"
    if shutil.which("coqc"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "library.v"
            file.write_text("From Coquelicot Require Coquelicot.\n", encoding="utf-8")
            done = subprocess.run(["coqc", "-q", str(file)], env=environment(), capture_output=True, encoding="utf-8")
        part = "coqc has no library Coquelicot: it is" if "Coquelicot" in done.stderr and done.returncode else ""
    return part and f"{part} not installed; on Debian and Ubuntu it comes with the packages {PACKAGES}"


def environment() -> dict[str, str]:
    """The variables of the environment but those that name other libraries of Coq."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("COQ", "OCAML", "XDG_"))}


class Coq:
    """A folder in which coqc runs: the library, compiled once, and certificates.

    seconds: of a processor, at most, for one run of coqc; None, for certificates of our own: as long as it takes.
    """

    def __init__(self, folder: Path, seconds: int | None = SECONDS):
        self.folder, self.seconds = folder, seconds
        error = self.run(LIBRARY, [library()])[1] if shutil.which("coqc") else "there is no coqc"
        if error and (missing := absent()):
            raise ModuleNotFoundError(missing)
        if error:
            raise RuntimeError(f"certify: the library of Coq does not compile: {error}")

    def run(self, name: str, lines: list[str]) -> tuple[str, str]:
        """Write and compile a file: what coqc prints, and its error, empty if there is none."""
        (self.folder / f"{name}.v").write_text("\n".join([*lines, ""]), encoding="utf-8")
        call = ["coqc", "-q", "-w", "none", "-R", str(self.folder), LIBRARY, f"{name}.v"]
        if sys.platform != "win32":
            limits = f"ulimit -t {self.seconds or 'unlimited'}; ulimit -v {BYTES // 1024} 2> /dev/null"
            call = ["sh", "-c", f'{limits}; exec "$@"', "sh", *call]
        patience = self.seconds and PATIENCE
        try:
            run = subprocess.run(
                call, cwd=self.folder, env=environment(), capture_output=True, encoding="utf-8", timeout=patience
            )
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
        if error := self.run("certificate", [text])[1]:
            return Certified(refused=[f"coqc: {error}"])
        names, defined = (
            [re.match(rf"{word}\s+({NAME})", s)[1] for s in sentences(text) if s.startswith(word)]
            for word in ("Theorem", "Definition")
        )
        try:
            statements, result.definitions, result.axioms = self._printed(names, defined)
        except Unread as error:
            return Certified(refused=[str(error)])
        result.theorems = [CertifiedTheorem(*pair) for pair in zip(names, statements, strict=True)]
        known = Definitions(dict(zip(defined, result.definitions, strict=True)))
        why = {theorem.name: refusal(theorem.statement, known) for theorem in result.theorems}
        result.refused += [*known.refused, *[f"{name}: {said}" for name, said in why.items() if said]]
        result.refused += [f"a theorem rests on the axiom {a}" for a in result.axioms if a not in AXIOMS]
        return result

    def _printed(self, theorems: list[str], definitions: list[str]) -> tuple[list[str], list[str], tuple[str, ...]]:
        """The statement of each theorem, each definition, and the axioms under the theorems, as Coq prints them.

        What is printed leaves out arguments, as the space of a derivative. So Coq reads it once more, where no word has
        been changed: a theorem must prove what its statement is then, and a definition be equal to its formula.
        """
        clean = [f"From {LIBRARY} Require certificate.", *[f"{sentence}." for sentence in OPENING]]
        asked = [*clean, "Set Printing Width 110.", "Set Printing Depth 10000."]
        for command in [f"Check certificate.{n}" for n in theorems] + [f"Print certificate.{n}" for n in definitions]:
            asked += [f"{command}.", f'Goal True. idtac "{MARK}". Abort.']
        asked += [f"Definition all_theorems := ({', '.join(f'certificate.{name}' for name in theorems)})."]
        asked += ["Print Assumptions all_theorems."]
        printed, error = self.run("asked", asked)
        if error:
            raise RuntimeError(f"certify: coqc does not print the theorems: {error}")
        *parts, assumptions = printed.split(MARK)
        parts = [re.split(r"\n\n", part.strip())[0] for part in parts]
        statements = [re.sub(r"^\S+\s+:\s+", "", part) for part in parts[: len(theorems)]]
        formulas = [re.split(r"\n\s+: ", part)[0].partition("=")[2] for part in parts[len(theorems) :]]
        read = [f"Goal {said}. exact certificate.{theorem}. Qed." for theorem, said in zip(theorems, statements)]
        read += [f"Goal certificate.{d} = ({f}). reflexivity. Qed." for d, f in zip(definitions, formulas)]
        if error := self.run("read", [*clean, *read])[1]:
            raise Unread(f"Coq prints other theorems or definitions than it has, something is hidden: {error[:200]}")
        names = {*theorems, *definitions}
        plain = partial(re.sub, rf"\bcertificate\.({NAME})", lambda m: m[1] if m[1] in names else m[0])
        made = [plain(f"{d} = {' '.join(f.split())}") for d, f in zip(definitions, formulas)]
        # what the list says besides names of axioms, such as that a recursion is assumed to end, is in AXIOMS neither
        said = [line.partition(" :")[0].rstrip() for line in re.findall(r"^\S.*", plain(assumptions), re.M)]
        axioms = tuple(a for a in said if a not in ("Axioms:", "Closed under the global context"))
        return [re.sub(r"^ {5,7}", "", plain(s), flags=re.M) for s in statements], made, axioms


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
