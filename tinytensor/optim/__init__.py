"""Optimizers and learning-rate schedules, under PyTorch's names."""

from tinytensor.optim import lr_scheduler
from tinytensor.optim.composed import Adadelta, Adagrad, Adamax, RMSprop
from tinytensor.optim.lbfgs import LBFGS
from tinytensor.optim.optimizer import SGD, Adam, AdamW, Optimizer

__all__ = ["LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Optimizer", "RMSprop", "lr_scheduler"]
