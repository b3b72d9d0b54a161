"""The short form of every part finds nothing, and what should be found is: `python -m tests.fuzz` tries more."""

import os
from functools import cache

import pytest

import tinytensor
from tests.fuzz import __main__ as command
from tests.fuzz import calls, commands
from tests.fuzz.tally import Diary, Tally, TooLong, is_sentence, limited
from tests.tools.sampling_rate import THOROUGH

PIECE = {name: (0, 1 if THOROUGH or name == "calls" else 6) for name in command.PARTS}  # calls is compared as a whole


@cache
def short(name: str) -> Tally:
    """What the short form of a part, or a sixth of it, counts and finds."""
    return command.in_processes(name, "short", limit=3600, share=PIECE[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", command.PARTS)
def test_short_campaign_finds_nothing(name):
    tally = short(name)
    assert not tally.findings, tally.report()
    assert tally.counts.total() >= 1


@pytest.mark.slow
def test_shares_cover_each_case_once():
    of_three = [list(Diary(None, (k, 3)).mine(range(10))) for k in range(3)]
    assert sorted(of_three[0] + of_three[1] + of_three[2]) == list(range(10))
    halves = [command.in_processes("calls", "short", 600, jobs, share=(k, 2)) for k, jobs in ((0, 2), (1, 1))]
    assert halves[0].counts + halves[1].counts == short("calls").counts
    assert command.share("3/8") == (2, 8)
    for wrong in ("0/8", "9/8", "3", "-1/2", "a/b"):
        with pytest.raises(command.argparse.ArgumentTypeError, match="one of so many"):
            command.share(wrong)


# --- Negative controls


def test_raw_error_messages_are_recognised():
    with pytest.raises(AttributeError) as raw:
        tinytensor.set_num_threads.nothing  # noqa: B018
    with pytest.raises(TypeError) as python:
        (lambda x: x)()
    with pytest.raises(IndexError) as sentence:
        tinytensor.tensor([1.0])[5]
    assert is_sentence(sentence.value)
    assert not is_sentence(python.value)
    with pytest.raises(ValueError) as numpy:  # noqa: PT011
        tinytensor.tensor([1.0]).numpy().reshape(7)
    assert not is_sentence(numpy.value)
    assert not is_sentence(raw.value)


def test_wrong_result_of_an_operation_is_found(monkeypatch):
    def broken(x, *args, **kwargs):
        if not isinstance(x, tinytensor.Tensor):
            return x.shape  # Python's words, not ours
        x.data.fill_(0.0)
        raise ValueError("relu: refused, but an argument was changed")

    real = calls.cases
    monkeypatch.setattr(tinytensor, "relu", broken)
    monkeypatch.setattr(calls, "cases", lambda one_in: (c for c in real(one_in) if c[1] == "relu"))
    tally = calls.fuzz(1, Diary(None))
    assert tally.counts["findings"] > 10
    assert any("has no attribute 'shape'" in what for what in tally.findings)


def test_values_unlike_pytorch_are_found():
    class Like:
        """A tensor of PyTorch, as far as it is looked at."""

        def __init__(self, array):
            self.array = array

        def detach(self):
            return self

        resolve_conj = detach

        def numpy(self):
            return self.array

    x = tinytensor.tensor([1.0, 2.0])
    assert not calls.differs([x], [Like(x.numpy())])
    assert calls.differs([x], [Like(x.numpy() + 1)]).startswith("[1. 2.] for [2. 3.]")
    assert calls.differs([x], [Like(x.numpy()[:1])]).startswith("float32(2,) for float32(1,)")
    assert calls.differs([x], []) == "1 results for 0"


def test_dying_process_is_found(monkeypatch):
    monkeypatch.setattr(command.sys, "executable", "/bin/false")
    tally = command.in_processes("files", "short", limit=3600)
    assert [what.strip() for what in tally.findings] == ["exit code 1, at: the beginning"]


def test_endless_process_is_found():
    tally = command.in_processes("kills", "long", limit=0.5, jobs=2)
    assert len(tally.findings) == 2
    assert all("no end in 0 s, at: " in what for what in tally.findings)


def test_hanging_command_or_traceback_is_found(monkeypatch):
    def hang(arguments):
        while True:
            pass

    tally = Tally()
    monkeypatch.setattr(commands.cli, "main", hang)
    commands.judge(tally, "hang", *commands.run(["info"], seconds=0.2))
    monkeypatch.setattr(commands.cli, "main", lambda arguments: {}["x"])
    commands.judge(tally, "raw", *commands.run(["info"]))
    monkeypatch.setattr(commands.cli, "main", lambda arguments: os.EX_USAGE)
    commands.judge(tally, "code", *commands.run(["info"]))
    assert [what.split(":")[0] for what in tally.findings] == ["hang", "raw", "code"]
    with pytest.raises(TooLong), limited(0.05):
        hang([])
