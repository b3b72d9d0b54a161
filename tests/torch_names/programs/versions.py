"""The order of scheduler and optimizer follows the version, as in programs that were written across PyTorch 1.1."""

import torch


def run():
    before = torch.__version__ < "1.1.0"
    major, minor = (int(n) for n in torch.__version__.split(".")[:2])
    w = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = torch.optim.SGD([w], lr=0.3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.1)
    rates = []
    for _ in range(5):
        if before:
            schedule.step()
        optimizer.zero_grad()
        w.pow(2).sum().backward()
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        if (major, minor) >= (1, 1):
            schedule.step()
    asked = [torch.__version__ >= v for v in ("0.4", "1.10", "2.2.0+cpu", "3", (2, 0), (2, 13), (2, 14))]
    return {"before": before, "rates": rates, "w": w.tolist(), "asked": asked, "cuda": torch.version.cuda}
