"""Names that PyTorch has and tinytensor does not, and what programs ask of devices that are not here."""

import copy
import importlib
import subprocess
import sys
import types

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.interop.torch_names import missing_names, module_paths
from tinytensor.interop.torch_names.missing_names import Absent

PLACES = {
    "": tt,
    "Tensor": tt.ones(2, 2),
    "nn": nn,
    "nn.Module": nn.Linear(1, 1),
    "nn.functional": nn.functional,
    "nn.init": nn.init,
    "nn.utils": nn.utils,
    "optim": tt.optim,
    "optim.lr_scheduler": tt.optim.lr_scheduler,
    "autograd": tt.autograd,
    "cuda": tt.cuda,
    "func": tt.func,
    "linalg": tt.linalg,
    "distributed": tt.distributed,
    "distributions": tt.distributions,
    "utils.data": tt.utils.data,
}


@pytest.mark.parametrize("index", PLACES)
def test_every_missing_name_has_an_error(index):
    holder, missing = PLACES[index], 0
    for name in sorted(missing_names._pytorchs()[index]):
        if not hasattr(holder, name):
            missing += 1
            with pytest.raises(AttributeError) as raised:
                getattr(holder, name)
            said = str(raised.value)
            assert said.startswith(f"{index}.{name}: PyTorch has it" if index else f"{name}: PyTorch has it"), said
            assert "tinytensor does not; " in said and raised.value.name == name
    assert missing > 0


MODULES = {path: holder.__name__ for path, holder in PLACES.items() if isinstance(holder, types.ModuleType)}


@pytest.mark.parametrize("index", MODULES)
def test_import_of_a_missing_name_has_the_same_error(index):
    """Except of a module path that can be imported, whose contents say it."""
    room = MODULES[index]
    before, missing = set(vars(PLACES[index])), 0
    for name in sorted(missing_names._pytorchs()[index]):
        path = f"{index}.{name}".strip(".")
        if not hasattr(PLACES[index], name) and path not in (*module_paths.PATHS, *module_paths.ADVICE):
            missing += 1
            with pytest.raises(ImportError) as raised:
                exec(f"from {room} import {name}")
            assert str(raised.value) == missing_names.sentence(index, name) and raised.value.name == f"{room}.{name}"
    assert missing > 0 and set(vars(PLACES[index])) == before


@pytest.mark.parametrize("index", MODULES)
def test_import_of_an_unknown_name_has_the_ordinary_error(index):
    room = MODULES[index]
    with pytest.raises(ImportError, match=f"cannot import name 'no_such_name' from '{room}'"):
        exec(f"from {room} import no_such_name")
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{room}.no_such_name'"):
        exec(f"import {room}.no_such_name")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tinytensor.nn.Linear'"):
        exec("import tinytensor.nn.Linear")  # which is there, and is no module


def test_import_error_gives_advice():
    program = "from tinytensor.nn import Linear, Conv2d"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: nn.Conv2d: PyTorch has it, tinytensor does not; the only convolution is Conv1d, over "
        "sequences; for images use PyTorch"
    )


@pytest.mark.parametrize("index", PLACES)
def test_unknown_names_have_the_ordinary_error(index):
    holder = PLACES[index]
    assert getattr(holder, "no_such_name", 5) == 5 and not hasattr(holder, "no_such_name")
    with pytest.raises(AttributeError, match=r"has no attribute 'no_such_name'$"):
        holder.no_such_name  # noqa: B018


def test_every_place_is_tested():
    assert set(missing_names._pytorchs()) == set(PLACES)


def test_advice_names_the_alternative():
    for name, serves in (
        ("Conv2d", "the only convolution"),
        ("BatchNorm2d", "LayerNorm"),
        ("MaxPool2d", "convolution"),
    ):
        with pytest.raises(AttributeError, match=rf"nn.{name}: .*{serves}"):
            getattr(nn, name)
    with pytest.raises(AttributeError, match=r"Tensor.short: .*int\(\) for short integers"):
        tt.ones(2).short()
    with pytest.raises(AttributeError, match=r"Tensor.cuda: .*everything is on the CPU"):
        tt.ones(2).cuda()
    with pytest.raises(AttributeError, match=r"Tensor.i0: PyTorch has it"):
        tt.Tensor.i0  # noqa: B018
    for holder, name, serves in (
        (nn.Linear(1, 1), "register_backward_hook", "register_full_backward_hook"),
        (nn, "ReflectionPad2d", r"nn\.functional\.pad"),
        (tt, "spmm", "mm and addmm"),
        (tt, "sparse", "mm and addmm"),
        (tt.distributions, "LogNormal", "ExpTransform"),
    ):
        with pytest.raises(AttributeError, match=rf"{name}: .*{serves}"):
            getattr(holder, name)
    for name in ("trace", "save", "load"):
        with pytest.raises(NotImplementedError, match=rf"jit.{name}: .*compile records a step, tinytensor.save keeps"):
            getattr(tt.jit, name)(nn.Linear(1, 1), "file")
    with pytest.raises(TypeError, match=r"dtype: tensors are .*, not int8; .*int32 for shorter integers"):
        tt.ones(2, dtype=tt.int8)
    for names in missing_names.ALTERNATIVES.values():
        assert len(set(names.split())) == len(names.split())


