"""The collection of results of `derive`: the file has every case, some of it is computed again, a loss is reported."""

import pytest

from tests.symbolic.collection import FILE, cases, outcome, read, report, run
from tests.tools.sampling_rate import THOROUGH

CASES, FROZEN = cases(), read(FILE)
WRONG = {name for name, case in CASES.items() if case.wrong}
RIGHT = [name for name, case in CASES.items() if case.by_hand and not case.wrong and not name.startswith("refused")]
CHEAP = [name for name, entry in FROZEN.items() if entry["seconds"] < 0.1]
SHORT = [*(name for name in FROZEN if name.startswith("backward")), *CHEAP[::12]]


def test_the_file_has_an_entry_for_each_case():
    assert FROZEN.keys() == CASES.keys()


def test_wrong_gradients_are_refuted_by_their_term():
    assert [name for name in WRONG if "refuted" not in FROZEN[name]["verdict"] or FROZEN[name]["proved"]] == []
    assert [name for name, case in CASES.items() if case.words not in FROZEN[name]["text"]] == []


UNDECIDED = {  # no law of products of matrices, or of an order turned round
    "other words: inverse of a product, right dA: -(linalg.inv(B) @ linalg.inv(A)).T @ ones(D, D) @ linalg.inv(A).T",
    "other words: determinant of a square, right dA: 2 * linalg.det(A)**2 * linalg.inv(A).T",
    "other words: determinant of a product, right dA: linalg.det(A) * linalg.det(B) * linalg.inv(A).T",
    "other words: log-determinant of a product, right dA: linalg.inv(A).T",
}


def test_right_gradients_are_proved():
    assert {name for name in RIGHT if not FROZEN[name]["proved"]} == UNDECIDED


@pytest.mark.parametrize("name", FROZEN if THOROUGH else SHORT)
def test_results_are_those_of_the_file(name):
    now, before = run(CASES[name]), FROZEN[name]
    assert (now["verdict"], now["proved"], now["text"]) == (before["verdict"], before["proved"], before["text"])


def changed(name: str, **entry) -> tuple[dict, str]:
    """The report for the file in which an entry is another."""
    return report(FROZEN, FROZEN | {name: FROZEN[name] | entry}, WRONG)


def test_a_planted_change_is_reported():
    proved = next(name for name, entry in FROZEN.items() if entry["proved"])
    refused = next(name for name, entry in FROZEN.items() if not entry["text"])
    wrong = min(WRONG & FROZEN.keys())
    assert report(FROZEN, FROZEN, WRONG)[0] == {}
    for name, what, entry in (
        (proved, "LOST", {"proved": False, "verdict": "NOT proved: planted"}),
        (refused, "gained", {"proved": True, "verdict": "proved for any size", "text": "f:"}),
        (refused, "refused", {"verdict": "NotDerivable: planted"}),
        (wrong, "FALSE PROOF", {"proved": True, "verdict": "∂𝓛/∂x: proved for any size"}),
        (proved, "verdict", {"verdict": "proved for any size, where planted"}),
        (proved, "longer", {"text": FROZEN[proved]["text"] + "\nplanted"}),
        (proved, "text", {"text": "planted"}),
    ):
        count, text = changed(name, **entry)
        assert count == {what: 1}
        assert f"{what:<11} {name}\n" in text
        assert "planted" in text or what in ("gained", "FALSE PROOF")
    slower = changed(proved, seconds=FROZEN[proved]["seconds"] + 30)
    assert slower[0] == {} and f": {proved}\n" in slower[1] and "times the seconds" in slower[1]


def test_cases_that_come_and_go_are_named():
    entry = FROZEN[next(iter(FROZEN))]
    assert outcome(None, entry, False) == "new"
    assert outcome(entry, None, False) == "gone"
    assert outcome(entry | {"proved": True}, entry | {"proved": False}, True) == "refuted"
