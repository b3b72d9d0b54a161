"""The page of --live: it shows the run's own numbers, changes no bit of it, and is there for this machine alone."""

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tinytensor
from models.command import cli, live
from models.command.cli import main
from models.tasks import TASKS
from models.tasks.task import Glimpse
from models.training import checkpoint
from tests.tools.browser import chromium
from tests.tools.platforms import posix
from tinytensor import tensor
from tinytensor.nn import functional
from tinytensor.viz import plots

ROOT = Path(__file__).parents[3]
TINY = "--tokenizer char --D 8 --H 2 --F 12 --L 2 --C 10 --batch-size 2 --log-every 5 --evaluate-every 10 --threads 1"
SHORT = 0.2  # seconds that a request waits in these tests


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(live, "PATIENCE", SHORT)


@pytest.fixture
def verse(tmp_path):
    path = tmp_path / "verse.txt"
    path.write_text("the cat sat on the mat and the dog lay by the door\n" * 30)
    return path


def get(page, path="/data", host=None):
    """(status, body) of a request."""
    connection = http.client.HTTPConnection(live.HOST, page.port, timeout=10)
    try:
        connection.request("GET", path, headers={"Host": host or f"{live.HOST}:{page.port}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def data(page, **known):
    return json.loads(get(page, "/data?" + "&".join(f"{k}={v}" for k, v in known.items()))[1])


def trained(trainer, page):
    with page:
        page.show(trainer)
        finished = trainer.train(page.look)
        page.end(finished)
        return data(page)


def weights(trainer):
    return {name: p.detach().numpy().tobytes() for name, p in trainer.model.named_parameters()}


# --- What it shows


def test_page_shows_the_rows_of_the_log(begin):
    trainer = begin()
    result = trained(trainer, live.Page(0))
    assert [{k: v for k, v in row.items() if k != "norms"} for row in result["rows"]] == trainer.log.rows
    assert [row["step"] for row in result["rows"]] == [4, 8, 10, 12, 16, 20, 24, 28, 30]
    assert (result["run"]["state"], result["run"]["step"], result["run"]["steps"]) == ("finished", 30, 30)
    assert result["run"]["folder"] == str(trainer.folder)


def test_norms_are_those_before_clipping(begin):
    """Those of a run that is not clipped, up to its first step; and together what clip_grad_norm_ has measured."""
    clipped, free = (begin(f"clip {clip}", steps=1, clip=clip) for clip in (0.05, 0.0))
    actual, expected = (trained(trainer, live.Page(0))["rows"][-1]["norms"] for trainer in (clipped, free))
    assert list(actual) == ["E", "P", "O", "block 1", "block 2"]
    assert actual == pytest.approx(expected, rel=1e-5)
    assert np.linalg.norm(list(actual.values())) == pytest.approx(clipped.norm.item(), rel=1e-5)
    assert clipped.norm.item() > 0.1 and free.norm is None
    read = [p.grad.numpy().ravel() for p in clipped.model.parameters()]  # what the optimizer has read is shorter
    assert np.linalg.norm(np.concatenate(read).astype(float)) == pytest.approx(0.05, rel=1e-4)
    layers = {}
    for name, p in free.model.named_parameters():
        layer = re.sub(r"blocks\.(\d)\..*", lambda m: f"block {int(m[1]) + 1}", name)
        layers.setdefault(layer, []).append(p.grad.numpy().ravel())
    norms = {layer: np.linalg.norm(np.concatenate(parts).astype(float)) for layer, parts in layers.items()}
    assert expected == pytest.approx(norms, rel=1e-12)


def test_unclipped_gradient_norms_are_shown(begin):
    trainer = begin(steps=3, clip=1e6)
    actual = trained(trainer, live.Page(0))["rows"][-1]["norms"]
    assert actual == live.gradient_norms(trainer.model)


@pytest.mark.slow
def test_glimpse_shows_the_model_after_its_step(begin):
    trainer = begin()
    result = trained(trainer, live.Page(0))["glimpse"]
    assert result["step"] == 30
    now = trainer.task.glimpse(trainer.model, trainer.settings.seed)
    assert result["text"] == now.text
    assert np.abs(np.array(result["maps"]) / 1000 - now.maps).max() <= 0.0005
    assert now.maps.shape == (2, 2, 10, 10) and result["rows"] == list(now.rows)


def test_page_has_data_before_the_first_step(begin):
    with live.Page(0) as page:
        assert data(page)["run"]["state"] == "preparing"
        page.show(begin())
        result = data(page)
        assert (result["run"]["state"], result["rows"], result["glimpse"]["step"]) == ("training", [], 0)


def test_page_sends_only_new_data(begin):
    trainer, page = begin(), live.Page(0)
    with page:
        page.show(trainer)
        first = data(page)
        trainer.train(page.look)
        known = {"run": first["run"]["id"], "version": first["version"]}
        second = data(page, **known, rows=3)
        assert second["first"] == 3
        assert second["rows"][0]["step"] == trainer.log.rows[3]["step"]
        third = data(page, run=known["run"], version=second["version"], rows=9)
        assert (third["rows"], third["glimpse"], third["version"]) == ([], None, second["version"])
        other = data(page, run="another", version=second["version"], rows=9)  # a page that knows an earlier run
        assert len(other["rows"]) == 9 and other["glimpse"]["step"] == 30


def test_page_sends_news_at_once(begin, monkeypatch):
    monkeypatch.setattr(live, "PATIENCE", 30)  # longer than `get` waits for an answer
    with live.Page(0) as page:
        page.show(begin())
        known = data(page)
        threading.Timer(0.1, page.end, (False,)).start()
        result = data(page, run=known["run"]["id"], version=known["version"])
        assert result["run"]["state"] == "stopped"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", list(TASKS))
def test_glimpse_of_every_task_draws_no_random_number(name, verse, tmp_path):
    arguments = {"text": ["--text", verse, *TINY.split()], "translate": ["--N", 1], "recommend": ["--L", 1]}[name]
    options = cli.parser(TASKS[name]).parse_args(list(map(str, ["train", "--out", tmp_path / "r", *arguments])))
    options.task_class = TASKS[name]
    trainer = cli._begun(options)
    before = tinytensor.default_generator.get_state()
    for training in (True, False):
        trainer.model.train(training)
        result = trainer.task.glimpse(trainer.model, 0)
        assert trainer.model.training is training
    assert before == tinytensor.default_generator.get_state()
    assert result.text and result.about.endswith(".")
    layers, heads, rows, columns = result.maps.shape
    assert (rows, columns) == (len(result.rows), len(result.columns)) and layers * heads >= 1
    assert result.maps.sum(-1) == pytest.approx(np.ones((layers, heads, rows)), abs=1e-5)


# --- What it must not change


@pytest.mark.one_in(2)
@pytest.mark.parametrize("eager", [False, True])
def test_live_page_changes_no_bit(begin, eager):
    """With dropout, which draws from the run's generator at each step."""
    plain = begin("plain", eager=eager, model={"dropout": 0.3})
    assert plain.train()
    shown = begin("shown", eager=eager, model={"dropout": 0.3})
    trained(shown, live.Page(0))
    assert weights(plain) == weights(shown)
    losses = [[(row["step"], row["loss"], row.get("heldout_loss")) for row in t.log.rows] for t in (plain, shown)]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_resumed_live_run_has_the_same_bits(begin):
    plain = begin("plain", model={"dropout": 0.3})
    assert plain.train()
    stopped = begin("shown", model={"dropout": 0.3})
    page = live.Page(0)

    def look(row):
        page.look(row)
        stopped.stop = row["step"] == 14

    with page:
        page.show(stopped)
        assert not stopped.train(look)
    second = begin("shown", model={"dropout": 0.3}).restore(checkpoint.load(stopped.folder))
    result = trained(second, live.Page(0))
    assert weights(plain) == weights(second)
    assert [row["step"] for row in result["rows"]] == [4, 8, 10, 12, 16, 20, 24, 28, 30]
    assert [row["step"] for row in result["rows"] if "norms" in row] == [16, 20, 24, 28, 30]


@pytest.mark.slow
def test_glimpse_that_draws_a_random_number_is_noticed(begin, monkeypatch):
    """The test above can fail."""
    plain = begin("plain", model={"dropout": 0.3})
    assert plain.train()
    shown = begin("shown", model={"dropout": 0.3})
    honest = shown.task.glimpse
    monkeypatch.setattr(shown.task, "glimpse", lambda *how: (functional.dropout(tensor(1.0)), honest(*how))[1])
    trained(shown, live.Page(0))
    assert weights(plain) != weights(shown)


@pytest.mark.slow
def test_live_page_records_no_step_anew(begin):
    trainer = begin()
    with live.Page(0) as page:
        page.show(trainer)
        kept = []
        trainer.train(lambda row: (page.look(row), kept.append(sum(map(len, trainer._step.recordings.values())))))
    assert set(kept) == {1}


def test_error_in_a_glimpse_ends_no_run(begin, monkeypatch):
    trainer = begin(model={"dropout": 0.3})

    def broken(model, seed):
        model.eval()
        raise ZeroDivisionError("of no use")

    monkeypatch.setattr(trainer.task, "glimpse", broken)
    result = trained(trainer, live.Page(0))
    assert trainer.step == 30 and result["glimpse"]["why"] == "ZeroDivisionError: of no use"
    plain = begin("plain", model={"dropout": 0.3})
    assert plain.train()
    assert weights(plain) == weights(trainer)


def test_nonfinite_attention_maps_are_not_sent(begin, monkeypatch):
    trainer = begin(steps=4)
    maps = np.full((1, 1, 1, 1), np.nan)
    monkeypatch.setattr(trainer.task, "glimpse", lambda *how: Glimpse("A.", "t", maps, ["a"], ["b"]))
    assert "not finite" in trained(trainer, live.Page(0))["glimpse"]["why"]


def test_nonfinite_numbers_become_null():
    assert live._finite({"a": [float("nan"), 1.5, {"b": float("inf")}], "c": "nan"}) == {
        "a": [None, 1.5, {"b": None}],
        "c": "nan",
    }


@pytest.mark.slow
def test_hanging_browser_does_not_stop_the_run(begin, monkeypatch):
    """A run that waited for this browser would wait until the server gives up and closes the connection."""
    monkeypatch.setattr(live._Handler, "timeout", 120)
    trainer = begin()
    with contextlib.ExitStack() as connections:
        with live.Page(0) as page:
            page.show(trainer)
            hanging = []
            for request in (
                f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n\r\n".encode(),  # and never reads
                b"",
                b"GET /data HTTP/1.1\r\n",
            ):
                hanging.append(connections.enter_context(socket.create_connection((live.HOST, page.port))))
                hanging[-1].sendall(request)
            assert trainer.train(page.look)
            page.end(True)
            assert data(page)["run"]["state"] == "finished"
        for connection in hanging[1:]:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)


# --- Who may look


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "host", ["attacker.example:{}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.example:{}", "[::1]:{}"]
)
@pytest.mark.parametrize("path", ["/", "/data"])
def test_another_host_is_refused(begin, host, path):
    with live.Page(0) as page:
        page.show(begin())
        status, body, _ = get(page, path, host.format(page.port))
        assert status == 403
        assert "verse" not in body and "rows" not in body and page.address in body


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}"])
def test_this_machine_is_served(host):
    with live.Page(0) as page:
        for path in ("/", "/data"):
            assert get(page, path, host.format(page.port))[0] == 200


