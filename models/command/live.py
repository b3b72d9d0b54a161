"""`train --live`: a page on this machine that shows a run while it trains.

The training thread computes everything for the page, between two steps, when a row of the log is due. The server's
threads only wait and send results that are ready: a browser that hangs or goes away delays only itself. Samples for the
page come from generators of their own, so the run has the same bits with the page and without it.

The server listens at 127.0.0.1 and answers only requests that name this host. A web page whose name was made to point
here (DNS rebinding) sends its own name, and gets no answer.
"""

import errno
import json
import math
import socketserver
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np

from models.tasks.task import Glimpse
from models.training.trainer import NonFiniteLoss, Trainer
from tinytensor.native.platform.operating_system import WINDOWS
from tinytensor.nn import Module

HOST, PORT = "127.0.0.1", 8765
PAGE = Path(__file__).with_suffix(".html")
PATIENCE = 5.0  # seconds that a request waits for news; then it gets at least the number of the step
FAREWELL = 2.0  # seconds that the end of a run waits until the browser has its last news
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def gradient_norms(model: Module, before: float | None = None, clip: float = 0.0) -> dict[str, float]:
    """The norm of the gradients of each layer, and of each parameter outside of them, as backward() left them.

    After a step the gradients are clipped: all of them together had the norm `before`, and one factor shortened them to
    `clip` at most. That factor is undone here. (To measure each layer before clipping would make every step slower, for
    the page alone.)
    """
    squares: dict[str, float] = {}
    for name, p in model.named_parameters():
        if p.grad is not None:
            layer, g = _layer(name), p.grad.numpy().astype(np.float64)
            squares[layer] = squares.get(layer, 0.0) + float((g * g).sum())
    shortened = max(1.0, (before + 1e-6) / clip) if clip and before is not None else 1.0  # clip_grad_norm_ has 1e-6 too
    return {layer: shortened * math.sqrt(square) for layer, square in squares.items()}


def _layer(name: str) -> str:
    """ "blocks.0.enter.weight" as people count: "block 1"; "E" and "final.weight" are "E" and "final"."""
    first, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return f"{first.removesuffix('s')} {int(number) + 1}" if number.isdecimal() else first


class Page:
    """The page of one run. It is made before the run, so that an error of the port comes before anything else.

    `port` None is PORT, or any free one if that is taken; 0 is any free one. OSError if the port is not free. In a
    `with` statement the page is served until the end of the block, and shows how the block ended.
    """

    def __init__(self, port: int | None = None):
        try:
            self.server = _Server(self, PORT if port is None else port)
        except OSError as error:
            if port is not None or error.errno != errno.EADDRINUSE:
                raise
            self.server = _Server(self, 0)
        self.port = self.server.server_address[1]
        self.address = f"http://{HOST}:{self.port}/"
        self.run = {"id": f"{time.time_ns():x}", "state": "preparing", "step": 0}
        self.rows: list[dict] = []
        self.glimpse: dict | None = None
        self.news = threading.Condition()
        self.version = 0  # counts the changes
        self.asked, self.sent_version = -math.inf, -1  # when a browser was last here, and which version it got
        self.trainer: Trainer | None = None
        self.paces: deque[tuple[int, float]] = deque(maxlen=20)  # steps and when: how fast it goes of late

    def __enter__(self) -> "Page":
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        return self

    def __exit__(self, error_type, error, trace) -> None:
        if error is not None:
            why = str(error) if isinstance(error, NonFiniteLoss | OSError | MemoryError) else error_type.__name__
            self._tell(state="failed", why=why)
        with self.news:
            watched = time.monotonic() - self.asked < PATIENCE
            if watched:  # without a browser there is no wait
                self.news.wait_for(lambda: self.sent_version >= self.version, FAREWELL)
        self.server.shutdown()
        self.server.server_close()

    # --- In the training thread

    def show(self, trainer: Trainer) -> None:
        """Show this run from here on: the rows of its log so far, and a sample of the model as it is now."""
        self.trainer, task, settings = trainer, trainer.task, trainer.settings
        self.run |= {
            "task": task.name,
            "folder": str(trainer.folder),
            "model": f"{trainer.config.sizes()}: {trainer.model.num_parameters():,} parameters",
            "about": task.describe(),
            "step": trainer.step,
            "steps": settings.steps,
            "clip": settings.clip,
        }
        self.rows += trainer.log.rows
        self._look_inside(trainer.step)
        self._tell(state="training")

    def look(self, row: dict) -> None:
        """`Trainer.train` calls this after each step; rows of the log go to the page."""
        self.run["step"] = row["step"]
        if "lr" not in row:
            return
        self.paces.append((row["step"], time.monotonic()))
        (first, began), (last, now) = self.paces[0], self.paces[-1]
        model, clip, before = self.trainer.model, self.trainer.settings.clip, self.trainer.norm
        norms = gradient_norms(model, None if before is None else before.item(), clip)
        self.rows.append(row | {"norms": norms})
        if "heldout_loss" in row:
            self._look_inside(row["step"])
        self._tell(seconds_per_step=(now - began) / (last - first) if last > first else None)

    def end(self, finished: bool) -> None:
        """Show that the run is finished, or that it was stopped."""
        self._tell(state="finished" if finished else "stopped")

    def _look_inside(self, step: int) -> None:
        """A sample and an attention map. An error here must not end the run: the page shows it instead."""
        trainer, training = self.trainer, self.trainer.model.training
        try:
            glimpse = _shown(trainer.task.glimpse(trainer.model, trainer.settings.seed))
        except Exception as error:
            glimpse = {"why": f"{type(error).__name__}: {error}"}
        finally:
            trainer.model.train(training)
        self.glimpse = {"step": step, "version": self.version + 1} | glimpse

    def _tell(self, **news) -> None:
        with self.news:
            self.run.update(news)
            self.version += 1
            self.news.notify_all()

    # --- In the server's threads

    def answer(self, run: str, version: int, rows: int) -> dict:
        """The news for a page that has `rows` rows and `version` of this run; waits a while if there are none."""
        with self.news:
            self.asked = time.monotonic()
            if run == self.run["id"]:
                self.news.wait_for(lambda: self.version != version, PATIENCE)
                self.asked = time.monotonic()
            else:  # the page knows another run, or asks for the first time
                version, rows = -1, 0
            new = self.glimpse is not None and self.glimpse["version"] > version
            return {
                "run": dict(self.run),
                "version": self.version,
                "first": rows,
                "rows": self.rows[rows:],
                "glimpse": self.glimpse if new else None,
            }

    def mark_sent(self, version: int) -> None:
        """A browser has received the news of `version`."""
        with self.news:
            self.sent_version = version
            self.news.notify_all()


