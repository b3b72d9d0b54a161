"""Run every sample through PyTorch and store values and gradients as tests/samples/oracle/<group>.safetensors.

    python -m tests.samples.oracle.generate            # write the tables that have changed (needs torch)
    python -m tests.samples.oracle.generate --check    # do the stored tables equal a fresh run?

Per sample the tables hold `<id>|<i>` for output i and `<id>|g<i>` for the gradient of input i with respect to a
fixed random cotangent, both computed in float64; and, in the file's metadata, the outputs' dtypes in the float64
and in the float32 run, whether they require a gradient, whose memory they share, and their strides. Every error input
must be one for PyTorch too.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from tests.samples.ops import ERRORS, ORACLE, SAMPLES, Call, dtype_name, is_tensor, to_array
from tests.samples.oracle import tables

HERE = Path(__file__).parent


def record(sample) -> tuple[dict, dict]:
    """Arrays and facts of one sample in PyTorch."""
    call = Call(torch, sample)
    outputs = call()
    values = [to_array(y) for y in outputs]
    if sample.is_random:
        values, gradients = [np.zeros_like(y) for y in values], []
    else:
        gradients = call.vjp(outputs)
    arrays = {f"{sample.id}|{i}": y for i, y in enumerate(values)}
    arrays |= {f"{sample.id}|g{i}": to_array(g) for i, g in enumerate(gradients) if g is not None}
    facts = {
        ORACLE: [dtype_name(y) for y in outputs],
        "float32": [dtype_name(y) for y in Call(torch, sample, "float32")()],
        "requires_grad": [is_tensor(torch, y) and y.requires_grad for y in outputs],
        "shares": call.shared(outputs),
        "strides": [list(y.stride()) if is_tensor(torch, y) else None for y in outputs],
    }
    return {name: np.array(a, order="C") for name, a in arrays.items()}, facts


def all_groups() -> dict[str, tuple[dict, dict]]:
    """group -> (arrays, facts by sample id)."""
    groups = {}
    for sample in SAMPLES:
        arrays, facts = groups.setdefault(sample.group, ({}, {}))
        if sample.id in facts:
            raise SystemExit(f"two samples are called {sample.id}")
        try:
            new, facts[sample.id] = record(sample)
        except Exception as error:
            error.add_note(f"sample {sample.id} ({sample.group})")
            raise
        arrays.update(new)
    return groups


def check_errors() -> list[str]:
    """Error inputs that PyTorch takes, or refuses with another exception."""
    messages = []
    for error in ERRORS:
        try:
            Call(torch, error)()
        except error.raises:
            continue
        except Exception as raised:
            messages.append(f"{error.id}: PyTorch raises {type(raised).__name__}, not {error.raises}: {raised}")
        else:
            if not error.torch_accepts:
                messages.append(f"{error.id}: PyTorch raises nothing")
    return messages


def closely(name: str, dtype: np.dtype) -> float:
    """A sample is one operation: another processor's last bits are all that may differ."""
    return 1e-6 if dtype == np.float32 else 1e-14


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the stored tables with a fresh run")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    groups, message = all_groups(), check_errors()
    gone = [path for path in HERE.glob("*.safetensors") if path.stem not in groups]
    take = tables.differences if arguments.check else tables.keep
    for group, (arrays, facts) in groups.items():
        differ = take(HERE / f"{group}.safetensors", arrays, {"samples": json.dumps(facts)}, closely)
        message += [f"group {group}: {name}: {how}" for name, how in differ.items() if arguments.check]
    for path in gone:
        if arguments.check:
            message.append(f"group {path.stem}: stored, but not in the table")
        else:
            path.unlink()
    print(*message, sep="\n")
    size = sum(path.stat().st_size for path in HERE.glob("*.safetensors"))
    print(f"PyTorch {torch.__version__}: {len(SAMPLES)} samples, {len(ERRORS)} error inputs, {size / 1e6:.2f} MB")
    return bool(message)


if __name__ == "__main__":
    sys.exit(main())
