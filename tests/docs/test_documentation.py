"""Every public name says what it is, help() shows equation, shapes, rule and definition, and so does the reference."""

import functools
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest
from pygments.lexers import PythonLexer
from pygments.token import Error

import tinytensor as tt
from tinytensor import op
from tinytensor.core.op import OPS, Op
from tinytensor.core.registry import REGISTRY
from tinytensor.utils.docs.documentation import complete, errors, operation_of
from tinytensor.utils.docs.reference import ROOMS, _plain, aliases, pages, path_of, public_names, signature, with_latex

ROOT = Path(__file__).parents[2]

# What computes no number from numbers has no equation: it moves, chooses, converts, draws, or answers yes or no.
WITHOUT_EQUATION = set(
    """
    Tensor.backward Tensor.register_hook Tensor.register_post_accumulate_grad_hook Tensor.retain_grad
    Tensor.__init__ numel is_floating_point Tensor.contiguous Tensor.to Tensor.float Tensor.double Tensor.byte
    Tensor.int Tensor.long Tensor.bool Tensor.type Tensor.type_as Tensor.cpu Tensor.is_cuda broadcast_tensors split
    chunk unbind cat stack Tensor.__iter__ Tensor.new_zeros Tensor.new_ones Tensor.new_empty Tensor.new_full
    Tensor.new_tensor nonzero masked_select equal Tensor.uniform_ Tensor.normal_ argsort sort topk multinomial
    atleast_1d atleast_2d atleast_3d hstack vstack dstack column_stack block_diag tensor_split hsplit vsplit
    cartesian_prod diag tril_indices triu_indices unique unique_consecutive argwhere var_mean std_mean aminmax
    kthvalue median Tensor.bernoulli_ Tensor.exponential_ Tensor.new F.pad
    """.split()  # noqa: SIM905
)


def said(what) -> str | None:
    """A name's own docstring, not one that it inherits."""
    return vars(what).get("__doc__") if isinstance(what, type) else getattr(what, "__doc__", None)


def undocumented(room) -> list[str]:
    """The public names of a package without a docstring, and those of their classes' methods."""
    results = []
    for name, what in public_names(room).items():
        if not said(what):
            results.append(name)
        for method, function in vars(what).items() if isinstance(what, type) else ():
            is_one = isinstance(function, FunctionType | property | staticmethod | classmethod)
            if is_one and not method.startswith("_") and not inspect.getdoc(getattr(what, method)):
                results.append(f"{name}.{method}")  # forward() of a module may have Module's docstring
    return results


@pytest.mark.parametrize("name", ROOMS)
def test_every_public_name_is_documented(name):
    room = importlib.import_module(name)
    assert public_names(room), f"{name} has no public names: the test would test nothing"
    assert undocumented(room) == []


def test_undocumented_name_is_found():
    class Room:
        __name__ = "tinytensor.room"
        __path__ = ("room",)

        class Inheriting(tt.nn.Linear):
            __module__ = "tinytensor.room"

            def added(self):
                pass

        def silent():
            pass

        def speaking():
            """It says something."""

    for what in (Room.Inheriting, Room.silent, Room.speaking):
        what.__module__ = "tinytensor.room"
    assert undocumented(Room) == ["Inheriting", "Inheriting.added", "silent"]


@pytest.mark.parametrize("name", OPS)
def test_every_operation_has_its_equation(name):
    assert "=" in OPS[name].equation


def test_every_function_of_tensors_has_its_equation():
    first = {}  # one place for each function
    for position, function in REGISTRY.items():
        first.setdefault(id(function), (position, function))
    without = {position for position, function in first.values() if "=" not in str.__str__(function.__doc__ or "")}
    assert without == WITHOUT_EQUATION


def shown(what) -> str:
    """What help() prints."""
    return pydoc.render_doc(what, renderer=pydoc.plaintext).replace(" |  ", "")


def test_help_of_softmax():
    for what in (tt.softmax, tt.Tensor.softmax, tt.nn.functional.softmax, tt.nn.Softmax):
        text = " ".join(shown(what).split())
        assert r"y_i = e^{x_i} / \sum_j e^{x_j} along `dim`" in text
        assert "x has any shape and y the same one" in text
        assert "IndexError for a `dim` that x does not have" in text
        assert "def backward(g, y): return (_by_rows(kernels.softmax_backward, g, y),)" in text
        assert "def definition(x): e = exp(x - amax(x.detach(), -1, keepdim=True))" in text
        assert (
            "Names: tinytensor.softmax, Tensor.softmax, tinytensor.nn.functional.softmax, tinytensor.nn.Softmax" in text
        )


