"""The registry of claims and its reports: failures are reported, unknown kinds refused, and other claims still run."""

import builtins
import re
from types import SimpleNamespace

import pytest

from derivations import __main__ as command
from derivations import claims
from derivations.claims import Evidence, Refuted, claim, result_of
from derivations.report import page as report
from tinytensor.native.platform.distribution import install


@pytest.fixture
def empty(monkeypatch):
    """No claims but those that a test declares, no modules to load, and no program that may be absent."""
    monkeypatch.setattr(command, "absent", lambda: "")
    monkeypatch.setattr(claims, "CLAIMS", [])
    monkeypatch.setattr(claims, "import_module", lambda name: None)


def declare(statement="one and one is two", part="eq19", category="proof", size="any size", **more):
    def holds():
        return Evidence(latex=r"1 + 1 = 2", text="1 + 1 = 2")

    return claim(part, statement, category=category, size=size, **more)(holds)


def planted(error, statement="a planted mistake", part="eq19"):
    @claim(part, statement, category="check", size="1")
    def false():
        raise error


# --- The registry


def test_a_claim_is_declared_and_runs(empty, monkeypatch):
    monkeypatch.setattr(claims, "time", SimpleNamespace(perf_counter=iter((5.0, 7.5)).__next__))
    function = declare(assumptions=("addition",), source="003 eq. (19)", trusted=("SymPy",))
    (one,) = claims.CLAIMS
    assert one.run is function and one.assumptions == ("addition",) and one.source == "003 eq. (19)"
    result = result_of(one)
    assert result.error is None and result.why == "" and result.seconds == 2.5
    assert result.evidence.latex == "1 + 1 = 2"


def test_evidence_is_optional(empty):
    claim("eq17", "nothing to show", category="proof", size="any size")(lambda: None)
    assert result_of(claims.CLAIMS[0]).evidence == Evidence()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"part": "eq18"}, ValueError, "eq18.*index, eq17"),
        ({"category": "guess"}, ValueError, "guess.*proof, proof at sizes, sampled, check, erratum"),
        ({"size": "D=4"}, ValueError, 'proof of size .D=4.: a "proof" is for any size'),
        ({"category": "proof at sizes"}, ValueError, "proof at sizes of size 'any size'"),
        ({"category": "erratum", "printed": "a"}, ValueError, "`printed` and `right` belong to"),
        ({"printed": "a", "right": "b"}, ValueError, "belong to an erratum or a choice, which need both"),
        ({"assumptions": "one string"}, TypeError, "tuple of sentences"),
        ({"trusted": "one string"}, TypeError, "tuple of sentences"),
    ],
)
def test_invalid_declarations_are_refused(empty, changes, error, message):
    with pytest.raises(error, match=message):
        declare(**changes)


def test_statement_declared_twice_is_refused(empty):
    declare()
    with pytest.raises(ValueError, match="already has a claim"):
        declare()
    declare(part="eq17")  # in another part it may stand again


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (Refuted("3 is not 2"), "3 is not 2"),
        (Refuted("3 is not 2", rule="mul.grad_a"), "rule mul.grad_a: 3 is not 2"),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        (RecursionError(), "RecursionError: no message"),
    ],
)
def test_failed_claim_says_why(empty, error, why):
    planted(error)
    assert result_of(claims.CLAIMS[0]).why == why


# --- The command


