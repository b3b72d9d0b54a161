"""The house as a whole: threads, the kernel cache, what is imported when, what calls NumPy."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.grouped import by, grouped

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tinytensor"
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of_file(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


of_each_room = grouped(by(room_of_file, FILES))


def run(code: str, *args: str, **environment: str) -> str:
    """What a fresh Python prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *args], env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


# --- Threads

TRAINING = """
import sys
import threading
import numpy as np
import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F

def train(seed, compiled):
    rng, chance = np.random.default_rng(seed), tt.Generator().manual_seed(seed)
    embedding, first, norm, last = nn.Embedding(50, 64), nn.Linear(64, 192), nn.LayerNorm(64), nn.Linear(64, 50)
    parameters = [p for m in (embedding, first, norm, last) for p in m.parameters()]
    for p in parameters:
        p.data = tt.tensor(rng.normal(size=p.shape, scale=0.3).astype(np.float32))
    opt = tt.optim.AdamW(parameters, lr=0.01)

    def step(tokens):
        opt.zero_grad()
        x = F.dropout(embedding(tokens), 0.1, generator=chance)
        q, k, v = (t.unflatten(-1, (4, 16)).transpose(1, 2) for t in first(x).split(64, -1))
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        loss = F.cross_entropy(last(F.gelu(norm(x))).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        opt.step()
        return loss

    step = tt.compile(step) if compiled else step
    losses = [step(tt.tensor(rng.integers(0, 50, (6, 20)))).item() for _ in range(12)]
    return np.array(losses).tobytes() + b"".join(p.detach().numpy().tobytes() for p in parameters)

jobs = [(1, False), (2, True), (1, True), (2, False)]
alone = [train(*job) for job in jobs]
assert alone[0] == alone[2] and alone[1] == alone[3] and alone[0] != alone[1]

for threads in (1, 2, 3):
    tt.set_num_threads(threads)
    assert tt.get_num_threads() == threads
    assert train(1, False) == alone[0], f"{threads} threads give other bits"

together = [None] * len(jobs)
def work(i):
    together[i] = train(*jobs[i])
workers = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
for w in workers:
    w.start()
for w in workers:
    w.join()
assert together == alone, "Python threads disturb each other"

shared = tt.compile(lambda x: (x @ x).softmax(-1).sum(0))
inputs = [tt.tensor(np.random.default_rng(i).normal(size=(64, 64)).astype(np.float32)) for i in range(4)]
expected = [shared(x).tolist() for x in inputs]
wrong = []
def call(i):
    for _ in range(30):
        if shared(inputs[i]).tolist() != expected[i]:
            wrong.append(i)
workers = [threading.Thread(target=call, args=(i,)) for i in range(4)]
for w in workers:
    w.start()
for w in workers:
    w.join()
assert not wrong, "one compiled function called by several threads"
import numba
print(numba.threading_layer())
"""


@pytest.mark.parametrize("layer", ["default", "workqueue"])
def test_python_threads_and_kernel_threads_do_not_change_a_bit(layer):
    used = run(TRAINING, NUMBA_NUM_THREADS="3", NUMBA_THREADING_LAYER=layer)
    assert layer in ("default", used)


def test_set_num_threads_refuses_nonsense():
    import tinytensor as tt

    with pytest.raises(ValueError, match=r"set_num_threads\(0\): expected 1 or more"):
        tt.set_num_threads(0)


# --- Kernel cache

WHERE = """
import importlib.util, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("cache", Path(sys.argv[1]) / "native" / "runtime" / "cache.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.folder(str(Path(sys.argv[1]) / sys.argv[2])))
"""


