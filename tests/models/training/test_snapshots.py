"""Snapshots: the weights at some steps, as a run had them, and the same bytes after it was stopped."""

import numpy as np
import pytest

from models.training import checkpoint, snapshots
from models.training.checkpoint import CheckpointError


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in (folder / snapshots.FOLDER).iterdir()}


def test_some_twenty_steps_of_a_run_are_kept():
    steps = [step for step in range(16_000) if snapshots.due(step)]
    assert steps[:6] == [0, 10, 20, 30, 50, 70] and steps[-3:] == [5000, 7000, 10_000]
    assert 15 <= len(steps) <= 20


def test_snapshots_are_the_weights_of_the_checkpoints(begin):
    trainer = begin(steps=30, checkpoint_every=10)
    kept = {}
    trainer.train(lambda row: kept.update({row["step"]: checkpoint.load(trainer.folder).weights}))
    result = snapshots.read(trainer.folder, 10**8, trainer.model)
    assert list(result) == [0, 10, 20, 30]
    for step in (10, 20, 30):
        for name, value in kept[step].items():
            near = result[step][name].numpy()
            np.testing.assert_allclose(near, value.numpy(), rtol=2**-11, atol=2**-24)
            assert near.flags.c_contiguous
    assert list(snapshots.read(trainer.folder, 20, trainer.model)) == [0, 10]


def test_stopped_run_writes_the_same_snapshots(begin):
    whole = begin("whole", steps=30, checkpoint_every=7)
    whole.train()
    first = begin("stopped", steps=30, checkpoint_every=7)

    def stop(row):
        first.stop = row["step"] == 13

    first.train(stop)
    assert set(bytes_of(first.folder)) == {"step-00000000.safetensors", "step-00000010.safetensors"}
    (first.folder / snapshots.FOLDER / ".step-00000020.safetensors.x").write_bytes(b"half")  # a process was killed
    second = begin("stopped", steps=30, checkpoint_every=7).restore(checkpoint.load(first.folder))
    second.train()
    assert bytes_of(first.folder) == bytes_of(whole.folder)
    ends = [checkpoint.load(trainer.folder).weights for trainer in (whole, second)]
    assert all(np.array_equal(ends[0][name].numpy(), ends[1][name].numpy()) for name in ends[0])


def test_snapshots_change_no_bit_of_the_run(begin, monkeypatch):
    kept = begin("kept", steps=12)
    kept.train()
    monkeypatch.setattr(snapshots, "LARGEST", 0)
    plain = begin("plain", steps=12)
    plain.train()
    assert not (plain.folder / snapshots.FOLDER).exists()
    weights = [trainer.model.state_dict() for trainer in (kept, plain)]
    assert all(np.array_equal(weights[0][name].numpy(), weights[1][name].numpy()) for name in weights[0])


@pytest.mark.parametrize("content", [b"", b"no tensors", None])
def test_damaged_snapshot_is_refused(begin, content):
    trainer = begin(steps=1)
    trainer.train()
    path = trainer.folder / snapshots.FOLDER / "step-00000000.safetensors"
    path.write_bytes(path.read_bytes()[:-1] if content is None else content)
    with pytest.raises(CheckpointError, match=r"step-00000000.safetensors is no snapshot .*: remove it"):
        snapshots.read(trainer.folder, 5, trainer.model)


def test_snapshots_of_another_model_are_refused(begin):
    trainer = begin(steps=1)
    trainer.train()
    other = begin("other", model={"F": 16})
    with pytest.raises(CheckpointError, match="does not hold the weights of this model: remove it"):
        snapshots.read(trainer.folder, 5, other.model)
