"""einops' functions on tensors: the values that they give on NumPy arrays, gradients as finite differences say."""

import subprocess
import sys

import einops
import numpy as np
import pytest

import tinytensor as tt
import tinytensor.utils.einops

x = np.random.default_rng(0).standard_normal((2, 3, 4))

CALLS = {
    "rearrange": lambda x: einops.rearrange(x, "b h w -> w (b h)"),
    "heads": lambda x: einops.rearrange(x, "b n (h d) -> b h n d", h=2),
    "rearrange of a list": lambda x: einops.rearrange([x, 2 * x], "n b h w -> b (n h) w"),
    **{
        f"reduce by {how}": lambda x, how=how: einops.reduce(x, "b h w -> h", how)
        for how in ("sum", "mean", "min", "max", "prod")
    },
    "pooling": lambda x: einops.reduce(x, "b h (w two) -> b h w", "max", two=2),
    "mean that stays": lambda x: x - einops.reduce(x, "b h w -> b 1 w", "mean"),
    "reduce to a number": lambda x: einops.reduce(x, "b h w ->", "sum"),
    "repeat": lambda x: einops.repeat(x, "b h w -> b two h (w three) one", two=2, three=3, one=1),
    "new dimensions in another order": lambda x: einops.repeat(x, "b h w -> five b h w two", two=2, five=5),
    "einsum": lambda x: einops.einsum(x, x, "b q d, b k d -> b q k"),
    "pack": lambda x: einops.pack([x, x[:, 0]], "b * w")[0],
    "unpack": lambda x: einops.unpack(x, [[1], [2]], "b * w")[1],
}


@pytest.mark.parametrize("what", CALLS)
def test_values_and_gradients(what):
    call = CALLS[what]
    result = call(tt.tensor(x))
    np.testing.assert_allclose(result.numpy(), call(x), rtol=1e-12)
    assert isinstance(result, tt.Tensor) and result.shape == call(x).shape
    assert tt.gradcheck(call, (tt.tensor(x, requires_grad=True),))


def test_truth_values_and_whole_numbers():
    for how in ("any", "all"):
        pattern = "b (one h) w -> b w", how
        expected = einops.reduce(x > 0, *pattern, one=1)
        assert einops.reduce(tt.tensor(x > 0), *pattern, one=1).tolist() == expected.tolist()
    with pytest.raises(NotImplementedError, match="mean"):
        einops.reduce(tt.ones(2, 3).long(), "a b -> a", "mean")
    assert einops.parse_shape(tt.tensor(x), "b _ w") == {"b": 2, "w": 4}
    assert np.array_equal(einops.asnumpy(tt.tensor(x, requires_grad=True)), x)


def test_a_gradient_that_is_cut_off_is_noticed():
    with pytest.raises(RuntimeError, match="gradcheck"):
        tt.gradcheck(
            lambda x: einops.reduce(x, "b h w -> h", "sum") + einops.reduce(x.detach(), "b h w -> h", "sum"),
            (tt.tensor(x, requires_grad=True),),
        )


def test_a_step_is_compiled():
    def step(x):
        return einops.reduce(einops.rearrange(x, "b h w -> b (w h)"), "b n -> b", "mean")

    compiled = tt.compile(step)
    for shift in range(3):
        assert compiled(tt.tensor(x + shift)).tolist() == step(tt.tensor(x + shift)).tolist()


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.strip()


def test_what_is_said_where_something_is_missing():
    code = "import tinytensor as tt, einops\neinops.rearrange(tt.ones(2, 3), 'a b -> b a')"
    assert "Tensor type unknown to einops" in run(code)  # without the import
    assert run(f"import tinytensor.utils.einops\n{code}") == ""
    said = run("import sys\nsys.modules['einops'] = None\nimport tinytensor.utils.einops").splitlines()[-1]
    assert said == "ImportError: tinytensor.utils.einops needs the einops library: pip install einops"
