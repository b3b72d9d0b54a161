"""Every module path of PyTorch that published programs use can be imported; what is missing there says so at use."""

import importlib
import subprocess
import sys

import pytest

from tinytensor.interop.torch_names.module_paths import ADVICE, PATHS, Missing

# from programs on public code hosts: (path, a name that they import from it)
USED = [
    *(("nn.modules", "Module"), ("nn.modules.linear", "Linear"), ("nn.modules.module", "Module")),
    *(("nn.modules.activation", "MultiheadAttention"), ("nn.modules.normalization", "LayerNorm")),
    *(
        ("nn.modules.container", "ModuleList"),
        ("nn.modules.loss", "CrossEntropyLoss"),
        ("nn.modules.dropout", "Dropout"),
    ),
    *(("nn.modules.transformer", "TransformerEncoder"), ("nn.modules.sparse", "Embedding")),
    *(("nn.modules.rnn", "LSTM"), ("nn.modules.conv", "Conv1d"), ("nn.modules.batchnorm", "BatchNorm1d")),
    *(("nn.modules.conv", "Conv2d"), ("nn.modules.pooling", "MaxPool2d"), ("nn.modules.utils", "_pair")),
    *(("nn.parameter", "Parameter"), ("nn.init", "xavier_uniform_"), ("nn.functional", "softmax")),
    *(("nn.parallel", "DistributedDataParallel"), ("nn.parallel.distributed", "DistributedDataParallel")),
    *(("nn.utils", "clip_grad_norm_"), ("nn.utils.clip_grad", "clip_grad_norm_"), ("nn.utils.rnn", "pad_sequence")),
    *(("nn.utils.rnn", "pack_padded_sequence"), ("nn.utils.parametrizations", "weight_norm")),
    *(("nn.utils.parametrize", "register_parametrization"), ("nn.utils.weight_norm", "WeightNorm")),
    *(("utils", "data"), ("utils.data", "DataLoader")),
    *(
        ("utils.data.dataloader", "DataLoader"),
        ("utils.data.dataset", "Dataset"),
        ("utils.data.dataset", "random_split"),
    ),
    *(("utils.data.sampler", "RandomSampler"), ("utils.data.distributed", "DistributedSampler")),
    *(
        ("utils.tensorboard", "SummaryWriter"),
        ("utils.tensorboard.writer", "SummaryWriter"),
        ("utils.checkpoint", "checkpoint"),
        ("utils.model_zoo", "load_url"),
    ),
    *(("utils.cpp_extension", "load"), ("utils.benchmark", "Timer"), ("utils.dlpack", "to_dlpack")),
    *(("distributions", "Normal"), ("distributions.normal", "Normal"), ("distributions.categorical", "Categorical")),
    *(("distributions.kl", "kl_divergence"), ("distributions.beta", "Beta"), ("distributions.uniform", "Uniform")),
    *(("optim", "AdamW"), ("optim.adam", "Adam"), ("optim.adamw", "AdamW"), ("optim.sgd", "SGD")),
    *(("optim.optimizer", "Optimizer"), ("optim.lr_scheduler", "LambdaLR"), ("optim.lr_scheduler", "_LRScheduler")),
    *(
        ("optim.swa_utils", "AveragedModel"),
        ("optim.lbfgs", "LBFGS"),
        ("autograd", "Variable"),
        ("autograd", "Function"),
    ),
    *(("autograd.function", "Function"), ("autograd.functional", "jacobian"), ("autograd.variable", "Variable")),
    *(("autograd.profiler", "profile"), ("profiler", "profile"), ("func", "vmap"), ("linalg", "norm")),
    *(("special", "xlogy"), ("fft", "rfft"), ("random", "manual_seed"), ("multiprocessing", "spawn"), ("hub", "load")),
    *(("onnx", "export"), ("jit", "script"), ("fx", "symbolic_trace"), ("testing", "assert_close"), ("sparse", "mm")),
    *(("backends", "cudnn"), ("backends.cudnn", "benchmark"), ("cuda", "is_available"), ("cuda.amp", "autocast")),
    *(
        ("cuda.amp", "GradScaler"),
        ("amp", "autocast"),
        ("serialization", "load"),
        ("distributed", "init_process_group"),
    ),
    *(
        ("distributed.fsdp", "FullyShardedDataParallel"),
        ("_dynamo", "config"),
        ("version", "cuda"),
        ("types", "Tensor"),
    ),
    *(("quantization", "quantize_dynamic"), ("overrides", "TorchFunctionMode"), ("utils.hooks", "RemovableHandle")),
]


