"""What becomes of planted mistakes: noticed, left out for a reason that was found by running it, or survived."""

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


def by_label(reasons: dict[str, dict[str, list[str]]]) -> dict[str, str]:
    """{change: reason}, by its name, of a list {reason: {function: [change]}}."""
    return {label(name, what): why for why, places in reasons.items() for name in places for what in places[name]}


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
        """One more; if it is explained why nobody could notice it, and it was noticed (`by` whom), that survives."""
        self.enter(what, how, lambda: explained.get(what, ""))
        if how and what in explained:
            told = f"it is explained why nobody could notice it, and it was noticed ({by or how})"
            self.survivors.append(f"{what}: {told}")

    def enter_gone(self, explained: dict[str, str], changes: Iterable[str]) -> None:
        """What is explained, and is no change any more, survives."""
        gone = explained.keys() - set(changes)
        self.survivors += [f"{what}: it is explained, and there is no such change" for what in sorted(gone)]

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
