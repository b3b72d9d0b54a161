"""profile: what ran is counted, eager and in replays, and nothing of a result changes."""

import re

import pytest

import tinytensor as tt
from tinytensor.core.dispatch import state
from tinytensor.nn import functional as F


def training():
    tt.manual_seed(0)
    model = tt.nn.Sequential(tt.nn.Linear(4, 8), tt.nn.ReLU(), tt.nn.Linear(8, 3))
    optimizer = tt.optim.AdamW(model.parameters())
    x, y = tt.randn(5, 4), tt.randint(0, 3, (5,))

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, x, y


def calls(profile) -> dict:
    return {name: row.calls for name, row in profile.rows.items()}


def test_a_replay_makes_the_launches_of_an_eager_step():
    step, x, y = training()
    step(x, y)  # gradients are there from now on
    with tt.profile() as eager:
        step(x, y)
    compiled = tt.compile(step)
    compiled(x, y)
    with tt.profile() as replayed:
        compiled(x, y)
    assert calls(eager) == calls(replayed)
    assert calls(eager)["adam"] == 4
    assert eager.rows["matmul"].flops == 2 * (5 * 4 * 8 * 2 + 5 * 8 * 3 * 3)  # no gradient of x is asked for


def test_a_profile_changes_no_bit():
    losses = []
    for watched in (False, True):
        step, x, y = training()
        compiled = tt.compile(step)
        for _ in range(3):
            compiled(x, y)
        if watched:
            with tt.profile():
                losses.append(compiled(x, y).item())
        else:
            losses.append(compiled(x, y).item())
        losses.append(compiled(x, y).item())
    assert losses[:2] == losses[2:]


def test_the_table_shows_calls_and_times():
    a = tt.randn(64, 64)
    with tt.profile() as profile:
        for _ in range(3):
            (a @ a).exp()
    head, *rows, last = str(profile).splitlines()
    assert head.split() == ["kernel", "calls", "ms", "share", "us", "a", "call", "GFLOP/s"]
    shown = {row.split()[0]: row.split() for row in rows}
    assert shown["matmul"][1] == shown["exp"][1] == "3"
    assert float(shown["matmul"][5]) > 0 and len(shown["exp"]) == 5
    assert re.match(r"all +6 ", last)


def test_profile_ends_with_its_block_or_an_error():
    with pytest.raises(ZeroDivisionError), tt.profile():
        1 / 0  # noqa: B018
    assert state.profile is None


def test_index_out_of_range_raises_under_a_profile():
    weight = tt.randn(3, 2)
    lookup = tt.compile(lambda i: F.embedding(i, weight))
    lookup(tt.tensor([0, 1]))
    with tt.profile(), pytest.raises(IndexError, match="7"):
        lookup(tt.tensor([0, 7]))
    assert lookup(tt.tensor([2])).tolist() == weight[2:].tolist()
