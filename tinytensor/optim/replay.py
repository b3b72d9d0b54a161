"""What the replay of a recorded step needs of an optimizer.

`tinytensor.compile` records the launches of a step, and a replay repeats them on the same memory. So whatever may
change from one step to the next is one of three:

- a number, such as the learning rate or the step t. The launches read it from an array, which is written anew before
  each step, a replayed one too; an update rule gets it as a 0-d tensor on this array;
- state, such as a momentum. Its tensors are made once, outside of the recording, and changed in place;
- a decision which launches there are: a bool of a group, a number that is 0, a slot. The answers are a condition of the
  replay: where they differ, the step is recorded anew.
"""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np

from tinytensor.core.dispatch import host, outside_recording
from tinytensor.core.tensor import Tensor


class Replayable:
    """The numbers, the state and the decisions of an optimizer's steps."""

    numbers: tuple[str, ...] = ()  # what a step reads, in the order of the fused kernel
    slots: tuple[str, ...]
    extra: tuple[str, ...]
    decoupled: bool
    followed = frozenset({"state"})  # attributes that a replay changes as a step does: no condition of a replay
    param_groups: list[dict[str, Any]]
    state: defaultdict[Tensor, dict[str, Any]]

    def _numbers_of_step(self, group: dict[str, Any], params: list[Tensor]) -> np.ndarray:
        """Make the state that is missing, and count the step; returns a row of numbers for each parameter."""
        with outside_recording():
            for p in params:
                self._prepare(group, p)
        table = np.zeros((len(params), len(self.numbers)))
        host(self._write_numbers, [], group, [self.state[p] for p in params], table, undo=self._take_back)
        return table

    def _prepare(self, group: dict[str, Any], p: Tensor) -> None:
        raise NotImplementedError

    def _needs(self, slot: str, group: dict[str, Any]) -> bool:
        raise NotImplementedError

    def _values(self, group: dict[str, Any], entry: dict[str, Any], t: int) -> dict[str, Any]:
        """The numbers of step t, by name; is it the first that has the slots?"""
        values = group | {"t": t, "first": t == entry.get("since"), "decoupled": self.decoupled}
        if "betas" in group:
            values["beta1"], values["beta2"] = group["betas"]
        return values

    def _row(self, group: dict[str, Any], entry: dict[str, Any], t: int) -> list[float]:
        values = self._values(group, entry, t)
        return [values[name] for name in self.numbers]

    def _write_numbers(
        self, before: list, group: dict[str, Any], entries: list[dict[str, Any]], table: np.ndarray
    ) -> None:
        """Write the present numbers to the table, and count the step.

        The counts before it are noted in `before`, and an interrupt (Ctrl-C) finds all of them changed or none.
        """
        before[:] = [entry["step"] for entry in entries]
        steps = [step + 1 for step in before]
        if len(set(before)) == 1 == len({entry.get("since") for entry in entries}):  # mostly
            table[:] = self._row(group, entries[0], steps[0])
        else:
            for row, entry, step in zip(table, entries, steps, strict=True):
                row[:] = self._row(group, entry, step)
        try:
            for entry, step in zip(entries, steps, strict=True):
                entry["step"] = step
        except BaseException:
            self._take_back(before, group, entries, table)
            raise

    def _take_back(self, before: list, group: dict[str, Any], entries: list[dict[str, Any]], table: np.ndarray) -> None:
        """Undo the count of a step that was not made."""
        for entry, step in zip(entries, before):  # which is empty if nothing was changed
            entry["step"] = step

    def _hyper_parameters(self, group: dict[str, Any], numbers: np.ndarray) -> SimpleNamespace:
        """What a rule reads: the numbers as 0-d tensors, and bools as they are."""
        tensors = {name: Tensor.of(numbers[i : i + 1].reshape(())) for i, name in enumerate(self.numbers)}
        return SimpleNamespace(**tensors | {name: value for name, value in group.items() if isinstance(value, bool)})

    def _decisions(self) -> tuple:
        """All that decides which launches a step makes, and on which memory."""
        parts: list[Any] = [*self._hooks["before step"], *self._hooks["after step"]]
        for group in self.param_groups:
            parts += [value for value in group.values() if isinstance(value, bool)]
            parts += [bool(group.get("weight_decay")), group["lr_multiplier"]]
            parts += [self._needs(slot, group) for slot in self.slots + self.extra]
            parts += group["params"]
            parts += map(self.state.get, group["params"])
        return tuple(parts)
