"""A part of the course's site: it opens from a disk without a network, and its faults are found."""

import io
import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from PIL import Image

import tinytensor as tt
from examples.site import __main__ as command
from examples.site import building, checking, gradients, pages, printing, running
from examples.site.pages import Site, fenced, with_equations
from tests.examples.test_gradients import LOOKS, slow
from tests.tools.axe import serious
from tests.tools.browser import chromium

ROOT = Path(__file__).parents[2]
LESSON, CLINIC = "03_chain_rule", "20_training_clinic.py"
QUESTIONS = "course/questions.html"
GUIDE = sorted((ROOT / "examples" / "guide").glob("*.md"))


def build(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "examples.site", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("built") / "site"
    done = build("--out", str(out), "--only", LESSON, "--slides")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return out


@pytest.mark.slow
def test_pages_hold_what_a_lesson_prints_and_draws(site):
    page = (site / "lessons" / "03_chain_rule.html").read_text()
    assert "careless: 6.0, in order: 4.0, right: 4" in page
    assert "picture: runs/lessons" not in page
    for name in ("03_chain_rule.png", "03_chain_rule.dark.png", "03_chain_rule.html"):
        assert f'src="../pictures/{name}"' in page
        assert (site / "pictures" / name).exists()
    assert "The graph of a backward pass, with the boxes: c = mul(a, b)" in page
    solutions = (site / "solutions" / "03_chain_rule.html").read_text()
    assert "fromkeys" in solutions and "wrong: depth first" in solutions


def solved(site: Path) -> set[str]:
    """The files of a site in which a line of an answer stands that no exercise and no lesson has."""
    public = "".join((ROOT / "examples" / part / f"{LESSON}.py").read_text() for part in ("", "exercises"))
    lines = (ROOT / "tests" / "examples" / "answers" / f"{LESSON}.py").read_text().splitlines()
    own = [line.strip() for line in lines if len(line.strip()) > 25 and line.strip() not in public]
    assert len(own) > 20
    texts = {path: unescape(path.read_text()) for path in site.rglob("*") if path.suffix in (".html", ".py", ".ipynb")}
    texts |= {path: re.sub(r"<[^>]+>", "", text) for path, text in texts.items() if path.suffix == ".html"}
    return {path.relative_to(site).as_posix() for path, text in texts.items() if any(line in text for line in own)}


def test_site_for_a_class_has_no_solutions(site):
    out = site.with_name("class")
    shutil.copytree(site.with_name("site-cache"), out.with_name("class-cache"))  # the solutions are in it
    done = build("--out", str(out), "--only", LESSON, "--without-solutions", "--slides")
    assert done.returncode == 0, done.stdout + done.stderr
    assert solved(site) == {f"solutions/{LESSON}.html"} and solved(out) == set()
    assert [*(out / "solutions").glob("*")] == [] and "tests/examples/answers" in (
        out / "course/lecturers.html"
    ).read_text()
    assert [path for path in out.rglob("*.html") if 'href="../solutions' in path.read_text()] == []


def opened(driver, page: Path) -> tuple[list[str], list[dict]]:
    """Open a page; what it requests, and what it says in the console."""
    driver.get(page.as_uri())
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    requests = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return requests, driver.get_log("browser")


@pytest.mark.slow
def test_pages_open_without_a_network(site, tmp_path):
    pages = ["index.html", "course/index.html", "lessons/03_chain_rule.html", "solutions/03_chain_rule.html"]
    pages += ["slides/03_chain_rule.html", *(f"guide/{path.stem}.html" for path in GUIDE if path.stem != "README")]
    with chromium(390, 800, dark=True, requests=True) as driver:
        for page in pages:
            requests, console = opened(driver, site / page)
            assert (site / "_static" / "site.css").as_uri() in [each.partition("?")[0] for each in requests], page
            assert [each for each in requests if not each.startswith(("file:", "data:"))] == [], page
            assert console == [], page
            wide = driver.execute_script("return document.documentElement.scrollWidth")
            assert wide <= 390, f"{page} is {wide} pixels wide"
        driver.get(f"{(site / 'search.html').as_uri()}?q=careless")
        for _ in range(100):
            result = driver.execute_script(
                "return [...document.querySelectorAll('#search-results a')].map(a => a.href)"
            )
            if result:
                break
            time.sleep(0.1)
        assert any("lessons/03_chain_rule.html" in each for each in result), result
        assert driver.get_log("browser") == []

        (tmp_path / "page.html").write_text('<script src="https://a.example/x.js"></script>')  # the same eyes see this
        requests, console = opened(driver, tmp_path / "page.html")
        assert "https://a.example/x.js" in requests
        assert "ERR_NAME_NOT_RESOLVED" in console[0]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_keeps_readers_out(width, site):
    """Contrast of code and numbers, names, headings, and all that scrolls can be scrolled by keys."""
    for dark in (False, True):
        with chromium(width, 844, dark) as driver:
            for page in ("index.html", "lessons/03_chain_rule.html", "exercises/03_chain_rule.html"):
                driver.get((site / page).as_uri())
                assert serious(driver) == [], page


WIDE = """<!doctype html><meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{css}">
<body style="margin: 0; --color-background-primary: #fff">
<div class="cell"><div class="highlight"><pre>{line}</pre></div></div>
<div class="equation-line"><div class="math"><p style="width: 90em">y</p></div></div>"""
CUT = "const e = arguments[0]; return e.scrollWidth > e.clientWidth"


def shaded(driver, element) -> tuple[bool, bool]:
    """Is the left side, and is the right side, of an element darker than the ground beside it?"""
    picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("L")
    x, y, width = (element.rect[name] for name in ("x", "y", "width"))
    row = [picture.getpixel((i, int(y) + 4)) for i in range(int(x), int(x + width))]  # above the letters
    return row[3] < row[60] - 25, row[-4] < row[-60] - 25


def test_what_is_too_wide_for_a_phone_scrolls_visibly(site, tmp_path):
    css = (site / "_static" / "site.css").as_uri()
    (tmp_path / "page.html").write_text(WIDE.format(css=css, line="x = 1; " * 30))
    parts = ".cell pre, .equation-line .math"
    with chromium(390, 800) as driver:
        driver.get((tmp_path / "page.html").as_uri())
        for element in driver.find_elements("css selector", parts):
            assert driver.execute_script(CUT, element) and shaded(driver, element) == (False, True)
            driver.execute_script("arguments[0].scrollLeft = 10000", element)
            assert shaded(driver, element) == (True, False)
            driver.execute_script("arguments[0].style.background = 'white'", element)  # the same eyes see this
            assert shaded(driver, element) == (False, False)
        driver.get((site / "lessons" / f"{LESSON}.html").as_uri())  # where no other style is in the way
        wide = [each for each in driver.find_elements("css selector", parts) if driver.execute_script(CUT, each)]
        layers = [each.value_of_css_property("background-attachment") for each in wide]
        assert len(layers) >= 5 and set(layers) == {"local, local, scroll, scroll, scroll"}


@pytest.mark.slow
def test_guide_is_in_the_site_and_its_menu(site):
    names = {"index" if path.stem == "README" else path.stem for path in GUIDE}
    assert {path.stem for path in (site / "guide").glob("*.html")} == names and len(names) >= 9
    menu = (site / "index.html").read_text().split('class="sidebar-tree"')[1].split("</aside>")[0]
    assert {name for name in names if f'href="guide/{name}.html"' in menu} == names
    assert f'href="{QUESTIONS}"' in menu
    assert 'href="guide/pytorch.html#where-tinytensor-differs-on-purpose"' in (site / "index.html").read_text()


def test_finished_site_has_no_faults(site):
    faults, external = checking.check(site)
    assert faults == []
    assert external == (site / "external-links.txt").read_text().splitlines() != []


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<script src="https://a.example/x.js"></script>', "it loads https://a.example/x.js from another host"),
        ('<link rel="stylesheet" href="//a.example/x.css">', "it loads //a.example/x.css from another host"),
        ("<style>@import 'https://a.example/x.css';</style>", "it loads https://a.example/x.css from another host"),
        ('<p style="background: url(gone.png)">', "it loads gone.png, which is not there"),
        ('<img src="page.html">', "a picture without words: page.html"),
        ('<iframe src="page.html"></iframe>', "a picture without words: page.html"),
        ('<img src="gone.png" alt="a curve">', "it loads gone.png, which is not there"),
        ('<a href="gone.html">x</a>', "a link leads to gone.html, which is not there"),
        ('<a href="#gone">x</a>', "a link leads to #gone, where nothing has this name"),
        ('<a href="page.html#tours">x</a>', "a link leads to page.html#tours, where nothing has this name"),
        ("<pre>Traceback (most recent call last):\n</pre>", "it shows a traceback or a warning"),
        ("<pre>RuntimeWarning: overflow</pre>", "it shows a traceback or a warning"),
    ],
)
def test_faults_of_a_page_are_found(tmp_path, html, fault):
    (tmp_path / "page.html").write_text(f'<p id="here"><a href="page.html#here">x</a></p>{html}')
    assert checking.check(tmp_path)[0] == [f"page.html: {fault}"]


