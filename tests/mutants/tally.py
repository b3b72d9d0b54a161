"""What becomes of planted mistakes: noticed, left out for a reason that was found by running it, or survived."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from derivations.claims import Refuted

Check = Callable[[], bool]  # does the checker pass?


def notices(check: Check) -> str:
    """How a checker notices the mistake that is planted now; "" if it does not. An exception is a way to notice."""
    try:
        return "" if check() else "refuted"
    except Refuted:
        return "refuted"
    except Exception as error:
        return type(error).__name__


def label(function: str, what: str) -> str:
    """The name of a change to a function."""
    return f"{function}: {what}"


def by_label(reasons: dict[str, dict[str, list[str]]], changes: Iterable[str]) -> dict[str, str]:
    """{change: reason} of a list {reason: {function: [change]}}; `...` in an entry stands for any text.

    An entry is about all changes that it fits. One that fits none stands for itself, and so for no change.
    """
    changes, result = list(changes), {}
    for why, indices in reasons.items():
        for entry in (label(name, what) for name in indices for what in indices[name]):
            fits = re.compile(".*".join(map(re.escape, entry.split("...")))).fullmatch
            for what in list(filter(fits, changes)) or [entry]:
                if what in result:
                    raise ValueError(f"{what} is explained twice: {result[what]!r} and {why!r}")
                result[what] = why
    return result


@dataclass
class Tally:
    """What became of the mistakes."""

    noticed: list[tuple[str, str]] = field(default_factory=list)  # (what was planted, how it was noticed)
    left_out: list[tuple[str, str]] = field(default_factory=list)  # (what, why)
    survivors: list[str] = field(default_factory=list)
    controls: set[str] = field(default_factory=set)  # where a copy without a mistake was planted, and passed

    def enter(self, what: str, how: str, reason: Callable[[], str] = lambda: "") -> None:
        """One more: `how` it was noticed; if "", it is left out for a reason, if there is one, or has survived."""
        if how:
            self.noticed.append((what, how))
        elif why := reason():
            self.left_out.append((what, why))
        else:
            self.survivors.append(what)

    def enter_unless_explained(self, what: str, how: str, explained: dict[str, str], by: str = "") -> None:
        """One more; a change that has an explanation and was noticed (`by` this test) survives, too."""
        self.enter(what, how, lambda: explained.get(what, ""))
        if how and what in explained:
            message = f"it has an explanation, and was noticed ({by or how})"
            self.survivors.append(f"{what}: {message}")

    def enter_gone(self, explained: dict[str, str], changes: Iterable[str]) -> None:
        """Explanations that fit no change survive."""
        gone = explained.keys() - set(changes)
        self.survivors += [f"{what}: its explanation fits no change" for what in sorted(gone)]

    def report(self, show: bool = False) -> str:
        """What a reader wants to know; with `show` every mistake by name."""
        refuted = sum(how == "refuted" for _, how in self.noticed)
        raised = len(self.noticed) - refuted
        tried = len(self.noticed) + len(self.left_out) + len(self.survivors)
        how = f"{refuted} refuted, {raised} by an error that they cause"
        lines = [f"{tried} tried; {len(self.noticed)} mistakes noticed: {how}"]
        lines += [f"    {what}: {how}" for what, how in self.noticed if show]
        for reason, count in Counter(why for _, why in self.left_out).items():
            lines.append(f"{count} changes left out ({reason}):")
            lines += [f"    {what}" for what, why in self.left_out if why == reason]
        lines += [f"NOT NOTICED: {what}" for what in self.survivors]
        return "\n".join(lines)
