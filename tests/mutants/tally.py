"""What becomes of planted mistakes: noticed, left out for a reason that was found by running it, or survived."""

from collections import Counter
from collections.abc import Callable
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
