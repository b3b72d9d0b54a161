"""Certificates are checked: the file is read, `coqc` compiles it, and its theorems and their axioms are printed.

A certificate may say few kinds of sentences (`SENTENCES`), so that nothing in it can assume a statement, change what a
word means, or read another file. `coqc` then checks every proof; a second file, written here, asks it for the
definitions, the statements of the theorems, and the axioms under them. statements.py reads what it prints.
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
from tinytensor.symbolic.certificates.statements import Definitions, Unread, refusal

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
NAME = r"[^\W\d][\w']*"
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
# tactics that leave a proof open, make a constant that no sentence declares, or compute outside of the small kernel;
# arguments that Coq fills in, and coercions
FORBIDDEN = re.compile(
    r"\b(?:admit|give_up|\w+_no_check|(?:transparent_)?abstract|(?:vm|native)_compute)\b|<:|[{}`]|:>|(?<!#)\[(?=\w+ :)"
)
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


def sentences(text: str) -> list[str]:
    """The sentences of a file of Coq, without its comments, in which there is no other comment and no string."""
    said = re.sub(r"\(\*(?:(?!\(\*|\*\)).)*\*\)", " ", text, flags=re.S)
    *result, last = re.split(r"\.(?!\S)", said)
    if last.strip() or re.search(r'"|\(\*|\*\)', said) or '"' in text:
        raise Unread("the file has a string or a comment in a comment, or it ends within one or within a sentence")
    return [sentence.strip() for sentence in result]


def refusals(text: str) -> list[str]:
    """The sentences that a certificate may not have, and why."""
    try:
        every = sentences(text)
    except Unread as error:
        return [str(error)]
    result = list(looks(text, every))
    depth, in_proof = 0, False
    for sentence in every:
        short = " ".join(sentence.split())[:80]
        if in_proof:
            command = sentence.lstrip("-+*{} \n\t")
            in_proof = command != "Qed"
            if in_proof and (FORBIDDEN.search(command) or re.match(r"[^a-z[(]", command)):
                result.append(f"{short!r} within a proof")
        elif sentence in ("Proof", "Proof using All"):
            in_proof = True
        else:
            if not any(re.fullmatch(form, sentence) for form in SENTENCES) or FORBIDDEN.search(sentence):
                result.append(f"{short!r}: a certificate has no such sentence")
            if sentence.startswith(IN_SECTIONS) and not depth:
                result.append(f"{short!r}: outside of a section it is an assumption")
            depth += sentence.startswith("Section") - sentence.startswith("End")
    if in_proof:
        result.append("a proof without Qed")
    if not any(sentence.startswith("Theorem") for sentence in every):
        result.append("there is no theorem")
    return result


def looks(text: str, every: list[str]) -> Iterator[str]:
    """Why a text may not be what it looks like: characters that are not seen, and letters that look like others."""
    if strange := {c for c in text if c not in " \n\t" and (c.isspace() or category(c).startswith("C"))}:
        yield f"characters that are not seen: {sorted(map(ascii, strange))}"
    if strange := {c for c in "".join(every) if not c.isascii() and c not in f"Σ{GREEK}"}:
        yield f"letters that may look like others: {sorted(strange)}"


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
        used = " or ".join([f"{self.seconds} s of a processor"] * bool(self.seconds) + [f"{BYTES / 2**30:.0f} GB"])
        message = run.stderr.strip() or f"coqc is stopped: {used} are used up"
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
        commands = [
            *[f"Check certificate.{name}" for name in names],
            *[f"Print certificate.{name}" for name in defined],
        ]
        every = ", ".join(f"certificate.{name}" for name in names)
        last = [f"Definition all_theorems := ({every})", "Print Assumptions all_theorems"]
        *printed, assumptions = self.asked([*commands, "Set Printing All", *commands, *last])
        clear = partial(re.sub, rf"\bcertificate\.({NAME})", lambda m: m[1] if m[1] in {*names, *defined} else m[0])
        for name, said in zip(names, printed):
            statement = re.sub(r"^ {5,7}", "", clear(said.partition(":")[2].strip()), flags=re.M)
            result.theorems.append(CertifiedTheorem(name, statement))
        for said in printed[len(names) : len(commands)]:
            result.definitions.append(" ".join(clear(re.split(r"\n\s+: ", said)[0]).split()))
        whole = printed[len(commands) + 1 :]  # with nothing left out, as the space of a derivative
        known = Definitions({name: said.partition("=")[2] for name, said in zip(defined, whole[len(names) :])})
        result.refused += known.refused
        for name, said in zip(names, whole):
            if why := refusal(said.partition(":")[2], known):
                result.refused.append(f"{name}: {why}")
        # what the list says besides names of axioms, such as that a recursion is assumed to end, is in AXIOMS neither
        said = [line.partition(" :")[0].rstrip() for line in re.findall(r"^\S.*", clear(assumptions), re.M)]
        result.axioms = tuple(a for a in said if a not in ("Axioms:", "Closed under the global context"))
        result.refused += [f"a theorem rests on the axiom {a}" for a in result.axioms if a not in AXIOMS]
        return result

    def asked(self, commands: list[str]) -> list[str]:
        """What Coq prints at each command, where no word has been changed."""
        lines = [f"From {LIBRARY} Require certificate", *OPENING, "Set Printing Width 110", "Set Printing Depth 100000"]
        for command in commands:
            lines += [command, f'Goal True. idtac "{MARK}". Abort']
        printed, error = self.run("asked", [f"{line}." for line in lines])
        if error:
            raise RuntimeError(f"certify: coqc does not print the theorems: {error}")
        return [part.strip() for part in printed.split(MARK)[:-1]]


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