def test_changed_kernel_sources_have_another_cache(tmp_path):
    sources = tmp_path / "sources"
    for room in ("core", *(f"native/{each}" for each in ("platform", "kernels", "runtime", "simd"))):
        shutil.copytree(PACKAGE / room, sources / room, ignore=shutil.ignore_patterns("__pycache__"))
    where = lambda file: run(WHERE, str(sources), file, NUMBA_CACHE_DIR=str(tmp_path / "cache"))  # noqa: E731
    first, other = where("native/kernels/softmax.py"), where("native/kernels/random.py")
    assert Path(first).is_relative_to(tmp_path / "cache")
    assert where("native/kernels/softmax.py") == first != other
    with (sources / "native" / "simd" / "math.py").open("a") as file:  # softmax calls it, random draws do not
        file.write("\n# changed\n")
    assert where("native/kernels/softmax.py") != first
    assert where("native/kernels/random.py") == other


def test_a_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    printed = run(
        "import tinytensor as tt; from tinytensor.native.runtime import cache, kernel;"
        "print((tt.ones(2) + 1).tolist(), cache.folder(kernel.__file__))",
        NUMBA_CACHE_DIR=str(tmp_path / "file"),
        TMPDIR=str(temporary),
    )
    assert printed.startswith(f"[2.0, 2.0] {temporary}")
    assert not list(temporary.iterdir())  # and it cleans up behind itself


# --- Imports

# The rooms, the lowest first: a file imports from its own room and from those below it, inside functions as well.
ROOMS = [
    *("core", "native.platform", "native.simd", "native.runtime", "native.kernels", "native.fast", "utils.display"),
    *("ops", "utils.printing", "utils.profiler", "linalg", "autograd", "interop.io", "distributed", "optim"),
    *("interop.amp", "amp", "nn", "func", "native.recording", "distributions", "utils.data", "utils.benchmark"),
    *("interop.einops", "utils.einops", "interop.tensorboard", "utils.tensorboard", "utils", "interop.torch_names"),
    *("utils.docs", "symbolic", "viz", "cli", "utils.lazy_imports", "native", "interop", "", "__main__"),
]
BELOW = {"core", *(f"native.{room}" for room in ("platform", "simd", "runtime", "kernels"))}
ELSEWHERE = {  # what these may import; proofs draw on what they prove as little as can be, to watch and name draws
    "core": set(),  # the ground floor: NumPy and the standard library
    "native.platform": {"core"},
    "native.simd": {"core", "native.platform"},
    "native.runtime": {"core", "native.platform", "native.simd"},
    "native.kernels": BELOW,  # arrays in, arrays out
    "utils.display": {"native.platform"},
    "optim": {"core", "ops"},
    "symbolic": BELOW
    | {"linalg"}  # names for gradients by hand
    | {"native.recording", "ops", "utils.display", "autograd", "nn"},  # these run the user's function and backward()
}
EXTRAS = {  # packages of extras, which these may import, and only where they are used
    "viz": {"matplotlib", "grandalf"},
    "utils.display": {"latex2mathml"},
    "distributed": {"mpi4py"},
}


def module_of(path: Path, root: Path = PACKAGE) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The room of a module of tinytensor, without that name: `native.kernels` of `native.kernels.softmax`."""
    names = module.split(".")
    return ".".join(names[:2]) if ".".join(names[:2]) in ROOMS else names[0]


def imports(path: Path, root: Path = ROOT):
    """(module, is it inside a function?) for every import in a file of a package that lies in root."""
    tree = ast.parse(path.read_text())
    inside = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node in inside
        elif isinstance(node, ast.ImportFrom):
            folders = path.relative_to(root).parent.parts
            start = folders[: len(folders) + 1 - node.level] if node.level else ()
            module = ".".join([*start, *filter(None, [node.module])])
            for name in node.names:
                dotted = f"{module}.{name.name}"
                below = root.joinpath(*dotted.split("."))
                is_module = below.with_suffix(".py").exists() or (below / "__init__.py").exists()
                yield dotted if is_module else module, node in inside


@of_each_room
def test_imports_point_from_upper_to_lower_rooms(path):
    me = module_of(path)
    relative = [node for node in ast.walk(ast.parse(path.read_text())) if getattr(node, "level", 0)]
    assert relative == [], f"{me}: a relative import"
    for imported, inside in imports(path):
        top, _, theirs = imported.partition(".")
        if top in EXTRAS.get(room_of(me), ()):
            assert inside, f"{me} imports {imported} before it is asked for"
            continue
        assert top not in ("models", "derivations", "tests", "examples", "torch", "matplotlib"), imported
        if top == "sympy":
            assert me.startswith("symbolic"), f"{me} imports sympy, which costs a second at every start"
        assert not inside, f"{me} imports {imported} inside a function"
        if top == "tinytensor":
            mine, other = room_of(me), room_of(theirs)
            assert ROOMS.index(other) <= ROOMS.index(mine), f"{me} imports {theirs}, which stands above it"
            allowed = ELSEWHERE.get(mine)
            assert mine == other or allowed is None or other in allowed, f"{me} imports {imported}"


PROGRAM = re.compile(r"(?:models|derivations|tests|examples)(?:\.\w+)+")


def programs_named(tree: ast.AST) -> list[str]:
    """Modules of programs above the engine in a file's strings, by which it would import them without an import."""
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in texts if PROGRAM.fullmatch(text)]


