"""Derivatives: by walking the tape, of functions (Jacobians, Hessians), and checks against finite differences."""

from tinytensor.autograd import function, functional
from tinytensor.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from tinytensor.autograd.backward import backward, grad
from tinytensor.autograd.function import Function, Variable
from tinytensor.autograd.gradcheck import gradcheck, gradgradcheck
from tinytensor.core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

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
