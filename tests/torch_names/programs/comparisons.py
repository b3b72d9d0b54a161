"""Which pairs assert_close accepts."""

import torch
from torch.testing import assert_close

NAN, INF = float("nan"), float("inf")


def run():
    one = torch.ones(2)
    pairs = [
        (one, one.clone()),
        (one, one + 5e-6),
        (one, one + 5e-5),
        (one.double(), one.double() + 5e-8),
        (one.double(), one.double() + 5e-7),
        (one, one.double()),
        (one, one[:1]),
        (torch.tensor([1, 2]), torch.tensor([1, 3])),
        (torch.tensor([True]), torch.tensor([True])),
        (torch.tensor([NAN, INF]), torch.tensor([NAN, INF])),
        (torch.tensor([INF]), torch.tensor([INF])),
        (torch.tensor([INF]), torch.tensor([-INF])),
        (torch.zeros(0), torch.zeros(0)),
        (torch.zeros(0, 2), torch.zeros(0)),
        (1.0, 1.0 + 1e-9),
        (1, 1.0),
        ([1.0, one], [1.0, one]),
        ([1.0, one], [1.0]),
        ({"a": one, "b": 2}, {"b": 2, "a": one}),
        ({"a": one}, {"b": one}),
        (one, [1.0, 1.0]),
        (None, None),
    ]
    settings = (
        {},
        {"rtol": 0.0, "atol": 1e-4},
        {"equal_nan": True},
        {"check_dtype": False},
        {"rtol": 1e-3, "atol": 0.0},
    )
    accepted = []
    for options in settings:
        for pair in pairs:
            try:
                assert_close(*pair, **options)
                accepted.append("close")
            except (AssertionError, TypeError, ValueError) as error:
                accepted.append(type(error).__name__)
    try:
        assert_close(one, one + 1, msg=lambda text: f"here: {len(text) > 10}")
    except AssertionError as error:
        accepted.append(str(error))
    return accepted