def test_help_of_a_formula_and_of_its_method():
    for what in (tt.tanh, tt.Tensor.tanh):
        text = " ".join(shown(what).split())
        assert r"y = \tanh x" in text and "y has the shape of x; whole numbers become floats" in text
        assert "def kernel(x): return fast_tanh(x)" in text
        assert "def grad_x(g, y): return g * (1 - y * y)" in text
    assert shown(tt.Tensor.tanh).splitlines()[2].startswith("tanh(")
    assert "Like tanh, in place" in shown(tt.Tensor.tanh_)
    assert [m.__doc__ for m in (tt.Tensor.add_, tt.Tensor.__iadd__, tt.Tensor.index_add_)] == [
        f"Like {name}, in place." for name in ("add", "add", "index_add")
    ]


def test_help_of_a_composed_function_shows_its_rules():
    text = " ".join(shown(tt.sum).split())
    assert "Definition, whose operations have the rules" in text and "return reduce_sum" in text
    assert "`reduce_sum`: y =" in text and "Rule of `reduce_sum`" in text


def raised(what) -> set[str]:
    """The errors that stand in the source of a function."""
    try:
        return set(re.findall(r"\braise (\w+)\(", inspect.getsource(inspect.unwrap(what))))
    except (OSError, TypeError):
        return set()


def test_help_lists_errors():
    message = 0
    for function in {id(f): f for f in REGISTRY.values() if not isinstance(f, property)}.values():
        own = [function] if not hasattr(function, "forward") else [function.forward, function.view]
        categories = set().union(*map(raised, own))
        text = inspect.getdoc(function).partition("\nErrors:\n")[2].partition("\nNames: ")[0]
        assert categories <= set(re.findall(r"^    (\w+)", text, re.MULTILINE)), function
        message += bool(categories)
    assert message > 60
    text = " ".join(shown(tt.permute).split())
    assert "Errors: RuntimeError: permute: … must name each of the … dimensions of shape … once" in text


def test_errors_are_read_from_the_source():
    def strict(x):
        if x < 0:
            raise ValueError(f"strict: {x} is below 0")
        raise KeyError

    def lenient(x):
        return x

    assert errors([strict]) == "Errors:\n\n    ValueError: strict: … is below 0"
    assert errors([lenient]) == errors([]) == "" and raised(strict) == {"ValueError"}