@of_each_room
def test_programs_are_found_by_entry_points(path):
    assert programs_named(ast.parse(path.read_text())) == []


def test_a_named_program_is_found():
    code = 'import_module("models.command.cli")\nfolder = "models"\nerror = "see models.command.cli"'
    assert programs_named(ast.parse(code)) == ["models.command.cli"]


def circle(package: Path) -> list[str]:
    """The modules of a package that import each other in circles (or stand between two), wherever in a file they do."""
    files = {module_of(path, package.parent): path for path in package.rglob("*.py")}
    below = {name: {m for m, _ in imports(path, package.parent) if m in files} for name, path in files.items()}
    rest = set(files)
    while ends := {name for name in rest if not below[name] & rest or not any(name in below[m] for m in rest)}:
        rest -= ends
    return sorted(rest)


@pytest.mark.parametrize("package", ["tinytensor", "models", "derivations"])
def test_modules_import_each_other_without_a_circle(package):
    """Within folders too, whose files the order above leaves open."""
    assert circle(ROOT / package) == []


def test_a_planted_circle_is_found(tmp_path):
    house = tmp_path / "house"
    (house / "rooms").mkdir(parents=True)
    texts = {
        "__init__": "from . import door",
        "door": "import house.rooms.hall",
        "rooms/__init__": "",
        "rooms/hall": "def light():\n    from ..wires import current",
        "wires": "from house import door, pipes",
        "pipes": "from math import pi",
    }
    for name, text in texts.items():
        (house / f"{name}.py").write_text(text)
    assert circle(house) == ["house.door", "house.rooms.hall", "house.wires"]


def private_imports(tree: ast.AST) -> list[str]:
    """The names with an underscore in front that a file imports from another file of tinytensor."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [name.name for node in nodes if room_of(node.module or "") == "tinytensor" for name in node.names]
    return [name for name in names if name.startswith("_") and not name.startswith("__")]


@of_each_room
def test_private_names_stay_in_their_file(path):
    assert private_imports(ast.parse(path.read_text())) == []


def test_a_private_name_of_another_file_is_found():
    code = """
from tinytensor.ops.shape import _infer, reshape
from tinytensor.ops.shape import reshape as _reshape, _triangle as triangle
from tinytensor import __version__
from collections import _chain
"""
    assert private_imports(ast.parse(code)) == ["_infer", "_triangle"]


def test_what_import_tinytensor_loads():
    heavy = "mpi4py sympy matplotlib einops tokenizers tqdm torch hypothesis models derivations"
    heavy += " tinytensor.symbolic tinytensor.utils.docs.stubs tinytensor.viz"
    loaded = run(f"import tinytensor, sys; print([m for m in {heavy.split()} if m in sys.modules])")
    assert loaded == "[]"


def constructor_calls(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Tensor"
    ]


@of_each_room
def test_the_engine_makes_tensors_on_arrays(path):
    """Tensor(array) is PyTorch's constructor: a copy in the default dtype. Tensor.of(array) takes the array itself."""
    assert constructor_calls(ast.parse(path.read_text())) == []