def test_a_request_without_a_host_is_refused():
    with live.Page(0) as page, socket.create_connection((live.HOST, page.port)) as connection:
        connection.sendall(b"GET /data HTTP/1.0\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] == b"403"


def test_only_the_loopback_is_bound():
    page = live.Page(0)
    assert page.server.server_address[0] == "127.0.0.1"
    page.server.server_close()


def test_unknown_paths_and_methods_are_refused():
    with live.Page(0) as page:
        assert get(page, "/../models/command/live.py")[0] == 404
        assert get(page, "/data?rows=many")[0] == 400
        assert get(page, "/data?rows=-3")[0] == 200
        connection = http.client.HTTPConnection(live.HOST, page.port, timeout=10)
        connection.request("POST", "/data", body="x")
        assert connection.getresponse().status == 501
        connection.close()


def test_page_loads_nothing_from_elsewhere():
    text = live.PAGE.read_text()
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)", text) and "import(" not in text and "@import" not in text
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    with live.Page(0) as page:
        headers = get(page, "/")[2]
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and "Access-Control-Allow-Origin" not in headers


def test_page_has_the_colours_of_the_plots():
    page, walkthrough = live.PAGE.read_text(), (ROOT / "tinytensor" / "viz" / "walkthrough.css").read_text()
    assert tuple(re.findall(r"--c\d: (#\w+);", page.partition("@media")[0])) == plots.COLOURS
    named = r"--(paper|panel|ink|soft|line): (#\w+)"
    ours, theirs = ([value for _, value in re.findall(named, text)] for text in (page, walkthrough))
    assert len(ours) == 10 and sorted(ours) == sorted(theirs)


# --- The command


@contextlib.contextmanager
def taken(port=0):
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((live.HOST, port))
        other.listen()
        yield other.getsockname()[1]


def test_another_port_serves_if_the_usual_one_is_taken(monkeypatch):
    with taken() as port:
        monkeypatch.setattr(live, "PORT", port)
        with live.Page() as page:
            assert page.port != port
            assert get(page)[0] == 200
    with live.Page() as page:
        assert page.port == port


def test_invalid_live_options_are_refused(verse, tmp_path, capsys):
    def refused(*arguments):
        out = tmp_path / "never"
        assert main(["train", "--text", str(verse), "--out", str(out), *TINY.split(), *arguments]) == 2
        printed, message = capsys.readouterr()
        assert not out.exists() and not printed and message.count("\n") == 1
        return message

    with taken() as port:
        assert f"--live-port {port}: this port cannot be had: Address already in use" in refused(
            "--live", "--live-port", str(port)
        )
    assert "give --live too" in refused("--live-port", "0")
    for port in ("-1", "65536"):
        assert f"--live-port {port}: 0 (any) to 65535 is needed" in refused("--live", f"--live-port={port}")


def start(*arguments):
    command = [sys.executable, "-u", "-m", "models", "train", *map(str, arguments), *TINY.split()]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def address_of(process):
    """The port that a run prints; what it printed before."""
    before = []
    for line in process.stdout:
        before.append(line)
        if match := re.fullmatch(r"live: http://127\.0\.0\.1:(\d+)/ shows this run, on this machine alone\n", line):
            return int(match[1])
    raise AssertionError("".join(before))


class Address:
    def __init__(self, port):
        self.port = port


@pytest.mark.slow
@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watched_run_ends_by_a_signal(verse, tmp_path, number):
    process = start("--text", verse, "--out", tmp_path / "run", "--steps", 1_000_000, "--live", "--live-port", 0)
    try:
        page = Address(address_of(process))
        while not (result := data(page))["rows"]:
            time.sleep(0.05)
        connection = http.client.HTTPConnection(live.HOST, page.port, timeout=300)  # a browser that waits for news
        host = {"Host": f"{live.HOST}:{page.port}"}
        process.send_signal(number)
        state, version = "training", result["version"]
        while state == "training":
            connection.request(
                "GET", f"/data?run={result['run']['id']}&version={version}&rows=1000000000", headers=host
            )
            news = json.loads(connection.getresponse().read())
            state, version = news["run"]["state"], news["version"]
        assert state == "stopped"
        output = process.communicate(timeout=300)[0]
        assert process.returncode == 128 + number, output
        assert f"go on with: python -m models train --resume {tmp_path / 'run'}" in output
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_live_page_is_loaded_only_with_its_flag(verse, tmp_path):
    code = (
        "import sys; from models.command.cli import main; "
        f"assert main(['train', '--text', {str(verse)!r}, '--out', {str(tmp_path / 'r')!r}, '--steps', '5', "
        f"*{TINY.split()!r}]) == 0; "
        "print([m for m in ('models.command.live', 'http.server', 'socketserver') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "live: " not in done.stdout  # the folder of this test has "live" in its name


# --- In a browser


@pytest.mark.slow
def test_browser_follows_the_run(begin):
    """The page follows the run: its numbers, the charts with their text alternatives, and the end."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    trainer = begin()
    with live.Page(0) as page, chromium() as browser:
        text = lambda name: browser.find_element(By.ID, name).text  # noqa: E731
        wait = WebDriverWait(browser, 30)
        browser.get(page.address)
        wait.until(lambda _: "being prepared" in text("state"))
        page.show(trainer)
        wait.until(lambda _: "Before the first step" in text("glimpse-about"))
        assert trainer.train(page.look)
        wait.until(lambda _: text("step") == "30 / 30")
        assert "Training." in text("state")
        page.end(True)
        wait.until(lambda _: "Training has ended: the last step was taken" in text("state"))
        last = trainer.log.rows[-1]
        assert text("now-loss") == f"{last['loss']:.4f}"
        assert text("now-heldout") == f"{last['heldout_loss']:.4f}"
        picture = browser.find_element(By.CSS_SELECTOR, "#loss svg[role=img]")
        message = picture.get_attribute("aria-label")
        assert f"held out: {trainer.log.rows[2]['heldout_loss']:.4g} at step 10" in message
        assert len(browser.find_elements(By.CSS_SELECTOR, "#norms .legend li")) == 7  # five, all together, the limit
        written = browser.find_element(By.ID, "text").get_property("textContent")
        assert written == trainer.task.glimpse(trainer.model, 0).text
        heads = browser.find_elements(By.CSS_SELECTOR, "#heads button")
        assert [b.get_attribute("aria-pressed") for b in heads] == ["true", "false", "false", "false"]
        browser.execute_script("arguments[0].focus()", heads[3])
        heads[3].send_keys("\ue007")  # Enter: no mouse is needed
        heads = browser.find_elements(By.CSS_SELECTOR, "#heads button")
        assert heads[3].get_attribute("aria-pressed") == "true"
        assert "layer 2, head 2" in browser.find_element(By.ID, "map").get_attribute("aria-label").lower()
        assert len(browser.find_elements(By.CSS_SELECTOR, "#map [data-cell]")) == 100
        wide = browser.execute_script("return document.documentElement.scrollWidth > innerWidth")
        assert not wide
        assert [entry["message"] for entry in browser.get_log("browser")] == []


@pytest.mark.slow
def test_page_says_that_its_run_is_gone(begin):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with chromium(width=390, dark=True) as browser:
        page = live.Page(0)
        threading.Thread(target=page.server.serve_forever, daemon=True).start()
        page.show(begin())
        browser.get(page.address)
        wait = WebDriverWait(browser, 30)
        wait.until(lambda b: "▶ Training." in b.find_element(By.ID, "state").text)
        page.server.shutdown()  # as a run that is killed goes
        page.server.server_close()
        wait.until(lambda b: "does not answer" in b.find_element(By.ID, "state").text)
