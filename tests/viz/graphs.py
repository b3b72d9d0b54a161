"""Small graphs that are looked at in more than one test of `tinytensor.viz`."""

import tinytensor as tt


def chain() -> dict[str, tt.Tensor]:
    """y = exp(a * b + a): a is used twice."""
    a = tt.tensor(2.0, requires_grad=True)
    b = tt.tensor(-3.0, requires_grad=True)
    c = a * b
    d = c + a
    y = d.exp()
    return {"a": a, "b": b, "c": c, "d": d, "y": y}