def test_call_of_the_tensor_constructor_is_found():
    assert constructor_calls(ast.parse("y = Tensor.of(a)\nreturn_ = [Tensor(r) for r in y]")) == [2]


# --- A recording is asked by the backend; other rooms report events (core/recorder.py)

ASKS = re.compile(r"state\.recording\b|\[.recording.\]")
MAY_ASK = {
    *("core/recorder.py", "core/dispatch.py", "native/runtime/native_backend.py", "native/kernels/launches.py"),
    *("native/fast/launch_cache.py", "native/recording/compiled.py"),
    "ops/creation.py",  # what knows of arrays made in the step
}


def test_who_asks_for_the_recording():
    asking = {str(path.relative_to(PACKAGE)) for path in FILES if ASKS.search(path.read_text())}
    assert asking == MAY_ASK
    assert ASKS.search("if state.recording is None") and ASKS.search('now["recording"]')


# --- No arithmetic outside the door

KERNELS = {  # rooms and files of kernels, and what they need
    *(f"native.{room}" for room in ("platform", "simd", "runtime", "kernels")),
    *("core.backend_choice", "core.poison", "core.reference"),
}
OUTSIDE = [p for p in FILES if not {room_of(module_of(p)), module_of(p)} & (KERNELS | {"symbolic", "viz"})]

# NumPy's names that may stand outside kernels/, by the reason why no arithmetic on a tensor's data is done with them
ALLOWED = {
    "types and settings": "ndarray generic integer number bool_ bool float32 float64 int64 uint8 dtype finfo iinfo "
    "errstate promote_types",
    "shapes and strides, no values": "broadcast broadcast_shapes broadcast_to reshape moveaxis flip diagonal "
    "lib.stride_tricks.as_strided may_share_memory unravel_index ndindex",
    "fresh memory and copies": "empty zeros zeros_like full array asarray ascontiguousarray copyto concatenate "
    "frombuffer from_dlpack stack",
    "constants made from sizes": "arange linspace eye ones tri",
    "chance": "random.Generator random.PCG64",
}
# and those that look at values or compute, with the only files that may
EXCEPTIONS = {
    "array2string": {"utils/printing.py"},  # printing
    "uint16": {"interop/io/pytorch.py", "interop/io/serialization.py"},  # the bits of a bfloat16
    "uint32": {"interop/io/pytorch.py"},
    "memmap": {"interop/io/pytorch.py"},  # values of a file, as they are
    "fromfile": {"interop/io/serialization.py"},
    "nonzero": {
        "ops/index.py",
        "ops/keys.py",
        "autograd/gradcheck.py",
    },  # where a mask holds, where a check failed
    "isfinite": {"autograd/anomaly_mode.py"},  # anomaly mode
    "isnan": {"autograd/anomaly_mode.py"},  # anomaly mode
    "isclose": {"autograd/gradcheck.py"},  # gradcheck compares
    "argsort": {"ops/shape.py"},  # the inverse of a permutation of dimensions
    "cumsum": {"ops/shape.py"},  # where the pieces of split() start
    "where": {"ops/index.py", "ops/matrices.py"},  # negative indices, what counts as 0, in host functions
    "maximum": {"ops/index.py", "ops/matrices.py"},  # extremes at places, a limit, in host functions
    "minimum": {"ops/index.py"},
    **{f"linalg.{name}": {"ops/matrices.py"} for name in ("solve", "det", "slogdet", "cholesky", "qr", "eigh", "svd")},
    **{name: {"ops/matrices.py"} for name in ("linalg.LinAlgError", "delete", "swapaxes")},  # in host functions too
    **{
        name: {"interop/tensorboard.py"}
        for name in ("histogram", "flatnonzero", "nan_to_num", "append", "add.reduceat")
    },  # of what is shown
    "log": {"nn/init.py"},  # numbers of chance, in a host function
    "random.get_state": {"native/recording/guards.py"},  # did a compiled step draw from NumPy's generators?
    "random.RandomState": {"native/recording/guards.py"},
}