def test_page_without_faults_has_none(tmp_path):
    links = '<a id="a" href="#a">x</a><a href="#step=2">x</a><a href="#tour=1">x</a><a href="https://a.example/">y</a>'
    (tmp_path / "page.html").write_text(links)
    assert checking.check(tmp_path) == ([], ["https://a.example/"])


@pytest.mark.slow
def test_second_run_takes_a_lesson_from_the_cache(tmp_path):
    script = tmp_path / "98_quick.py"
    script.write_text("# %% [markdown]\n# # A title\n\n# %%\nprint('one')\n1 + 1\n")
    first = running.run(script, tmp_path / "cache")
    assert (first.title, first.was_run, first.cells[1].printed) == ("A title", True, "one\n2\n")
    second = running.run(script, tmp_path / "cache")
    assert (second.cells, second.was_run) == (first.cells, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "99_bad.py: cell 2 failed: ZeroDivisionError: division by zero"),
        ("import warnings; warnings.warn('hm')", "99_bad.py: cell 2 failed: it wrote a warning: "),
    ],
)
def test_failing_cell_is_named(tmp_path, code, said):
    script = tmp_path / "99_bad.py"
    script.write_text(f"# %% [markdown]\n# # A title\n\n# %%\n{code}\n")
    with pytest.raises(running.LessonFailed, match=said) as raised:
        running.run(script, tmp_path / "cache")
    assert code in str(raised.value)


