"""Build an engine of your own, in ten steps.

    python -m examples.build my_engine                 # writes the first step into the folder my_engine
    python -m examples.build my_engine --check         # checks what you wrote, and opens the next step
    python -m examples.build --list                    # the ten steps

Files that exist are never changed by this command: what you write is yours.
"""

import argparse
import secrets
import sys
import textwrap
from importlib.util import find_spec, module_from_spec
from pathlib import Path

from examples.build import judge, notebooks
from examples.build.folders import COMMAND, Refused, files_of, is_ours, ours, present, proposed, write
from examples.build.steps import STEPS, code_lines, hole_text, own_lines, package_text, solution_text

SECONDS = 10.0  # for one call of the student's code
LONGEST = 3600.0  # for a milestone


def lines_in(folder: Path) -> int:
    """The student's own lines of code."""
    count = 0
    for file in files_of(len(STEPS)):
        try:
            count += own_lines((folder / file).read_text(encoding="utf-8"), file)
        except (OSError, SyntaxError, ValueError):
            continue  # missing, or no Python: the check says so
    return count


def lines_of_solutions() -> int:
    return sum(own_lines(solution_text(file), file) for file in files_of(len(STEPS)))


def progress(folder: Path, right: int) -> str:
    """step 3 of 10 ████░░░░░░░░░░░░░░░░ 84 of ~160 lines"""
    bar = "█" * (2 * right) + "░" * (2 * (len(STEPS) - right))
    number = min(right + 1, len(STEPS))
    return f"\nstep {number} of {len(STEPS)} {bar} {lines_in(folder)} of ~{lines_of_solutions()} lines of your own"


def open_step(folder: Path, number: int) -> None:
    """Write the files of a step, and say what to do."""
    step = STEPS[number - 1]
    write(folder, {file: hole_text(file) for file in step.files + step.early if not (folder / file).exists()})
    where = " and ".join(str(folder / file) for file in step.files)
    print(f"\nStep {number} of {len(STEPS)}: {step.title} ({step.lessons}).")
    print(f"  Open {where}.")
    print("  The words at the top say what to write, and your code goes where three dots stand.")
    if step.early:
        print(f"  ({folder / step.early[0]} comes with it: leave it until step 4.)")
    print(f"  Then: {proposed(folder, '--check')}")


def begin(folder: Path) -> int:
    """Write the first step, or, in a folder that was begun, what is missing."""
    ours(folder, must_exist=False)
    number = present(folder)
    texts = {"__init__.py": package_text()} | {file: hole_text(file) for file in files_of(number)}
    if is_ours(folder):
        missing = [name for name in texts if not (folder / name).exists()]
        write(folder, {name: texts[name] for name in missing})
        for name in missing:
            print(f"{folder / name} was missing. It is there again, with its holes.")
        print("Files that are there stay as they are.")
    else:
        write(folder, texts)
    open_step(folder, number)
    print(progress(folder, number - 1))
    return 0


def folded(text: str) -> str:
    """A text in lines of at most 100 columns, four columns in; a line of code, which is indented, stays as it is."""
    lines = []
    for line in text.splitlines():
        lines += [line] if line.startswith("    ") else textwrap.wrap(line, 96) or [""]
    return "\n".join("    " + line for line in lines)


def listed(title: str, names: list[str]) -> str:
    return textwrap.fill(f"{title}: {', '.join(names)}", 100, initial_indent="  ", subsequent_indent="    ")


def tell(result: dict) -> bool:
    """Print what is known of one step; return whether all of it is right."""
    step = STEPS[result["step"] - 1]
    title = f"step {step.number}, {step.title}"
    if not result["wrong"] and not result["open"]:
        print(f"{title}: right")
        return True
    print(f"{title}:")
    if result["right"]:
        print(listed("right", result["right"]))
    if result["wrong"]:
        if result["function"]:
            print(f"  wrong: {result['function']}")
            print(folded(result["wrong"]))
        else:
            print(f"  wrong: {folded(result['wrong']).strip()}")
    if result["open"]:
        print(listed("not solved yet", result["open"]))
    return False