def outside_the_door(path: Path) -> ast.Module:
    """The code of a file without its formulas: the `kernel` of a form is what the door runs."""
    tree = ast.parse(path.read_text())
    for form in ast.walk(tree):
        if isinstance(form, ast.ClassDef):
            form.body = [part for part in form.body if getattr(part, "name", "") != "kernel"]
    return tree


def numpy_names(tree: ast.AST):
    """np.a.b as "a.b", once each, with its line."""
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node not in parts:
            names, inner = [node.attr], node.value
            while isinstance(inner, ast.Attribute):
                parts.add(inner)
                names.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id == "np":
                yield ".".join(reversed(names)), node.lineno


@grouped(by(room_of_file, OUTSIDE))
def test_numpy_outside_kernels_computes_nothing(path):
    allowed = {name for names in ALLOWED.values() for name in names.split()}
    file = str(path.relative_to(PACKAGE))
    for name, line in numpy_names(outside_the_door(path)):
        assert name in allowed or file in EXCEPTIONS.get(name, ()), f"{file}:{line}: np.{name} stands outside kernels/"


def test_every_numpy_exception_is_needed():
    used = {(name, str(p.relative_to(PACKAGE))) for p in OUTSIDE for name, _ in numpy_names(outside_the_door(p))}
    listed = {(name, file) for name, files in EXCEPTIONS.items() for file in files}
    assert listed <= used


def is_data(node: ast.AST, arrays: set[str]) -> bool:
    """Is this expression a tensor's array (x._data, x._data[i]), or an array that a function of an op was given?"""
    while isinstance(node, ast.Subscript):
        node = node.value
    return (isinstance(node, ast.Attribute) and node.attr == "_data") or (
        isinstance(node, ast.Name) and node.id in arrays
    )


# array arguments of the functions of an op that work on arrays; what else they take are settings
ARRAYS = "x a b g y q k v rows weight bias dx dense lse mean rstd value index target mask positions"
METHODS = "reshape astype copy transpose all any tolist item __dlpack__"  # no arithmetic in these


def arithmetic(tree: ast.AST):
    """Python's operators, and NumPy's methods, on the arrays behind tensors."""
    methods = [f for form in ast.walk(tree) if isinstance(form, ast.ClassDef) for f in form.body]
    for part in [tree, *methods]:
        arrays = set()
        if isinstance(part, ast.FunctionDef) and part.name in ("forward", "backward", "view"):
            arrays = set(ARRAYS.split()) & {a.arg for a in part.args.args} - {"self"}
        for node in ast.walk(part):
            if isinstance(node, ast.BinOp):
                operands = [node.left, node.right]
            elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
                operands = [node.operand]
            elif isinstance(node, ast.AugAssign):
                operands = [node.target, node.value]
            elif isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Is | ast.IsNot):
                operands = [node.left, *node.comparators]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr not in METHODS.split()
            ):
                operands = [node.func.value]
            else:
                continue
            if any(is_data(operand, arrays) for operand in operands):
                yield node.lineno, ast.unparse(node)


@grouped(by(room_of_file, OUTSIDE))
def test_no_operators_on_arrays_outside_kernels(path):
    assert not list(arithmetic(outside_the_door(path)))


PLANTED = [
    "def f(x):\n    return x._data * 2",
    "def f(x):\n    x._data[0] += 1",
    "def f(x):\n    return -x._data",
    "def f(x):\n    return x._data > 0",
    "def f(x):\n    return x._data.sum()",
    "class op:\n    def forward(x):\n        return x * x",
    "class op:\n    def backward(needs, g, y, x):\n        return (g.mean(),)",
]


@pytest.mark.parametrize("code", PLANTED)
def test_operator_on_an_array_is_found(code):
    assert list(arithmetic(ast.parse(code)))


