"""Generated programs, whose answers must be PyTorch's: no key, no change of a view and no hook gives another value."""

import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import tinytensor as tt
from tests.samples import programs
from tests.samples.programs import KINDS, REFUSED, answer, checksum
from tinytensor.core import views

PARTS = 8


def stored(category: str) -> np.ndarray:
    """PyTorch's answers (number of programs, 2)."""
    return load_file(Path(__file__).parent / "samples" / "oracle" / "programs" / f"{category}.safetensors")["answers"]


def differing(category: str, numbers) -> list[int]:
    """The programs to which PyTorch has another answer; where it has none, ours may have one (it keeps more copies)."""
    answers = [tuple(int(a) for a in row) for row in stored(category)]
    return [n for n in numbers if answers[n] != REFUSED and answer(tt, category, n) != answers[n]]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("category", KINDS)
def test_programs_match_stored_pytorch_results(category, part):
    assert differing(category, range(part, KINDS[category][1], PARTS)) == []


@pytest.mark.parametrize("category", KINDS)
def test_stored_answers_vary(category):
    answers = stored(category)
    assert answers.shape == (KINDS[category][1], 2)
    refused = (answers == 0).all(1)
    assert 0.02 < refused.mean() < 0.3  # some keys are wrong, most are right
    assert len({tuple(row) for row in answers[~refused]}) > 0.5 * (~refused).sum()  # empty results are all alike


def test_wrong_keys_are_refused():
    """Where PyTorch refuses a key, so do we: a key that means nothing must not mean something by accident."""
    refused = np.flatnonzero((stored("keys") == 0).all(1))
    assert [int(n) for n in refused if answer(tt, "keys", int(n)) != REFUSED] == []


# --- The comparison tested


def test_numpys_reading_of_a_key_is_noticed(monkeypatch):
    """A whole number beside an index array, read as NumPy reads it."""
    read = tt.Tensor.__getitem__

    def numpy_reads(x, key):
        if key.__class__ is tuple and any(isinstance(k, tt.Tensor | np.ndarray | list | tuple | range) for k in key):
            key = tuple([k] if k.__class__ is int else k for k in key)
        return read(x, key)

    monkeypatch.setattr(tt.Tensor, "__getitem__", numpy_reads)
    assert len(differing("keys", range(2000))) > 15


def replace_everywhere(monkeypatch, function, other):
    """Replace a function of the engine in all modules that have imported it."""
    for module in [m for name, m in sys.modules.items() if name.startswith("tinytensor.")]:
        if vars(module).get(function.__name__) is function:
            monkeypatch.setattr(module, function.__name__, other)


def test_view_left_at_its_old_node_is_noticed(monkeypatch):
    """The fault that the programs are for: a view whose place on the tape is still the one it was taken at."""
    replace_everywhere(monkeypatch, views.regenerate_grad_fn, lambda view: None)
    assert len(differing("views", range(500))) > 20


def test_hook_ignored_under_create_graph_is_noticed(monkeypatch):
    hooked = tt.core.tape._after_hooks

    def forgetful(holder, g):
        replaced = hooked(holder, g)
        return g if tt.is_grad_enabled() else replaced

    monkeypatch.setattr(tt.core.tape, "_after_hooks", forgetful)
    assert len(differing("hooks", range(300))) > 10


def test_gradient_counted_twice_by_a_view_is_noticed(monkeypatch):
    """A view that was changed stands on the tape before its base, so it sees what the base's uses send as well."""
    regenerate = views.regenerate_grad_fn

    def stays(view):
        if view._base is not None and view._tape_count == -1:
            view._tape_count = view._version.tape_count
        regenerate(view)

    replace_everywhere(monkeypatch, regenerate, stays)
    assert len(differing("hooks", range(300))) > 5


def test_the_checksum_sees_shape_dtype_and_value():
    x = np.arange(6.0)
    seen = [checksum(a) for a in (x, x.reshape(2, 3), x.astype(np.float32), x + 1, np.zeros(0))] + [checksum(x, x)]
    assert len(set(seen)) == len(seen) and checksum(-0.0 * x) == checksum(0.0 * x)
    assert programs.REFUSED[0] not in seen
