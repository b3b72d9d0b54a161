"""The stubs say what the source says, and a type checker reads what a Tensor can do from them."""

import ast

import pytest

from tinytensor import Tensor
from tinytensor.core.tensor_values import TensorValues
from tinytensor.interop.torch_names.missing_names import Absent
from tinytensor.ops.methods import METHODS
from tinytensor.utils.docs import stubs


@pytest.mark.parametrize("path", stubs.STUBS, ids=lambda p: p.name)
def test_stub_is_what_the_source_generates(path):
    assert path.read_text() == stubs.STUBS[path](), "run `python -m tinytensor.utils.docs.stubs`"


@pytest.mark.parametrize("path", stubs.STUBS, ids=lambda p: p.name)
def test_stub_imports_what_it_names(path):
    text = path.read_text()
    assert not stubs.unknown_names(text)
    assert stubs.unknown_names(text + "def f(x: Nowhere) -> Neither: ...") == ["Neither", "Nowhere"]
    settings = [line for line in text.splitlines() if line.startswith("# mypy:")]
    assert settings == ['# mypy: disable-error-code="override, misc"']  # mypy takes all of the line for its own


def test_stub_has_every_method_of_a_tensor():
    tree = ast.parse(stubs.tensor_stub())
    (tensor,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    declared = {n.name for n in tensor.body if isinstance(n, ast.FunctionDef)}
    declared |= {n.target.id for n in tensor.body if isinstance(n, ast.AnnAssign)}
    public = {n for n, value in vars(Tensor).items() if not n.startswith("_") and not isinstance(value, Absent)}
    assert public - declared == {n for n in vars(TensorValues) if not n.startswith("_")}  # from its base class


def test_method_attached_later_is_noticed():
    """The comparison can fail: a method that the table does not have is not in the stub."""
    assert "def never_declared" not in stubs.tensor_stub()
    METHODS["never_declared"] = METHODS["sum"]
    try:
        assert "def never_declared" in stubs.tensor_stub()
    finally:
        del METHODS["never_declared"]