def test_numpy_name_is_found():
    names = [name for name, _ in numpy_names(ast.parse("y = np.add.reduce(np.exp(x))\nz = np.ndarray"))]
    assert sorted(names) == ["add.reduce", "exp", "ndarray"]


# --- One name

SHADOWED = """
import importlib, pkgutil
import derivations, models, tinytensor

ROOMS = {"tinytensor.symbolic.prove", "tinytensor.symbolic.derive"}  # named as the function that hides them

def shadowed(package):
    for module in pkgutil.iter_modules(package.__path__):
        if module.name == "__main__":
            continue  # a program, which would run
        there = importlib.import_module(f"{package.__name__}.{module.name}")
        attribute = getattr(package, module.name)
        own = getattr(attribute, "__module__", "") == there.__name__  # as PyTorch's autograd.gradcheck
        if attribute is not there and not own and there.__name__ not in ROOMS:
            yield there.__name__
        if module.ispkg:
            yield from shadowed(there)

for package in (tinytensor, models, derivations):
    assert not list(shadowed(package)), list(shadowed(package))
tinytensor.core = tinytensor.launch
models.tasks.task = derivations.claims.claim
assert list(shadowed(tinytensor)) == ["tinytensor.core"]  # it can fail
assert list(shadowed(models)) == ["models.tasks.task"]
"""


def test_no_name_in_a_package_hides_a_module():
    """`import tinytensor.core.op as o` gives the module, whatever packages export; so in models and derivations.

    A module may have the name of its own function, as PyTorch's autograd.gradcheck has.
    """
    run(SHADOWED)


# --- Names of the field

# Each of these words had several meanings, so a reader could not look one up. CONTRIBUTING has a glossary.
BANNED = frozenset(("place", "places", "found", "told", "again", "given", "kind", "kinds", "thing", "much"))


def is_of_a_library(attribute: ast.Attribute) -> bool:
    """Is it NumPy's `dtype.kind`, or the `kind` of a parameter in `inspect`?"""
    of_library = r"dtype$|type\(.*\)$|dtype\(.*\)$|^p$|parameter|argument"
    return attribute.attr == "kind" and re.search(of_library, ast.unparse(attribute.value))


def banned_identifiers(tree: ast.AST) -> set[str]:
    """The banned words among the variables, arguments, attributes, functions, classes and imported names of a file.

    A keyword of a call is the callee's: NumPy's sort(kind="stable"). `given` may be Hypothesis's.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if not is_of_a_library(node):
                names.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                names |= {alias.asname or alias.name for alias in imported}
    imports = (n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)) if "given" in names else ()
    return (names & BANNED) - ({"given"} if "hypothesis" in imports else set())


def banned_by_room() -> dict[str, dict[str, set[str]]]:
    """The banned words by room and name, with the files that use them."""
    rooms: dict[str, dict[str, set[str]]] = {}
    for top in ("tinytensor", "models", "derivations", "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            file, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
            for name in banned_identifiers(ast.parse(text)) if BANNED & set(re.findall(r"\w+", text)) else ():
                rooms.setdefault("/".join(file.parts[:2]), {}).setdefault(name, set()).add(str(file))
    return rooms


def test_identifiers_are_terms_of_the_field():
    assert banned_by_room() == {}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("place = 1\nfor thing in x:\n    pass", {"place", "thing"}),
        ("def again(given, *, much=1):\n    return f'{given} {self.told}'", {"again", "given", "much", "told"}),
        ("from a import b as found\nimport places", {"found", "places"}),
        ("class kinds:\n    pass\nmatch x:\n    case [*found]:\n        pass", {"kinds", "found"}),
        ("x.dtype.kind in 'f' and result_type(a, b).kind == 'i' and sort(x, kind='stable')", set()),
        ("claim.kind == 'proof'", {"kind"}),
        ("from hypothesis import given\n@given(x)\ndef test():\n    place.found", {"place", "found"}),
    ],
)
def test_banned_identifiers_are_found(code, names):
    assert banned_identifiers(ast.parse(code)) == names
