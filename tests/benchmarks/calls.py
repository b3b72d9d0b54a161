"""The calls that teaching programs make most, one at a time on small tensors; written once, for PyTorch and for us."""

from collections.abc import Callable

TIMES = 20  # calls that are timed together


def calls(tt) -> dict[str, Callable[[], object]]:
    """The calls by name; `tt` is tinytensor or torch."""
    F, n = tt.nn.functional, 27  # the letters, as the first programs of many courses have them
    x, y, wide = tt.randn(n, n), tt.randn(n, n), tt.randn(32, n)
    counts, twelve = tt.zeros((n, n), dtype=tt.int32), [tt.randn(n, n) for _ in range(12)]
    targets, layer = tt.tensor([i % n for i in range(32)]), tt.nn.Linear(n, 64)
    model = tt.nn.Sequential(tt.nn.Linear(n, 32), tt.nn.ReLU(), tt.nn.Linear(32, n))
    optimizer = tt.optim.SGD(model.parameters(), lr=0.1)
    w, b = tt.randn(n, n).requires_grad_(), tt.randn(n).requires_grad_()

    def count():
        counts[3, 5] += 1

    def backward():
        w.grad = b.grad = None
        ((wide @ w + b).tanh() ** 2).mean().backward()

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(wide), targets).backward()
        optimizer.step()

    return {
        "x + y": lambda: x + y,
        "x * 0.5": lambda: x * 0.5,
        "x @ y": lambda: x @ y,
        "x > 0": lambda: x > 0,
        "relu": lambda: x.relu(),
        "tanh": lambda: x.tanh(),
        "exp": lambda: x.exp(),
        "softmax": lambda: F.softmax(x, -1),
        "sum": lambda: x.sum(1, keepdim=True),
        "mean": lambda: x.mean(),
        "cross_entropy": lambda: F.cross_entropy(wide, targets),
        "linear": lambda: layer(wide),
        "embedding": lambda: F.embedding(targets, x),
        "x[i]": lambda: x[3],
        "x[:, t]": lambda: x[:, 3],
        "x[i, j] += 1": count,
        "item": lambda: x[3, 5].item(),
        "view": lambda: x.view(-1),
        "transpose": lambda: x.transpose(0, 1),
        "cat": lambda: tt.cat([x, y], 1),
        "stack of twelve": lambda: tt.stack(twelve),
        "zeros": lambda: tt.zeros(n, n),
        "backward": backward,
        "a step": step,
    }


def repeated(call: Callable[[], object]) -> Callable[[], None]:
    """The call, so many times."""

    def run():
        for _ in range(TIMES):
            call()

    return run
