"""The tasks of `python -m models train --task NAME`."""

from models.tasks.recommend import RecommendTask
from models.tasks.text import TextTask
from models.tasks.translate import TranslateTask

TASKS = {task.name: task for task in (TextTask, TranslateTask, RecommendTask)}
