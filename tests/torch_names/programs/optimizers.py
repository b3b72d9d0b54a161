"""Optimizers as packages of them are written: own defaults, and PyTorch's older ways to make state."""

import torch
from torch.optim.optimizer import Optimizer, required


class Relative(Optimizer):
    """A step whose rate, if there is none, is relative to the size of the parameter."""

    def __init__(self, params, lr=None, betas=(0.9, 0.99, 0.999), eps=(1e-8, 1e-3), weight_decay=-1):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            first, second, third = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.is_sparse:
                    raise RuntimeError("no sparse gradients")
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["mean"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                    state["square"] = p.data.new(p.size()).zero_()
                    state["change"] = p.data.new(*p.shape).fill_(0)
                    state["before"] = p.grad.clone(memory_format=torch.preserve_format)
                state["step"] += 1
                change = p.grad - state["before"]
                state["mean"].mul_(first).add_(p.grad, alpha=1 - first)
                state["change"].mul_(second).add_(change, alpha=1 - second)
                state["square"].mul_(third).addcmul_(p.grad, p.grad, value=1 - third)
                rate = group["lr"]
                if rate is None:
                    rate = max(group["eps"][1], p.norm().item() / p.numel()) / state["step"] ** 0.5
                step = (state["mean"] + state["change"]) / (state["square"].sqrt() + group["eps"][0])
                p.add_(step, alpha=-0.1 * rate)
                state["before"] = p.grad.clone()
        return loss


class Fixed(Optimizer):
    def __init__(self, params, lr=required):
        super().__init__(params, {"lr": lr})


def run():
    p = torch.nn.Parameter(torch.ones(2))
    rate = Fixed([{"params": [p], "lr": 0.5}]).param_groups[0]["lr"]
    try:
        Fixed([p])
    except ValueError as error:
        rate = [rate, "lr" in str(error), repr(required)]
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.cos(torch.arange(p.numel(), dtype=torch.float64)).reshape(p.shape))
    x = torch.sin(torch.arange(15, dtype=torch.float64)).reshape(5, 3)
    optimizer = Relative([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.5}])

    def closure():
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(6)]
    made = [x.new(2, 3), x.new(), x.new([1, 2]), x.new(torch.tensor([3.0], dtype=torch.float64)), x.new(0, 2)]
    return {
        "required": rate,
        "losses": losses,
        "made": [(list(t.shape), str(t.dtype).rpartition(".")[2]) for t in made],
        "values": made[2].tolist() + made[3].tolist(),
        "defaults": [optimizer.param_groups[0]["lr"], *optimizer.defaults["betas"]],
    }
