"""The tasks of `python -m models train --task NAME`."""

from .text import TextTask

TASKS = {task.name: task for task in (TextTask,)}
