"""utils.tensorboard.SummaryWriter: the records are those that PyTorch 2.13 writes for the same calls."""

import importlib
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tinytensor as tt
from tests.tools.packages import missing
from tinytensor import nn

pytest.importorskip("tensorboard", reason=missing("tensorboard"))
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

from tinytensor.native.platform.distribution import install
from tinytensor.utils.tensorboard import SummaryWriter


def records(folder) -> list:
    """(step, time, value) of every record in the files of a folder, in their order."""
    results = []
    for file in sorted(folder.iterdir()):
        if file.is_file():
            events = map(Event.FromString, RawEventFileLoader(str(file)).Load())
            results += [(event.step, event.wall_time, value) for event in events for value in event.summary.value]
    return results


@pytest.fixture
def writer(tmp_path):
    with SummaryWriter(tmp_path / "run") as made:
        yield made


def written(writer) -> list:
    writer.flush()
    return [value for _, _, value in records(Path(writer.log_dir))]


NUMBERS = [
    1.5,
    2,
    True,
    np.float32(1.5),
    np.array([3]),
    tt.tensor(0.5),
    tt.tensor([[4]]),
    tt.ones((), requires_grad=True),
]


def test_scalars(writer, tmp_path):
    for step, number in enumerate(NUMBERS):
        writer.add_scalar("loss/train", number, step, walltime=7.0 + step)
    writer.add_scalar("loss/train", tt.ones(1, requires_grad=True) * 3, tt.tensor(9))
    writer.add_scalar("no step", 1.0)
    writer.flush()
    result = records(tmp_path / "run")
    values = [1.5, 2.0, 1.0, 1.5, 3.0, 0.5, 4.0, 1.0]
    assert [(step, at, v.tag, v.simple_value) for step, at, v in result[:-2]] == [
        (step, 7.0 + step, "loss/train", value) for step, value in enumerate(values)
    ]
    assert (result[-2][0], result[-2][2].simple_value, result[-1][0]) == (9, 3.0, 0) and result[-1][1] > 1e9
    for wrong in (tt.ones(2), [], "loss", None, 1j):
        with pytest.raises(TypeError, match="add_scalar: expected one number, got"):
            writer.add_scalar("loss", wrong)


def test_readers_of_curves_find_them(writer, tmp_path):
    for step in range(3):
        writer.add_scalar("loss", 1 / (step + 1), step)
    writer.add_histogram("weights", tt.randn(100), 0)
    writer.add_image("picture", tt.zeros(3, 2, 2), 0)
    writer.add_text("words", "some", 0)
    writer.close()
    read = EventAccumulator(str(tmp_path / "run"))
    read.Reload()
    assert [(e.step, e.value) for e in read.Scalars("loss")] == [(0, 1.0), (1, 0.5), (2, pytest.approx(1 / 3))]
    assert read.Histograms("weights")[0].histogram_value.num == 100 and read.Images("picture")[0].width == 2
    assert read.Tags()["tensors"] == ["words/text_summary"]


def test_curves_of_one_plot_are_runs_beside_each_other(writer, tmp_path):
    writer.add_scalars("loss/both", {"train": 1, "test": tt.tensor(2.0)}, 4)
    writer.flush()
    folders = {folder.name: records(folder) for folder in (tmp_path / "run").iterdir() if folder.is_dir()}
    assert {name: [(step, v.tag, v.simple_value) for step, _, v in entry] for name, entry in folders.items()} == {
        "loss_both_train": [(4, "loss/both", 1.0)],
        "loss_both_test": [(4, "loss/both", 2.0)],
    }


def test_histogram(writer):
    """The numbers of PyTorch's file."""
    writer.add_histogram("h", tt.tensor([-1.0, 0.0, 0.5, 0.5, 3.0], requires_grad=True) * 1, 5)
    writer.add_histogram("ten", np.arange(100.0), 5, bins=10)
    writer.add_histogram("three", range(100), 5, bins="auto", max_bins=4)
    writer.add_histogram("edges", [1, 1, 5], bins=[0, 2, 4, 6, 8])
    first, ten, three, edges = [value.histo for value in written(writer)]
    assert (first.min, first.max, first.num, first.sum, first.sum_squares) == (-1.0, 3.0, 5.0, 3.0, 10.5)
    limits = list(first.bucket_limit)
    filled = [(limits[i - 1], limits[i], count) for i, count in enumerate(first.bucket) if count]
    assert len(limits) == len(first.bucket) == 595
    assert np.allclose(
        filled,
        [
            (-1.0089710279437536, -0.917246389039776, 1),
            (0, 1e-12, 1),
            (0.47069243095356195, 0.5177616740489182, 2),
            (2.8787120958073054, 3.1665833053880363, 1),
        ],
        rtol=1e-12,
        atol=0,
    )
    assert list(ten.bucket) == [0] + [10] * 10 and np.allclose(ten.bucket_limit, np.linspace(0, 99, 11))
    assert list(three.bucket) == [0, 25, 25, 25, 25] and list(three.bucket_limit) == [0, 24.75, 49.5, 74.25, 99]
    assert (list(edges.bucket), list(edges.bucket_limit)) == ([0, 2, 0, 1], [0, 2, 4, 6])
    assert (three.sum, three.sum_squares) == (4950.0, 328350.0)
    with pytest.raises(ValueError, match="add_histogram: none has no values"):
        writer.add_histogram("none", tt.empty(0))


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e30, np.inf, np.nan, -1.0])
def test_histogram_of_odd_values_is_written(writer, value):
    writer.add_histogram("h", [value])
    writer.add_histogram("h", [value, 1.0])
    one, two = [v.histo for v in written(writer)]
    assert (one.num, two.num) == (1, 2) and sum(two.bucket) >= 1
    for histogram in (one, two):
        assert len(histogram.bucket) == len(histogram.bucket_limit) == len(set(histogram.bucket_limit))