@pytest.mark.parametrize(("path", "name"), USED)
def test_common_paths_import(path, name):
    module = importlib.import_module(f"tinytensor.{path}")
    result = getattr(module, name)
    assert importlib.import_module(f"tinytensor.{path}") is module
    if not isinstance(result, Missing):
        position = PATHS.get(path, path)
        assert result is getattr(importlib.import_module(f"tinytensor.{position}".rstrip(".")), name)
        return
    for use in (result, lambda: result.anything, lambda: inherit(result)):
        with pytest.raises(NotImplementedError, match=rf"{path}.{name}: PyTorch has it, tinytensor does not; \w+"):
            use()


def inherit(base):
    class Own(base):
        pass


def test_most_common_paths_exist():
    there = [
        not isinstance(getattr(importlib.import_module(f"tinytensor.{path}"), name), Missing) for path, name in USED
    ]
    assert sum(there) >= 45 and len({path for path, _ in USED}) >= 60


def test_every_form_of_import_statement():
    program = """
import tinytensor as torch
import tinytensor.nn.modules.linear as linear
import tinytensor.utils.tensorboard as tb
from tinytensor.utils.data.dataloader import DataLoader
from tinytensor.nn.utils.rnn import pad_sequence
from tinytensor.utils.tensorboard import SummaryWriter
from tinytensor.distributions.normal import Normal
import tinytensor.optim.adam
assert linear.Linear is torch.nn.Linear and torch.optim.adam.Adam is torch.optim.Adam
assert DataLoader is torch.utils.data.DataLoader and Normal is torch.distributions.Normal
assert tb.SummaryWriter is SummaryWriter
import tinytensor.onnx as onnx
from tinytensor.utils.checkpoint import checkpoint
try:
    checkpoint(len, "")
except NotImplementedError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("utils.checkpoint.checkpoint: PyTorch has it, tinytensor does not; models of")


@pytest.mark.parametrize("path", ["nn.modulse", "utils.data.dataloder", "nothing", "nn.modules.linear.deeper"])
def test_unknown_path_is_refused(path):
    with pytest.raises(ModuleNotFoundError, match=f"No module named 'tinytensor.{path}"):
        importlib.import_module(f"tinytensor.{path}")


def test_tables_list_each_path_once():
    assert not PATHS.keys() & ADVICE.keys()
    for path, position in PATHS.items():
        importlib.import_module(f"tinytensor.{position}".rstrip("."))
        assert importlib.import_module(f"tinytensor.{path}").__name__ == f"tinytensor.{path}"


def test_path_does_not_replace_a_function():
    """torch.nn.utils.weight_norm is a module's path and a function: the name stays the function."""
    program = """
import importlib, sys, types, tinytensor
from tinytensor.interop.torch_names.module_paths import ADVICE, PATHS
loaded = {n: m for n, m in sys.modules.items() if n.startswith("tinytensor")}
before = {(name, n): v for name, m in loaded.items() for n, v in vars(m).items()}
for path in (*PATHS, *ADVICE):
    importlib.import_module(f"tinytensor.{path}")
print([key for key, value in before.items() if callable(value) and getattr(loaded[key[0]], key[1]) is not value])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_paths_are_made_on_demand():
    program = (
        "import sys, tinytensor; print([m for m in sys.modules if 'tinytensor.nn.modules' in m or 'tensorboard' in m])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