def _shown(glimpse: Glimpse) -> dict:
    """A glimpse as JSON can hold it; weights in thousandths, since a picture shows no more."""
    maps = np.rint(np.asarray(glimpse.maps, dtype=np.float64) * 1000)
    if not np.isfinite(maps).all():
        raise ValueError("attention weights that are not finite")
    about = {"text": glimpse.text, "about": glimpse.about, "rows": glimpse.rows, "columns": glimpse.columns}
    return about | {"maps": maps.astype(int).tolist()}


def _finite(value):
    """JSON knows neither NaN nor infinity: the page gets None, and says that there is no number."""
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Server(socketserver.ThreadingTCPServer):
    """http.server's own class would look up the name of 127.0.0.1, which may ask the network."""

    allow_reuse_address = not WINDOWS  # on Windows two servers would have one port
    daemon_threads = True
    block_on_close = False  # threads that wait for a browser end with the process

    def __init__(self, page: Page, port: int):
        self.page = page
        super().__init__((HOST, port), _Handler)

    def handle_error(self, request, client_address) -> None:
        """A browser that goes away in the middle of an answer does not concern the run."""


class _Handler(BaseHTTPRequestHandler):
    timeout = 20  # seconds after which a browser that neither asks nor reads is given up

    def do_GET(self) -> None:
        page: Page = self.server.page
        asked = urlsplit(self.path)
        if self.headers.get("Host") not in (f"{HOST}:{page.port}", f"localhost:{page.port}"):
            self._send(403, "text/plain", f"This page is served to {page.address} alone.\n".encode())
        elif asked.path == "/":
            self._send(200, "text/html", PAGE.read_bytes())
        elif asked.path == "/data":
            known = parse_qs(asked.query)
            try:
                version, rows = (int(known.get(name, ["0"])[0]) for name in ("version", "rows"))
            except ValueError:
                self._send(400, "text/plain", b"/data?run=ID&version=N&rows=N takes whole numbers N.\n")
                return
            answer = page.answer(known.get("run", [""])[0], version, max(0, rows))
            self._send(200, "application/json", json.dumps(_finite(answer), allow_nan=False).encode())
            page.mark_sent(answer["version"])
        else:
            self._send(404, "text/plain", b"There is / and there is /data.\n")

    def _send(self, code: int, media_type: str, body: bytes) -> None:
        self.send_response(code)
        for name, value in {
            "Content-Type": f"{media_type}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": POLICY,
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args) -> None:
        """The terminal belongs to the progress bar."""
