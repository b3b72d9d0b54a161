"""Calls that are made eagerly, written once, for PyTorch and for us: `tt` is tinytensor or torch."""

from collections.abc import Callable

Calls = dict[str, Callable[[], object]]  # by name


def small_calls(tt) -> Calls:
    """The calls that teaching programs make most, on small tensors."""
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


def derivatives(tt) -> Calls:
    """Jacobians and Hessians of a layer with 32 results of 64 numbers, and of a number."""
    func, weight, x, batch = tt.func, tt.randn(32, 64) / 8, tt.randn(64), tt.randn(16, 64)

    def layer(x):
        return (weight @ x).tanh()

    def loss(x):
        return (layer(x.sin() * x) ** 2).sum()

    return {
        "jacrev": lambda: func.jacrev(layer)(x),
        "jacfwd": lambda: func.jacfwd(layer)(x),
        "hessian": lambda: func.hessian(layer)(x),
        "hessian of a number": lambda: func.hessian(loss)(x),
        "vmap of jacrev": lambda: func.vmap(func.jacrev(layer))(batch),
        "vmap of hessian": lambda: func.vmap(func.hessian(layer))(batch),
    }


def einsums(tt) -> Calls:
    """Sums over products as attention and selective scans have them."""
    x, w, heads, state = tt.randn(2, 64, 128), tt.randn(128, 16), tt.randn(2, 64, 4, 32), tt.randn(2, 64, 16)
    leaves = [x.clone().requires_grad_(), state.clone().requires_grad_()]

    def backward():
        return tt.autograd.grad(tt.einsum("bld,bln,bld->bldn", leaves[0], leaves[1], x).sum(), leaves)

    return {
        "ij,jk->ik": lambda: tt.einsum("ij,jk->ik", x[0], w),
        "bd,bn->bdn": lambda: tt.einsum("bd,bn->bdn", x[0], state[0]),
        "bld,dn->bldn": lambda: tt.einsum("bld,dn->bldn", x, w),
        "blhk,bmhk->bhlm": lambda: tt.einsum("blhk,bmhk->bhlm", heads, heads),
        "bld,bln,bld->bldn, forward and backward": backward,
    }


def programs(tt) -> Calls:
    """Training steps whose time goes to many small operations: a loop over time, or many small products."""
    F, times = tt.nn.functional, 64

    def training(loss: Callable, *parameters) -> Callable[[], object]:
        parameters = [p.requires_grad_() for p in parameters]
        optimizer = tt.optim.Adam(parameters, lr=1e-3)

        def step():
            optimizer.zero_grad()
            loss(*parameters).backward()
            optimizer.step()

        return step

    x, targets = tt.randn(4, times, 128), tt.randn(4, times, 128)

    def selective_scan(A, to_delta, to_BC, D):
        """h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_t and y_t = C_t h_t + D x_t; Gu and Dao (2023), Algorithm 2."""
        delta, (B, C) = F.softplus(x @ to_delta), (x @ to_BC).split([16, 16], -1)
        decay = tt.exp(tt.einsum("bld,dn->bldn", delta, -tt.exp(A)))
        u = tt.einsum("bld,bln,bld->bldn", delta, B, x)
        h, ys = tt.zeros(4, 128, 16), []
        for t in range(times):
            h = decay[:, t] * h + u[:, t]
            ys.append(tt.einsum("bdn,bn->bd", h, C[:, t]))
        return F.mse_loss(tt.stack(ys, 1) + x * D, targets)

    points, labels = tt.randn(16, 100, 64), tt.tensor([i % 10 for i in range(16)])

    def set_attention(seeds, Wq, Wk, Wv, Wo):
        """Attention of a set to seeds and back; Lee et al. (2019), equation (9)."""

        def attend(queries, keys):
            q, k, v = (tt.cat(y.split(16, 2), 0) for y in (queries @ Wq, keys @ Wk, keys @ Wv))
            y = q + ((q @ k.transpose(1, 2)) / 8).softmax(2) @ v
            y = F.layer_norm(tt.cat(y.split(queries.shape[0], 0), 2), (64,))
            return F.layer_norm(y + F.relu(y @ Wo), (64,))

        y = points
        for _ in range(2):
            y = attend(y, attend(seeds.repeat(16, 1, 1), y))
        return F.cross_entropy(y.mean(1)[:, :10], labels)

    spikes_in = (tt.rand(64, times, 100) < 0.1).float()

    class Spike(tt.autograd.Function):
        """x > 0, with a smooth gradient."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (x > 0).float()

        @staticmethod
        def backward(ctx, g):
            return g / (10 * ctx.saved_tensors[0].abs() + 1) ** 2

    def spiking_network(W, V):
        """Leaky integrate-and-fire neurons; Neftci et al. (2019), equations (4) and (5)."""
        currents, spikes = tt.einsum("btc,cd->btd", spikes_in, W), []
        synapse, membrane = tt.zeros(64, 100), tt.zeros(64, 100)
        for t in range(times):
            spikes.append(Spike.apply(membrane - 1))
            membrane = (0.9 * membrane + synapse) * (1 - spikes[-1].detach())
            synapse = 0.8 * synapse + currents[:, t]
        return (tt.stack(spikes, 1) @ V).amax(1).square().mean()

    square = [tt.randn(64, 64) / 8 for _ in range(4)]
    return {
        "selective scan": training(
            selective_scan, tt.randn(128, 16), tt.randn(128, 128) / 16, tt.randn(128, 32) / 16, tt.ones(128)
        ),
        "set transformer": training(set_attention, tt.randn(1, 16, 64), *square),
        "spiking network": training(spiking_network, tt.randn(100, 100) / 10, tt.randn(100, 2) / 10),
    }


CALLS = {"small calls": small_calls, "derivatives": derivatives, "einsum": einsums, "programs": programs}


def repeated(call: Callable[[], object], times: int) -> Callable[[], None]:
    """The call, so many times."""

    def run():
        for _ in range(times):
            call()

    return run