# What a document or a paper has invented says which one: the documents by number, with an equation; papers by year.
INVENTED = """
F.softmax F.log_softmax F.layer_norm F.rms_norm F.cross_entropy F.relu F.gelu F.silu F.scaled_dot_product_attention
F.attention_weights F.dropout nn.MultiheadAttention nn.Transformer nn.TransformerEncoderLayer nn.LSTM
nn.GRU nn.LayerNorm nn.RMSNorm nn.BatchNorm1d nn.Dropout nn.Embedding optim.SGD optim.Adam optim.AdamW optim.Adamax
optim.Adagrad optim.Adadelta optim.RMSprop optim.LBFGS init.xavier_uniform_ init.kaiming_uniform_
utils.clip_grad_norm_ autograd.functional.hvp
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", INVENTED)
def test_the_source_is_named(name):
    results = {"F": tt.nn.functional, "nn": tt.nn, "optim": tt.optim, "init": tt.nn.init, "utils": tt.nn.utils}
    room, _, rest = name.partition(".")
    what = functools.reduce(getattr, rest.split("."), results.get(room, getattr(tt, room, None)))
    assert re.search(r"\b00[0-4]\b|\b(19|20)\d\d\b", str.__str__(what.__doc__)), what.__doc__


def test_every_public_operation_has_complete_help():
    for function in {id(f): f for f in REGISTRY.values() if not isinstance(f, property)}.values():
        text, own = inspect.getdoc(function), operation_of(function)
        assert text.startswith(inspect.cleandoc(str.__str__(function.__doc__)).splitlines()[0])
        assert "Names: " in text
        assert "Definition" in text or (own and "Shapes and dtypes: " in text and ("Rule" in text or "Formula" in text))


def test_custom_operation_keeps_its_docstring():
    @op
    class halved:
        r"y = x / 2"

        def kernel(x):
            return x / 2

        def grad_x(g):
            return g / 2

    assert inspect.getdoc(halved) == "y = x / 2"
    assert "Rule (test_documentation.py" in complete(halved, halved.equation) or "Rule (tests/" in complete(halved, "")


def test_help_is_made_on_demand():
    code = (
        "import sys, inspect, tinytensor as tt; print('tinytensor.utils.docs.documentation' in sys.modules); "
        "inspect.getdoc(tt.softmax); print('tinytensor.utils.docs.documentation' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["False", "True"]


def test_only_equations_are_typeset():
    text = with_latex(r"y_i = e^{x_i} / \sum_j e^{x_j} along `dim`: eqs. (6) and (12) of 003.")
    assert text == r"$y_i = e^{x_i} / \sum_j e^{x_j}$ along `dim`: eqs. (6) and (12) of 003."
    assert with_latex("Join tensors.") == "Join tensors."


def test_functions_are_called_as_they_are_public():
    rooms = {"": tt, "F.": tt.nn.functional, "linalg.": tt.linalg, "Tensor.": tt.Tensor}
    names = {}
    for index in REGISTRY:
        room, dot, name = index.rpartition(".")
        public = vars(rooms[room + dot]).get(name) if room + dot in rooms else None
        own = isinstance(REGISTRY[index], Op) or public is REGISTRY[index]
        if isinstance(public, FunctionType) and not name.startswith("__") and not own:
            names[index] = public.__name__
    assert names == {index: index.rpartition(".")[2] for index in names}
    assert {"add", "divide", "Tensor.add_", "F.binary_cross_entropy", "linalg.matmul"} <= set(names)


def test_signatures_are_true():
    assert signature(tt.softmax, "softmax") == "softmax(x: Tensor, dim: int | None = None, *, dtype=None) -> Tensor"
    assert "alpha: float = 1.0" in signature(tt.nn.functional.celu, "celu")
    assert signature(REGISTRY["Tensor.tanh"], "tanh", method=True) == "tanh()"


def entry(page: str, category: str, name: str) -> str:
    """The part of a page that is about one name."""
    match = re.search(
        rf"^(:+)\{{py:{category}\}} {re.escape(name)}(?:\([^\n]*)?$(.*?)^\1$", page, re.MULTILINE | re.DOTALL
    )
    return "" if match is None else match[2]


ABS = {"function": "tinytensor.abs", "method": "tinytensor.Tensor.abs"}


def test_aliases_are_further_names_of_one_operation():
    assert aliases(["abs", "absolute", "exp", "clip"]) == {"absolute": "abs"}
    assert aliases(["abs", "absolute", "abs_", "absolute_", "cpu", "pin_memory"], "Tensor.") == {
        "absolute": "abs",
        "absolute_": "abs_",
    }
    assert aliases(["relu", "gelu"], "F.") == {}


def errors_of_lexing(text: str) -> list[str]:
    """The blocks of Python that Sphinx could not colour, of which it warns."""
    blocks = re.findall(r"^```python\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if any(token is Error for token, _ in PythonLexer().get_tokens(block))]


def test_files_in_a_docstring_are_no_python():
    assert _plain("    a/  the `b` of c") == "```text\na/  the `b` of c\n```"
    assert _plain("    a = 1\n\n    b = 2") == "```python\na = 1\n\nb = 2\n```"
    assert errors_of_lexing("```python\na/  the `b` of c\n```") and not errors_of_lexing("```python\na = 1\n```")


def test_the_reference_has_every_name_on_its_page():
    written = pages()
    assert [block for text in written.values() for block in errors_of_lexing(text)] == []
    assert set(written) == {"tensor", *map(path_of, ROOMS)}
    for room in ROOMS:
        for name, what in public_names(importlib.import_module(room)).items():
            page = written["tensor" if what is tt.Tensor else path_of(room)]
            assert entry(page, "class" if isinstance(what, type) else "function", name), f"{room}: {name}"
            functions = {"function": {name: what}}
            if isinstance(what, type):
                page = entry(page, "class", name)
                own = {m: f for m, f in vars(what).items() if isinstance(f, FunctionType) and not m.startswith("_")}
                functions = {"method": own}
            for category, members in functions.items():
                for member, function in members.items():
                    there = entry(page, category, member)
                    if first := re.search(r"\n\nAnother name of \{py:obj\}`[\w.]+\.(\w+)`\.\n$", there):
                        there = entry(page, category, first[1])
                        assert "Another name" not in there
                    assert all(error in there for error in raised(function)), f"{room}: {name}, {member}"
    softmax = entry(written["tinytensor"], "function", "softmax")
    assert r"$y_i = e^{x_i} / \sum_j e^{x_j}$ along `dim`: eqs." in softmax
    assert "softmax\\_backward" in softmax or "softmax_backward" in softmax
    assert "<summary>Definition" in softmax
    assert "kwargs" not in entry(written["tensor"], "method", "tanh")
    assert entry(written["tinytensor"], "function", "no_such_name") == ""
    for page, category in (("tinytensor", "function"), ("tensor", "method")):
        names = re.findall(rf"\{{py:{category}\}} (\w+)", written[page])
        assert names.index("absolute") == names.index("abs") + 1
        assert entry(written[page], category, "absolute") == f"\n\nAnother name of {{py:obj}}`{ABS[category]}`.\n"
        assert "$y = |x|$" in entry(written[page], category, "abs")
    first = re.search(r"\{py:(?:class|function)\} (\w+)", written["tinytensor"])[1]
    assert not tt.__dict__[first].__module__.startswith("tinytensor.interop.torch_names"), (
        "it opens with a name of PyTorch's"
    )