def check(folder: Path, seed: int | None, limit: float, training: int) -> int:
    """Check all steps up to the present one; open the next one if all are right."""
    ours(folder, must_exist=True)
    number = present(folder)
    chosen = secrets.randbelow(10**6) if seed is None else seed
    results = judge.in_a_process(folder, "check", number, chosen, limit)
    if isinstance(results, str):  # the process ended before it could say anything else
        print(f"  wrong: {folded(results).strip()}\n  Repeat these cases with --seed {chosen}.")
        print(progress(folder, number - 1))
        return 1
    *earlier, last = results
    if earlier:
        print(f"step{f's 1 to {len(earlier)}' if earlier[1:] else ' 1'}: right")
    if not tell(last):
        if last["function"]:
            print(f"  Repeat these cases with --seed {chosen}.")
        print(progress(folder, len(earlier)))
        return 1
    step = STEPS[number - 1]
    if step.milestone and number < len(STEPS):
        milestone(folder, number, training)
    if number == len(STEPS):
        print(progress(folder, number))
        lines = sum(code_lines((folder / file).read_text(encoding="utf-8")) for file in files_of(number))
        print(
            f"All ten steps are right. {folder} is an engine of your own, of {lines} lines with those that were given."
        )
        print(f"Now it learns to write, in a few minutes: {proposed(folder, '--milestone', str(number))}")
        return 0
    open_step(folder, number + 1)
    print(progress(folder, number))
    return 0


def milestone(folder: Path, number: int, training: int) -> int:
    """Run the milestone of a step on the student's engine."""
    ours(folder, must_exist=True)
    milestones = [step.number for step in STEPS if step.milestone]
    if number not in milestones:
        raise Refused(f"Step {number} has no milestone; the steps {', '.join(map(str, milestones))} have one.")
    if number > present(folder):
        raise Refused(f"The milestone of step {number} needs step {number}, and {folder} is at step {present(folder)}.")
    print(f"\nMilestone: {STEPS[number - 1].milestone}, on your engine.", flush=True)
    said = judge.in_a_process(folder, "milestone", number, training, LONGEST)
    if said:
        print(f"wrong: {folded(said).strip()}\n  `{proposed(folder, '--check')}` says whether all functions are right.")
    return 1 if said else 0


def solutions(folder: Path, number: int) -> int:
    """Write the solutions of the first steps into a folder of their own."""
    if not 1 <= number <= len(STEPS):
        raise Refused(f"--solution takes a step from 1 to {len(STEPS)}, not {number}.")
    place = folder.with_name(f"{folder.name}_solution_{number:02}")
    ours(place, must_exist=False)
    solved = {file for step in STEPS[:number] for file in step.files}
    texts = {file: solution_text(file) if file in solved else hole_text(file) for file in files_of(number)}
    write(place, {"__init__.py": package_text()} | texts)
    print(f"The solutions of the steps 1 to {number} are in {place}. (`--check` takes this folder too.)")
    return 0


def table() -> int:
    """Print the steps."""
    for step in STEPS:
        lines = sum(own_lines(solution_text(file), file) for file in step.files)
        print(f"{step.number:2}  {step.title:<26} {', '.join(step.files):<21} {lines:3} lines  {step.lessons}")
        if step.milestone:
            print(f"    then {step.milestone}")
    print(f"    together some {lines_of_solutions()} lines, on NumPy alone")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="the folder of your engine, such as my_engine")
    parser.add_argument("--check", action="store_true", help="check what you wrote, and open the next step")
    parser.add_argument("--list", action="store_true", help="show the steps")
    parser.add_argument("--milestone", type=int, metavar="STEP", help="run the milestone of step 3, 6, 8 or 10 again")
    parser.add_argument("--solution", type=int, metavar="STEP", help="the solutions up to this step, in another folder")
    parser.add_argument("--notebook", action="store_true", help="the steps as notebooks; with --solution for nbgrader")
    parser.add_argument("--seed", type=int, help="repeat the random cases of a check")
    parser.add_argument("--steps", type=int, default=0, help="steps of training in a milestone")
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds for one call of your code")
    options = parser.parse_args(arguments)
    if options.steps < 0 or options.limit <= 0:
        parser.error("--steps and --limit take positive numbers")
    try:
        if options.list:
            return table()
        if options.folder is None:
            parser.error("give a folder, such as my_engine, or --list")
        if options.notebook:
            return notebooks.write(options.folder, options.solution)
        if options.solution is not None:
            return solutions(options.folder, options.solution)
        if options.milestone is not None:
            return milestone(options.folder, options.milestone, options.steps)
        if options.check:
            return check(options.folder, options.seed, options.limit, options.steps)
        return begin(options.folder)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    except BrokenPipeError:  # the output is no longer read
        raise
    except OSError as error:
        place = error.filename or options.folder
        print(f"{place} cannot be read or written: {error.strerror or error}. What is there stays.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    # The package is there, but not run: the process that checks loads the engine, and this one would take as long.
    sys.modules["tinytensor"] = module_from_spec(find_spec("tinytensor"))
    from tinytensor.cli.output import run_command

    sys.exit(run_command(main))
