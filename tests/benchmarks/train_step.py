"""One training step of document 003's tiny model: tinytensor beside PyTorch eager, in alternating processes.

    python tests/benchmarks/train_step.py [--batch 8] [--threads 2] [--passes 5]

Both have the same weights and batch, AdamW without decay, no clipping. Each pass is a process of its own (two thread
pools that spin in one process slow each other down), takes the median of its steps after a warm-up, and the passes
alternate. Printed: the median over passes for each, their ratio pass by pass, and the losses after ten steps.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import numpy as np

D, H, F, L, V, C = 32, 4, 64, 2, 300, 96  # toth-tiny


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"E": (V, D), "P": (C, D), "O": (D, V)}
    for i in range(L):
        shapes |= {f"blocks.{i}.{n}": (H, D, D // H) for n in "QKV"} | {f"blocks.{i}.W": (D, D)}
        shapes |= {f"blocks.{i}.F": (D, F), f"blocks.{i}.b": (F,), f"blocks.{i}.G": (F, D), f"blocks.{i}.c": (D,)}
    return {n: (rng.standard_normal(s) * 0.1).astype(np.float32) for n, s in shapes.items()}


def batch(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.integers(0, V, (size, C)), rng.integers(0, V, (size, C))


def tinytensor_step(size: int, threads: int):
    sys.path.insert(0, ".")
    import tinytensor as tt
    from models.decoder import CONFIGS, Decoder

    tt.set_num_threads(threads)
    model = Decoder(CONFIGS["toth-tiny"])
    model.load_state_dict({n: tt.tensor(w) for n, w in weights().items()})
    opt = tt.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)

    @tt.compile
    def step(x, y):
        opt.zero_grad()
        _, loss = model(x, y)
        loss.backward()
        opt.step()
        return loss

    x, y = (tt.tensor(a) for a in batch(size))
    return lambda: step(x, y)


def torch_step(size: int, threads: int):
    import torch
    import torch.nn.functional as fn

    torch.set_num_threads(threads)
    w = {n: torch.nn.Parameter(torch.tensor(a)) for n, a in weights().items()}
    for i in range(L):  # one product for Q, K and V, as PyTorch programs have it
        q, k, v = (w.pop(f"blocks.{i}.{n}").detach().permute(0, 2, 1).reshape(D, D) for n in "QKV")
        w[f"qkv{i}"] = torch.nn.Parameter(torch.cat([q, k, v]))
    opt = torch.optim.AdamW(w.values(), lr=1e-3, weight_decay=0.0, fused=True)
    x, y = (torch.tensor(a) for a in batch(size))

    def step():
        opt.zero_grad()
        z = w["E"][x] + w["P"]
        for i in range(L):
            z = fn.layer_norm(z, (D,))
            q, k, v = (t.view(size, C, H, D // H).transpose(1, 2) for t in fn.linear(z, w[f"qkv{i}"]).split(D, dim=2))
            a = fn.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(size, C, D)
            z = z + a @ w[f"blocks.{i}.W"]
            n = fn.layer_norm(z, (D,))
            z = z + torch.relu(n @ w[f"blocks.{i}.F"] + w[f"blocks.{i}.b"]) @ w[f"blocks.{i}.G"] + w[f"blocks.{i}.c"]
        loss = fn.cross_entropy((z @ w["O"]).flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()
        return loss

    return step


STEPS = {"tinytensor": tinytensor_step, "torch": torch_step}


def worker(peer: str, size: int, threads: int, count: int) -> None:
    start = time.perf_counter()
    step = STEPS[peer](size, threads)
    for _ in range(9):
        step()
    tenth, first = step().item(), time.perf_counter() - start
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    result = {"median": statistics.median(times) * 1e3, "least": min(times) * 1e3, "loss": tenth, "ten steps": first}
    print(json.dumps(result))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--torch-python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--worker", choices=STEPS)
    args = parser.parse_args()
    if args.worker:
        return worker(args.worker, args.batch, args.threads, args.steps)
    results: dict[str, list[dict]] = {peer: [] for peer in STEPS}
    for _ in range(args.passes):
        for peer in STEPS:
            python = args.torch_python if peer == "torch" else sys.executable
            sizes = ["--batch", str(args.batch), "--threads", str(args.threads), "--steps", str(args.steps)]
            run = subprocess.run([python, __file__, "--worker", peer, *sizes], capture_output=True, text=True)
            if run.returncode:
                sys.exit(f"{peer}:\n{run.stderr}")
            results[peer].append(json.loads(run.stdout.splitlines()[-1]))
    for peer, runs in results.items():
        median, least = statistics.median(r["median"] for r in runs), min(r["least"] for r in runs)
        print(f"{peer:11} median {median:7.3f} ms, least {least:7.3f} ms, loss after ten steps {runs[0]['loss']:.6f}")
    ratios = [t["median"] / o["median"] for o, t in zip(results["tinytensor"], results["torch"], strict=True)]
    print(
        f"torch / tinytensor, pass by pass: median {statistics.median(ratios):.2f}, "
        f"from {min(ratios):.2f} to {max(ratios):.2f}"
    )
    return None


if __name__ == "__main__":
    main()
