"""How tensors are printed: NumPy writes the numbers, and PyTorch's options say how."""

import math

import numpy as np

# `sci_mode` None: numbers have exponents where the others would be too long
_SHORT = {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 75, "sci_mode": None}
_DEFAULT = _SHORT | {"precision": 4, "edgeitems": 3}
PROFILES = {"default": _DEFAULT, "short": _SHORT, "full": _DEFAULT | {"threshold": math.inf}}

_options = dict(_DEFAULT)


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Say how tensors are printed: digits, how many numbers before some are left out, how many at each end, the width.

    `profile` ("default", "short" or "full") sets all of them, and what else is given is set then. With `sci_mode` True
    all numbers have exponents, with False none has.
    """
    if profile is not None and str(profile).lower() not in PROFILES:
        raise ValueError(f"set_printoptions: profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        least = 1 if name == "linewidth" else 0
        whole = isinstance(value, int) or (name == "threshold" and value == math.inf)
        if value is not None and not (whole and value >= least):
            raise ValueError(f"set_printoptions: {name} must be a whole number of {least} or more, got {value!r}")
    _options.update(PROFILES[str(profile).lower()] if profile is not None else {})
    _options.update({name: value for name, value in given.items() if value is not None})
    if sci_mode is not None or profile is not None:
        _options["sci_mode"] = sci_mode


def text(values: np.ndarray, prefix: str) -> str:
    """The numbers of an array, as they stand behind a prefix."""
    digits = _options["precision"]
    return np.array2string(
        values,
        separator=", ",
        prefix=prefix,
        precision=digits,
        threshold=_options["threshold"],
        edgeitems=_options["edgeitems"],
        max_line_width=_options["linewidth"],
        suppress_small=_options["sci_mode"] is False,
        formatter={"float_kind": lambda x: f"{x:.{digits}e}"} if _options["sci_mode"] else None,
    )
