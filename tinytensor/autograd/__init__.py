"""Derivatives: from the tape, of functions, and checked against finite differences."""

from tinytensor.anomaly import detect_anomaly, set_detect_anomaly
from tinytensor.autograd import functional
from tinytensor.autograd.differences import gradcheck, gradgradcheck
from tinytensor.autograd.partial import grad
from tinytensor.autograd.tape import backward
from tinytensor.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