def test_existing_names_are_not_marked_missing():
    marked = {name for name, value in vars(tt.Tensor).items() if isinstance(value, Absent)}
    assert "i0" in marked and not marked & {"sum", "backward", "grad", "shape", "is_cuda", "pin_memory"}
    assert not {name for name in marked if hasattr(tt.ones(1), name)}


def test_python_protocols_are_intact():
    x = tt.ones(2)
    assert copy.copy(x).tolist() == copy.deepcopy(x).tolist() == [1.0, 1.0]
    assert np.asarray(x).tolist() == [1.0, 1.0] and not hasattr(x, "__cuda_array_interface__")
    assert copy.deepcopy(nn.Linear(2, 3)).weight.shape == (3, 2)
    assert importlib.import_module("tinytensor.nn.functional") is nn.functional


# --- Devices


def test_programs_that_choose_a_device_run():
    device = tt.device("cuda" if tt.cuda.is_available() else "mps" if tt.backends.mps.is_available() else "cpu")
    assert device.type == "cpu"
    device = tt.accelerator.current_accelerator().type if tt.accelerator.is_available() else "cpu"
    assert tt.ones(2, device=device).device == device and not tt.ones(1).is_cuda
    tt.cuda.manual_seed(1)
    tt.cuda.manual_seed_all(1)
    tt.cuda.empty_cache()
    tt.cuda.synchronize()
    assert tt.cuda.device_count() == tt.cuda.max_memory_allocated() == tt.accelerator.device_count() == 0
    tt.backends.cudnn.deterministic, tt.backends.cudnn.benchmark = True, False
    tt.backends.cuda.matmul.allow_tf32 = True
    assert not tt.backends.cudnn.is_available() and tt.backends.cudnn.version() is None
    for name in ("current_device", "get_device_name", "get_device_properties", "set_device", "Event", "Stream"):
        with pytest.raises(RuntimeError, match=rf"cuda.{name}: there is no CUDA device here"):
            getattr(tt.cuda, name)(0)
    x = tt.ones(2)
    assert x.pin_memory() is x and x.to("cpu", non_blocking=True) is x
    cudnn = importlib.import_module("tinytensor.backends.cudnn")
    assert cudnn is tt.backends.cudnn


@pytest.mark.parametrize("position", [tt.mps, tt.xpu])
def test_other_devices_are_unavailable(position):
    assert not position.is_available() and position.device_count() == 0
    assert position.manual_seed(1) is position.empty_cache() is position.synchronize() is None


@pytest.mark.parametrize("name", ["CharTensor", "ShortTensor", "HalfTensor", "BFloat16Tensor"])
def test_tensor_types_of_unsupported_dtypes_can_be_named(name):
    tensors = getattr(tt, name)
    assert not isinstance(tt.ones(1), tensors) and repr(tensors) == name
    with pytest.raises(TypeError, match=rf"{name}: tensors are float32, .*short numbers are FloatTensor"):
        tensors([0, 1])
    with pytest.raises(TypeError):
        tt.ones(1).type(tensors)
    assert not tt.is_complex(tt.ones(1)) and not tt.ones(1).is_complex()


def one_run(context, scaler):
    tt.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = tt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        with context():
            loss = model(tt.ones(4, 3)).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return model.weight.tolist()


def test_mixed_precision_is_float32():
    amp = importlib.import_module("tinytensor.cuda.amp")
    contexts = (
        lambda: tt.autocast("cpu"),
        lambda: tt.autocast(device_type="cuda", dtype=tt.float16),
        lambda: tt.amp.autocast("cpu", enabled=False, dtype=tt.bfloat16),
        lambda: tt.amp.autocast("cpu", tt.float32),
        lambda: amp.autocast(),
        lambda: amp.autocast(enabled=True, dtype=tt.float16),
    )
    scalers = (tt.amp.GradScaler(enabled=False), tt.GradScaler("cuda"), amp.GradScaler(init_scale=1024.0))
    runs = {str(one_run(context, scaler)) for context in contexts for scaler in scalers}
    assert len(runs) == 1
    with pytest.raises(TypeError, match="not bfloat16; float32 serves"):
        tt.autocast("cpu", dtype=tt.bfloat16)
    assert tt.GradScaler().get_scale() == 1.0 and not tt.GradScaler().is_enabled()
    tt.GradScaler().load_state_dict(tt.GradScaler().state_dict())

    @tt.autocast("cpu")
    def double(x):
        return x * 2

    assert double(tt.ones(1)).tolist() == [2.0]


def test_manual_seed_needs_an_integer():
    for seed in ("a", None, [1]):
        with pytest.raises(TypeError, match="manual_seed: expected a whole number, got"):
            tt.manual_seed(seed)
    assert tt.manual_seed(np.int64(3)) is tt.default_generator