def test_command_reports_claims_that_hold(empty, capsys, tmp_path):
    declare()
    declare("two and two is four", part="eq17")
    assert command.main(["--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.index("two and two is four") < out.index("one and one is two")  # part after part
    assert re.search(r"\[  1/2\] eq17 +proof +two and two is four ... holds: any size \(\d\.\d\d s\)", out)
    assert "2 claims hold: 2 proofs" in out
    assert "1 + 1 = 2" not in out  # mathematics is for the report, or for parts that are asked for


def test_sizes_and_conditions_stand_in_the_line_that_says_holds(empty, capsys, tmp_path):
    declare(assumptions=("no denominator is 0", "ε > 0"))
    assert command.main(["--out", str(tmp_path)]) == 0
    extent = "any size, assuming no denominator is 0; ε > 0"
    assert f"one and one is two ... holds: {extent} (" in capsys.readouterr().out
    assert f"| {extent.replace('>', chr(92) + '>')} |" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert extent.replace(">", "&gt;") in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert command.main(["--list"]) == 0 and extent in capsys.readouterr().out


def test_false_claim_is_named_and_the_others_run(empty, capsys, tmp_path):
    planted(Refuted("3 is not 2", rule="mul.grad_a"))
    planted(KeyError("lost"), statement="an error in the evidence")
    declare()
    assert command.main(["--out", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "FAILED eq19: a planted mistake\n       rule mul.grad_a: 3 is not 2" in out
    assert "FAILED eq19: an error in the evidence\n       KeyError: 'lost'" in out
    assert "one and one is two ... holds" in out
    assert "2 of 3 claims FAILED; held: 1 proof" in out
    for name in ("report.md", "report.html"):
        written = (tmp_path / name).read_text()
        assert "3 is not 2" in written and "FAILED" in written and "KeyError" in written


def test_one_part_prints_its_mathematics_and_writes_nothing(empty, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    declare()
    planted(Refuted("not run"), part="errata")
    assert command.main(["eq19"]) == 0
    out = capsys.readouterr().out
    assert "      1 + 1 = 2\n" in out and "planted" not in out
    assert not list(tmp_path.iterdir())


def test_several_parts(empty, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    declare()
    declare(part="eq17")
    declare(part="errata")
    assert command.main(["errata", "eq17"]) == 0
    assert "2 claims hold" in capsys.readouterr().out


def test_the_report_goes_to_runs(empty, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    declare()
    assert command.main([]) == 0
    assert {p.name for p in (tmp_path / "runs/derivations").iterdir()} == {"report.md", "report.html"}


def test_interrupt_prints_one_sentence(empty, capsys, tmp_path):
    planted(KeyboardInterrupt())
    assert command.main(["--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "\nderivations: interrupted, and no report is written\n"
    assert not list(tmp_path.iterdir())


def test_quick_leaves_out_the_long_parts(empty, capsys):
    for part in ("eq19", *claims.LONG):
        claims.claim(part, f"a claim of {part}", category="check", size="none")(lambda: None)
    assert command.main(["--list", "--quick"]) == 0
    assert capsys.readouterr().out.count("a claim of") == 1
    assert command.main(["--list", "--quick", *claims.LONG]) == 0  # named parts run all the same
    assert capsys.readouterr().out.count("a claim of") == len(claims.LONG)


def test_list_runs_nothing(empty, capsys):
    planted(Refuted("not run"))
    assert command.main(["--list"]) == 0
    out = capsys.readouterr().out
    assert out.split() == ["eq19", "check", "a", "planted", "mistake", "(1)"]


def test_unknown_part_prints_one_sentence(empty, capsys):
    assert command.main(["eq18"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert "no part 'eq18'" in said.err and ", ".join(claims.PARTS) in said.err


def test_without_latex2mathml_the_markdown_is_written(empty, capsys, tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("latex2mathml"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    declare()
    assert command.main(["--out", str(tmp_path)]) == 0
    assert install("proofs") in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]


# --- The summary


@pytest.mark.parametrize(
    ("categories", "line"),
    [
        (["proof"], "1 claim holds: 1 proof"),
        (["proof", "check", "erratum", "erratum"], "4 claims hold: 1 proof, 1 check, 2 errata"),
        (["sampled", "sampled"], "2 claims hold: 2 sampled"),
        (["proof at sizes", "proof at sizes", "choice"], "3 claims hold: 2 proofs at sizes, 1 choice"),
    ],
)
def test_summary_counts_the_claims(empty, categories, line):
    for n, category in enumerate(categories):
        formulas = {"printed": "a", "right": "b"} if category in ("erratum", "choice") else {}
        declare(f"claim {n}", category=category, size="any size" if category == "proof" else "1", **formulas)
    assert report.summary([result_of(c) for c in claims.CLAIMS]).startswith(line)
