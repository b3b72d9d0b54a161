"""`python -m examples.site`: run the lessons, write the site, look at it, and say where it is."""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from examples.site.running import ROOT, Lesson, LessonFailed, run, version_of_packages
from tinytensor.cli.output import run_command
from tinytensor.native.platform.distribution import install

LESSONS = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.site",
        description="Run the lessons of the course, and write its site: a folder that opens from a disk.",
    )
    parser.add_argument("--out", type=Path, default=Path("runs/site"), metavar="DIR", help="the folder (runs/site)")
    parser.add_argument(
        "--only", nargs="+", metavar="LESSON", help="these lessons only, without gradients, API and proofs"
    )
    parser.add_argument("--quick", action="store_true", help="leave out the proofs that take long, as derivations does")
    parser.add_argument("--slides", action="store_true", help="also slides of each lesson, in DIR/slides")
    parser.add_argument("--pdf", action="store_true", help="also the course as DIR/course.pdf; needs Chromium")
    parser.add_argument("--without-solutions", action="store_true", help="leave out the solutions, for a class")
    parser.add_argument("--new", action="store_true", help="run and build all anew, whatever the cache holds")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site; 0 if it is good, 1 if a lesson, a page or a link is not, 2 if the command is not understood."""
    options, start = options_of(arguments), time.perf_counter()
    known = {path.stem: path for path in LESSONS}
    for name in options.only or ():
        if name.removesuffix(".py") not in known:
            print(f"site: there is no lesson {name!r}; the lessons are {', '.join(known)}", file=sys.stderr)
            return 2
    out = options.out.resolve()
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / "searchindex.js").exists())):
        print(f"site: {out} is no site, and would be overwritten: name another folder by --out", file=sys.stderr)
        return 2
    try:
        from examples.site import building, checking
    except ModuleNotFoundError as error:
        print(f"site: {error.name} is not installed: {install('site')}", file=sys.stderr)
        return 2
    cache = out.parent / f"{out.name}-cache"
    names = [name.removesuffix(".py") for name in options.only or known]
    try:
        if options.pdf:
            from examples.site import printing

            printing.chromium()  # before the lessons run
        site = collect(options, cache, [known[name] for name in names])
        print(f"building {len(site.pages)} pages ...", flush=True)
        building.build(site.folder, site.extra, cache / "sphinx", options.new)
        html = cache / "sphinx" / "html"
        if options.slides:
            from examples.site import slides

            slides.write(html, [*site.lessons])
        if options.pdf:
            print("printing course.pdf ...", flush=True)
            printing.write(html, site, html / "course.pdf")
    except (LessonFailed, building.BuildFailed) as error:
        print(f"\nsite: {error}", file=sys.stderr)
        return 1
    faults, external = checking.check(html)
    for fault in faults:
        print(f"site: {fault}", file=sys.stderr)
    if faults:
        return 1
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(html, out, ignore=shutil.ignore_patterns(".buildinfo", "_sources"))
    (out / ".nojekyll").touch()  # GitHub Pages would leave out folders that begin with _
    (out / "external-links.txt").write_text("\n".join(external) + "\n", encoding="utf-8")
    print(f"{len(external)} links lead to other hosts: {out / 'external-links.txt'}")
    print(f"written in {time.perf_counter() - start:.0f} s: {out / 'index.html'}")
    return 0


def collect(options: argparse.Namespace, cache: Path, scripts: list[Path]):
    """Run what is to be run, and write the sources of all pages; return the site."""
    from examples.site.pages import ANSWERS, Site

    if not (cache / "lessons").exists():
        print("the first time everything is run, which takes some minutes; later only what has changed", flush=True)
    exercises = [path for script in scripts if (path := script.parent / "exercises" / script.name).exists()]
    total = len(scripts) + len(exercises)
    lessons = [say(run, script, cache / "lessons", i, total, options.new) for i, script in enumerate(scripts, 1)]
    solved = [
        say(run, script, cache / "exercises", i, total, options.new)
        for i, script in enumerate(exercises, len(scripts) + 1)
    ]
    extra = cache / "extra"
    shutil.rmtree(extra, ignore_errors=True)
    extra.mkdir(parents=True)
    site = Site(
        cache / "sources", extra, lessons, solved, slides=options.slides, solutions=not options.without_solutions
    )
    if not options.only:
        from examples.site import gradients
        from tinytensor.utils.docs.reference import pages

        site.pages |= gradients.pages(cache / "gradients", options.new)
        site.pages |= {f"api/{name}": text for name, text in pages().items()}
    site.front_page()
    facts = site.course_facts()
    for lesson in lessons:
        site.lesson_page(lesson, facts)
        if site.solutions and (ANSWERS / f"{lesson.name}.py").exists():
            site.solution_page(lesson)
    for lesson in solved:
        site.exercise_page(lesson)
    for source in site.documents:
        if source.endswith(".md") and source != "README.md":
            site.text_page(source)
    proofs = []
    if not options.only:
        proofs = site.report_pages(report(options, cache / "proofs"))
    site.contents(proofs)
    site.write()
    return site


def say(run, script: Path, cache: Path, number: int, total: int, rerun: bool) -> Lesson:
    """Run a lesson, with a line that says so."""
    kind = "exercises of " if script.parent.name == "exercises" else ""
    print(f"[{number:>2}/{total}] {kind}{script.stem} ... ", end="", flush=True)
    lesson = run(script, cache, rerun)
    print(f"{lesson.seconds:.1f} s" if lesson.was_run else f"unchanged (it took {lesson.seconds:.1f} s)", flush=True)
    return lesson


def report(options: argparse.Namespace, cache: Path) -> str:
    """The report of the proofs, in Markdown; run again if a source has changed."""
    kept, key = cache / ("quick" if options.quick else "all"), version_of_packages()
    if options.new or not (kept / "key").exists() or (kept / "key").read_text(encoding="utf-8") != key:
        print("proofs: ", "1 to 2 minutes" if options.quick else "some minutes", " ...", sep="", flush=True)
        shutil.rmtree(kept, ignore_errors=True)
        command = [sys.executable, "-m", "derivations", "--out", str(kept), *(["--quick"] if options.quick else [])]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
        if done.returncode:
            raise LessonFailed(f"the proofs failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        (kept / "key").write_text(key, encoding="utf-8")
    return (kept / "report.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run_command(main))
