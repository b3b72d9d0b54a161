"""The tasks of `python -m models train --task NAME`."""

from .recommend import RecommendTask
from .text import TextTask
from .translate import TranslateTask

TASKS = {task.name: task for task in (TextTask, TranslateTask, RecommendTask)}
