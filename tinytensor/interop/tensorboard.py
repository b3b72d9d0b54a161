"""tinytensor.utils.tensorboard: PyTorch's SummaryWriter, which writes curves, histograms, texts and pictures.

The package `tensorboard` shows them: `tensorboard --logdir runs`. It also writes the files; neither TensorFlow nor
PyTorch is needed. The records are those that PyTorch writes.
"""

import io
import socket
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tinytensor.core.tensor import Tensor
from tinytensor.native.platform.distribution import install

try:
    from PIL import Image
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as error:
    raise ImportError(f"utils.tensorboard needs the package tensorboard: {install('tensorboard')} ({error})") from None

__all__ = ["SummaryWriter"]

# The edges of a histogram's bins are 10 % apart, so that values of any size fall into narrow bins.
_POSITIVE = 1e-12 * 1.1 ** np.arange(774)  # up to 1e20
_EDGES = np.concatenate([-_POSITIVE[::-1], [0.0], _POSITIVE])
_ABSENT = {
    *("add_audio", "add_custom_scalars", "add_custom_scalars_marginchart", "add_custom_scalars_multilinechart"),
    *("add_embedding", "add_graph", "add_histogram_raw", "add_hparams", "add_image_with_boxes", "add_images"),
    *("add_mesh", "add_onnx_graph", "add_pr_curve", "add_pr_curve_raw", "add_tensor", "add_video"),
}


