"""Derivatives: from the tape, of functions, and checked against finite differences."""

from tinytensor.autograd import function, functional
from tinytensor.autograd.differences import gradcheck, gradgradcheck
from tinytensor.autograd.function import Function, Variable
from tinytensor.autograd.partial import backward, grad
from tinytensor.core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from tinytensor.tools.anomaly import detect_anomaly, set_detect_anomaly
from tinytensor.torch_names import missing_names

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]

__getattr__ = missing_names.module("autograd", __name__)