def test_text(writer):
    writer.add_text("notes", "**π** \ud800", 6)
    (value,) = written(writer)
    assert value.tag == "notes/text_summary" and value.metadata.plugin_data.plugin_name == "text"
    assert value.tensor.string_val[0].decode() == "**π** ?" and value.tensor.tensor_shape.dim[0].size == 1


def pixels(value) -> np.ndarray:
    read = np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))
    assert (value.image.height, value.image.width) == read.shape[:2]
    assert value.image.colorspace == (1 if read.ndim == 2 else read.shape[2])
    return read


COLOURS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 14  # height, width, channels


@pytest.mark.parametrize("formats", ["CHW", "HWC", "WHC", "hwc"])
def test_images_of_every_order_of_dimensions(writer, formats):
    image = np.transpose(COLOURS, ["HWC".index(letter) for letter in formats.upper()])
    for argument in (image, tt.tensor(image), image / 255, tt.tensor(image / 255, requires_grad=True)):
        writer.add_image("i", argument, 7, dataformats=formats)
    result = written(writer)
    assert len(result) == 4
    for value in result:
        assert np.abs(pixels(value).astype(int) - COLOURS).max() <= (0 if value in result[:2] else 1)


def test_grey_and_transparent_images(writer):
    grey = np.array([[0.0, 0.5], [1.0, 7.0], [-1.0, np.nan]])
    writer.add_image("two", grey, dataformats="HW")
    writer.add_image("one channel", tt.tensor(grey)[None])
    writer.add_image("alpha", np.zeros((4, 2, 2), np.uint8))
    two, channel, alpha = written(writer)
    assert pixels(two).tolist() == pixels(channel).tolist() == [[0, 127], [255, 255], [0, 0]]
    assert pixels(alpha).shape == (2, 2, 4)
    for wrong, formats in ((np.zeros((3, 2)), "CHW"), (np.zeros((3, 2, 2)), "NHW"), (np.zeros((2, 2, 2)), "CHW")):
        with pytest.raises(ValueError, match=r"add_image: wrong has .*; expected"):
            writer.add_image("wrong", wrong, dataformats=formats)


def test_figure(writer):
    matplotlib = pytest.importorskip("matplotlib", reason=missing("matplotlib"))
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for close in (False, True):
        figure = pyplot.figure(figsize=(1, 2), dpi=50)
        figure.add_subplot().plot([1, 2])
        writer.add_figure("f", figure, 8, close=close)
        assert pyplot.fignum_exists(figure.number) is not close
        pyplot.close(figure)
    for value in written(writer):
        assert pixels(value).shape == (100, 50, 4) and pixels(value).std() > 0
    with pytest.raises(TypeError, match="add_figure: f is a list; expected one figure of matplotlib"):
        writer.add_figure("f", [figure])


def test_folder_flush_and_close(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_lr", filename_suffix=".mine")
    (folder,) = (tmp_path / "runs").iterdir()
    assert str(folder.relative_to(tmp_path)) == writer.log_dir == writer.get_logdir() and folder.name.endswith("_lr")
    assert [file.name.endswith(".mine") for file in folder.iterdir()] == [True]
    writer.add_scalar("a", 1.0)
    writer.flush()
    assert len(records(folder)) == 1
    writer.close()
    writer.close()
    writer.add_scalar("a", 2.0)  # PyTorch's goes on, too
    writer.close()
    assert [value.simple_value for _, _, value in records(folder)] == [1.0, 2.0]
    with SummaryWriter(tmp_path / "again", purge_step=5) as writer:
        writer.add_scalar("a", 1.0, 5)
    (file,) = (tmp_path / "again").iterdir()
    events = [Event.FromString(raw) for raw in RawEventFileLoader(str(file)).Load()]
    assert [event.step for event in events if event.HasField("session_log")] == [5]


def test_a_training_program_of_pytorchs(tmp_path):
    tt.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
    x, y = tt.randn(16, 2), tt.randn(16, 1)
    with SummaryWriter(log_dir=str(tmp_path)) as writer:
        for step in range(3):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            writer.add_scalar("Loss/train", loss, step)
            for name, p in model.named_parameters():
                writer.add_histogram(name, p, step)
                writer.add_histogram(f"{name}.grad", p.grad, step)
    assert len(records(tmp_path)) == 3 * 5


def test_missing_methods_and_a_missing_package_say_so(writer, monkeypatch):
    with pytest.raises(
        AttributeError, match=r"SummaryWriter.add_graph: PyTorch has it, tinytensor does not; add_scalar"
    ):
        writer.add_graph(nn.Linear(2, 1))
    assert not hasattr(writer, "add_embedding") and not hasattr(writer, "nonsense")
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    for module in ("utils", "interop"):
        monkeypatch.delitem(sys.modules, f"tinytensor.{module}.tensorboard")
    with pytest.raises(ImportError) as raised:
        importlib.import_module("tinytensor.utils.tensorboard")
    assert f"utils.tensorboard needs the package tensorboard: {install('tensorboard')}" in str(raised.value)