@pytest.mark.slow
def test_bad_commands_get_a_sentence(tmp_path):
    done = build("--only", "99_nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("site: there is no lesson '99_nothing'; the lessons are 00_nudge, ")
    (tmp_path / "mine.txt").write_text("x")
    done = build("--out", str(tmp_path))
    assert done.returncode == 2
    assert "is no site, and would be overwritten" in done.stderr
    assert (tmp_path / "mine.txt").read_text() == "x"


def test_links_lead_to_the_pages_of_files(tmp_path):
    site = Site(tmp_path / "sources", tmp_path / "extra", [])
    text = "[a](documents.md), [b](../README.md), [c](../tests/tools/browser.py), [d](https://a.example), `[e](f)`"
    linked = site.linked(text, "examples/README.md", "course/index")
    assert linked == (
        "[a](../course/documents.md), [b](../index.md), [c](../sources/tests/tools/browser_py.md), "
        "[d](https://a.example), `[e](f)`"
    )
    assert "def chromium" in site.pages["sources/tests/tools/browser_py"]


def test_fences_and_equations():
    assert fenced("text", "```\nx\n```") == "````text\n```\nx\n```\n````"
    assert (
        with_equations("We have\n\n    y = x\n\nso")
        == "We have\n\n```{code-block} text\n:class: equation\n\ny = x\n```\n\nso"
    )


def test_page_that_a_lesson_writes_stands_in_a_frame(tmp_path):
    cells = [running.Cell("code", "x", pictures=[running.Picture(name)]) for name in (pages.MODEL, "03_any.html")]
    lesson = running.Lesson("19_any", cells, tmp_path, 0.0)
    site = Site(tmp_path / "sources", tmp_path / "extra", [lesson])
    for cell, words in zip(cells, ("a tour begins", "the arrow keys step through it")):
        (tmp_path / cell.pictures[0].name).write_text("<p>a page</p>")
        text = site.cells(lesson, [cell], "examples/19_any.py", "lessons/19_any")
        source = f"../pictures/{cell.pictures[0].name}"
        assert f'<iframe src="{source}" title="' in text and f'<a href="{source}">' in text and words in text
        assert (tmp_path / "extra" / "pictures" / cell.pictures[0].name).exists()
    site.front_page()
    first = f'<a class="button" href="pictures/{pages.MODEL}#tour=1">Start here: inside a trained model</a>'
    assert f'<p class="actions">{first}' in site.pages["index"]
    assert f'<iframe src="pictures/{pages.MODEL}"' in site.pages["index"]
    lesson.cells.clear()
    site.front_page()
    assert pages.MODEL not in site.pages["index"]


def test_front_page_has_a_button_for_each_part(tmp_path):
    site = Site(tmp_path / "sources", tmp_path / "extra", [])
    buttons = lambda: re.findall(r'<a class="button" href="([^"]+)">', site.pages["index"])  # noqa: E731
    site.front_page()
    assert buttons() == ["course/index.html", QUESTIONS, "guide/index.html", "proofs/index.html"]
    site.pages |= {f"{part}/one": "# One\n" for part in ("api", "gradients")}
    site.front_page()
    assert buttons() == [
        "course/index.html",
        QUESTIONS,
        *(f"{part}/index.html" for part in ("guide", "gradients", "api", "proofs")),
    ]


def test_changed_script_of_a_page_runs_lessons_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ROOT", tmp_path)
    (tmp_path / "models").mkdir()
    keys = set()
    for name in ("a.py", "a.js", "a.css", "a.html", "a.txt"):
        (tmp_path / "models" / name).write_text("x")
        keys.add(running.version_of_packages.__wrapped__())
    assert len(keys) == 4


def test_modules_of_exercises_are_found():
    """They are offered beside the exercises, and a change of theirs runs a lesson anew."""
    examples = ROOT / "examples"
    result = {name: [p.name for p in running.modules_of(examples / name)] for name in ("00_nudge.py", CLINIC)}
    assert result == {"00_nudge.py": [], CLINIC: ["clinic.py"]}
    assert [p.name for p in running.modules_of(examples / "exercises" / CLINIC)] == ["clinic.py", "judge.py"]


def test_solutions_of_several_exercises(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ANSWERS", tmp_path)
    text = 'def right_1(x):\n    """Because of this."""\n    return x\n\n\ndef wrong_1_sign(x):\n    return -x\n'
    (tmp_path / "03_any.py").write_text(text + "\n\ndef right_2():\n    return 2\n")
    lesson = running.Lesson("03_any", [running.Cell("markdown", "# Any")], tmp_path, 0.0)
    site = Site(tmp_path / "sources", tmp_path / "extra", [lesson])
    site.solution_page(lesson)
    first, second = site.pages["solutions/03_any"].split("## Exercise 2")
    assert "# 3. Solutions: Any" in first
    assert (
        "## Exercise 1\n\nBecause of this.\n\n```{code-block} python\n:class: cell\n\ndef right_1(x):\n    return x"
        in first
    )
    assert "<summary>wrong: sign</summary>" in first
    assert "return 2" in second and "wrong" not in second


# myst-parser uses names that Sphinx will give up
@pytest.mark.filterwarnings("ignore:.*is deprecated. Check CHANGES for Sphinx")
def test_unknown_latex_ends_the_build(tmp_path):
    for folder in ("sources", "extra"):
        (tmp_path / folder).mkdir()
    page = tmp_path / "sources" / "index.md"
    page.write_text("# A title\n\n$$y = \\arg\\max x$$\n")
    assert building.build(tmp_path / "sources", tmp_path / "extra", tmp_path / "work") == ["index"]
    assert "<math" in (tmp_path / "work" / "html" / "index.html").read_text()
    for text, said in (("$\\nosuch x$", r"\\\\nosuch is not known"), ("[x](gone.md)", "gone")):
        page.write_text(f"# A title\n\n{text}\n")
        with pytest.raises(building.BuildFailed, match=said):
            building.build(tmp_path / "sources", tmp_path / "extra", tmp_path / "work", new=True)


@pytest.mark.slow
def test_failing_lesson_ends_the_command(tmp_path, monkeypatch, capsys):
    (tmp_path / "99_bad.py").write_text("# %% [markdown]\n# # A title\n\n# %%\n1 / 0\n")
    monkeypatch.setattr(command, "LESSONS", [tmp_path / "99_bad.py"])
    assert command.main(["--only", "99_bad", "--out", str(tmp_path / "site")]) == 1
    assert "site: 99_bad.py: cell 2 failed: ZeroDivisionError: division by zero\n\n    1 / 0" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_missing_chromium_is_named_before_lessons_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(printing.shutil, "which", lambda name: None)
    monkeypatch.delattr(command, "collect")
    assert command.main(["--only", LESSON, "--pdf", "--out", str(tmp_path / "site")]) == 1
    assert capsys.readouterr().err.endswith("Chromium, which is not installed: apt-get install chromium\n")


def test_page_of_a_gradient_and_its_cache(tmp_path, capsys):
    made = gradients.pages(tmp_path, names=["log_determinant"])
    page = made["gradients/log_determinant"]
    assert "[Log-determinant from a Cholesky factor](log_determinant.md)" in made["gradients/index"]
    assert "def log_determinant(L):\n    return 2 * L.diagonal().log().sum()" in page
    assert r"\begin{align*}" in page and r"\frac{2 \delta_{d\,i}}{L_{dd}}" in page
    assert "∂𝓛/∂L: refuted" in page and "at D = 2, entry [0, 1]: the derivative is 0" in page
    assert "gradient of log_determinant" in capsys.readouterr().out
    assert gradients.pages(tmp_path, names=["log_determinant"]) == made
    assert capsys.readouterr().out == ""


def test_right_gradient_as_wrong_one_ends_the_build():
    entry = replace(gradients.TABLE["log_determinant"], wrong=lambda L: tt.diag(2 / L.diagonal()))
    with pytest.raises(running.LessonFailed, match="the wrong gradient of log_determinant is not refuted"):
        gradients.page(entry, None)


@pytest.mark.parametrize("looks", LOOKS)
def test_gradient_that_takes_too_long_says_so_on_its_page(looks, tmp_path, monkeypatch, capsys):
    slow(monkeypatch, looks)
    page, late = gradients.pages(tmp_path, names=["dpo"])["gradients/dpo"], looks < LOOKS[-1]
    assert (gradients.LATE in page) is ("stopped at limit = 120 seconds" in page) is late
    assert (r"\frac{\partial" in page) is (looks > LOOKS[1])
    assert ("## Its gradient" in page) is (looks > LOOKS[0]) and "{align*}\n\n" not in page
    assert ("∂𝓛/∂win: refuted" in page) is not late
    assert ("not proved in this time" in capsys.readouterr().out) is late
    assert (tmp_path / "dpo.json").exists() is not late  # the next build tries again
