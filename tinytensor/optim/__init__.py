"""Optimizers and learning-rate schedules, under PyTorch's names.

sgd.py, adam.py, adaptive.py   the update rules, as their papers state them
lbfgs.py, line_search.py       L-BFGS, which computes the loss several times a step
optimizer.py                   what is common: groups of parameters, the step over them, hooks, state
replay.py                      what a replay of a recorded step needs of an optimizer
fused.py                       the native backend's kernels for whole steps
lr_scheduler.py                learning-rate schedules
"""

from tinytensor.optim import lr_scheduler
from tinytensor.optim.adam import Adam, AdamW
from tinytensor.optim.adaptive import Adadelta, Adagrad, Adamax, RMSprop
from tinytensor.optim.lbfgs import LBFGS
from tinytensor.optim.optimizer import Optimizer
from tinytensor.optim.sgd import SGD

__all__ = ["LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Optimizer", "RMSprop", "lr_scheduler"]