class SummaryWriter:
    """Writes records for TensorBoard to a folder, by default runs/DATE_HOST, with `comment` at its end.

    Every record has a tag, and the step as the place on its axis. `flush()` writes what is waiting to the file, and
    `close()` ends it, as does the end of a `with` block. `purge_step` hides what an earlier run wrote to the folder
    from this step on. Values are numbers, arrays, or tensors, on the tape or not.
    """

    def __init__(
        self,
        log_dir: str | PathLike | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ):
        if log_dir is None:
            log_dir = Path("runs") / f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}"
        self.log_dir = str(log_dir)
        self._options = (max_queue, flush_secs, filename_suffix)
        self._files: dict[str, EventFileWriter] = {}  # by folder: add_scalars gives each of its curves its own
        self._file(self.log_dir)
        if purge_step is not None:
            self._files[self.log_dir].add_event(Event(step=purge_step, file_version="brain.Event:2"))
            start = SessionLog(status=SessionLog.START)
            self._files[self.log_dir].add_event(Event(step=purge_step, session_log=start))

    def __getattr__(self, name: str) -> NoReturn:
        if name in _ABSENT:
            written = "add_scalar, add_scalars, add_histogram, add_text, add_image and add_figure"
            raise AttributeError(f"SummaryWriter.{name}: PyTorch has it, tinytensor does not; {written} are here")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A point of a curve, in float32; `new_style` and `double_precision` have no effect."""
        self._write(Summary.Value(tag=tag, simple_value=_number(scalar_value, "add_scalar")), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A point of each of several curves in one plot; each curve has a folder of its own, as a run has."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            point = Summary.Value(tag=main_tag, simple_value=_number(value, "add_scalars"))
            self._write(point, global_step, walltime, folder)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: str | Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How often which values occur. `bins` are edges, or a method of numpy.histogram; by default 10 % apart."""
        numbers = _array(values).astype(np.float64).reshape(-1)
        if not numbers.size:
            raise ValueError(f"add_histogram: {tag} has no values")
        edges = _EDGES if isinstance(bins, str) and bins == "tensorflow" else bins
        with np.errstate(all="ignore"):  # the sum of squares may overflow
            histogram = _histogram(numbers, edges, max_bins)
        self._write(Summary.Value(tag=tag, histo=histogram), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text in Markdown."""
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        text = TensorProto(dtype="DT_STRING", string_val=[text_string.encode("utf-8", "replace")], tensor_shape=shape)
        self._write(Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=text), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture: uint8 from 0 to 255, or floats from 0 to 1; `dataformats` names its dimensions, "HW" for grey."""
        pixels = _array(img_tensor)
        letters = dataformats.upper()
        if sorted(letters) not in (["C", "H", "W"], ["H", "W"]) or pixels.ndim != len(letters):
            raise ValueError(
                f"add_image: {tag} has shape {pixels.shape} and dataformats {dataformats!r}; expected a "
                "letter for each dimension: C (channels), H (height) and W (width), or H and W"
            )
        pixels = pixels.transpose([letters.index(letter) for letter in "HWC" if letter in letters])
        pixels = pixels[..., None] if pixels.ndim == 2 else pixels
        if pixels.shape[2] not in (1, 3, 4) or 0 in pixels.shape:
            raise ValueError(
                f"add_image: {tag} has {pixels.shape[2]} channels and {pixels.shape[0]} x "
                f"{pixels.shape[1]} pixels; expected 1, 3 or 4 channels, and a pixel"
            )
        if pixels.dtype != np.uint8:
            pixels = np.nan_to_num(pixels.astype(np.float64) * 255).clip(0, 255).astype(np.uint8)
        stream = io.BytesIO()
        Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(stream, "PNG")
        self._picture(tag, stream.getvalue(), pixels.shape, global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A figure of matplotlib as a picture; with `close` pyplot forgets it."""
        if not hasattr(figure, "savefig"):
            raise TypeError(f"add_figure: {tag} is a {type(figure).__name__}; expected one figure of matplotlib")
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=figure.dpi)
        with Image.open(stream) as picture:
            size = (picture.height, picture.width, len(picture.getbands()))
        self._picture(tag, stream.getvalue(), size, global_step, walltime)
        if close and "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close(figure)

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def flush(self) -> None:
        """Write what is waiting to the files."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Write what is waiting, and close the files; a record after that begins a new file in the folder."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def _file(self, folder: str) -> EventFileWriter:
        if folder not in self._files:
            self._files[folder] = EventFileWriter(folder, *self._options)
        return self._files[folder]

    def _picture(
        self, tag: str, png: bytes, size: tuple[int, ...], global_step: int | None, walltime: float | None
    ) -> None:
        height, width, channels = size
        image = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=png)
        self._write(Summary.Value(tag=tag, image=image), global_step, walltime)

    def _write(
        self, value: Summary.Value, global_step: int | None, walltime: float | None, folder: str | None = None
    ) -> None:
        event = Event(wall_time=time.time() if walltime is None else walltime, summary=Summary(value=[value]))
        if global_step is not None:
            event.step = int(global_step)
        self._file(folder or self.log_dir).add_event(event)


def _array(values: Any) -> np.ndarray:
    """The values of a tensor, an array, or lists."""
    return np.asarray(values.detach().numpy() if isinstance(values, Tensor) else values)


def _number(value: Any, what: str) -> float:
    """The one number that a curve takes."""
    array = _array(value)
    if array.size != 1 or array.dtype.kind not in "fiub":
        raise TypeError(f"{what}: expected one number, got {array.size} values of {array.dtype}")
    return float(array.reshape(()))


def _histogram(values: np.ndarray, bins: Any, most: int | None) -> HistogramProto:
    """The counts of values in bins, without the empty bins at both ends, in at most this many bins."""
    counts, edges = np.histogram(values, bins)
    if most is not None and counts.size > most:
        together = -(-counts.size // most)
        edges = np.append(edges[:-1:together], edges[-1])
        counts = np.add.reduceat(counts, np.arange(0, counts.size, together))
    filled = np.flatnonzero(counts)
    first, last = (filled[0], filled[-1]) if filled.size else (0, 0)  # all values lie outside
    return HistogramProto(
        min=values.min(),
        max=values.max(),
        num=values.size,
        sum=values.sum(),
        sum_squares=values @ values,
        bucket_limit=edges[first : last + 2],  # a bin reaches from the limit before to its own
        bucket=[0, *counts[first : last + 1]],
    )
