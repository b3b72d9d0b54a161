"""The claims at real size: they hold (one that is small), and fail when they should."""

import dataclasses
from dataclasses import replace

import pytest

from derivations.claims import Refuted, claims_of, result_of
from derivations.exact import replay as replaying
from derivations.proofs import real_size
from models import decoder, transformer
from models.decoder import CONFIGS
from models.tasks import recommend
from tests.mutants.planting import kernel_with, module_of, planted_kernel, planted_rule, rule_with
from tinytensor.native.kernels import KERNELS, attention, matmul
from tinytensor.native.simd import vector
from tinytensor.symbolic import lift, prove

CLAIMS = {claim.statement: claim for claim in claims_of(["real_size"])}


def claim(part: str):
    return next(c for statement, c in CLAIMS.items() if part in statement)


def test_every_layout_has_a_claim():
    assert len(CLAIMS) == 2 + len(real_size.LAYOUTS) + len(real_size.STACKS_LAYOUTS)
    assert {c.category for c in CLAIMS.values()} == {"sampled"}
    first = next(iter(CLAIMS.values()))
    assert first.size == f"{CONFIGS['toth-tiny'].sizes()}, B = 2"


def test_every_named_configuration_and_every_switch_is_claimed():
    """At smaller sizes; one rate of dropout stands for the others, since the draw decides what is dropped."""
    claimed = [decoder.Config().replace(**switches).to_dict() for switches in ({}, *real_size.LAYOUTS.values())]
    sizes = ("D", "H", "F", "L", "V", "C")

    def layout(config: dict) -> dict:
        return {name: value > 0 if name == "dropout" else value for name, value in config.items() if name not in sizes}

    named = CONFIGS | recommend.RecommendTask.CONFIGS
    assert {"toth-tiny", "nano", "gpt2", "micro", "recommend"} <= named.keys()
    for name, config in named.items():
        assert layout(config.to_dict()) in [layout(c) for c in claimed], name
    stacks = [real_size.STACKS.replace(**switches).to_dict() for switches in real_size.STACKS_LAYOUTS.values()]
    for configs, Config in ((claimed, decoder.Config), (stacks, transformer.Config)):
        for field in dataclasses.fields(Config):
            values = {c[field.name] for c in configs}
            if field.type == "str" or isinstance(field.default, str):
                assert values == set(field.metadata["choices"]), field.name
            elif isinstance(field.default, bool):
                assert values == {False, True}, field.name
            elif isinstance(field.default, float) and field.name != "eps":
                assert 0.0 in values and max(values) > 0, field.name


def test_sizes_are_beyond_blocks():
    """A square of attention has 8 queries at least, a tile of a product 8 rows, registers 8 doubles at most."""
    config = real_size.SMALLER
    assert min(config.C, real_size.WORDS, real_size.ANSWER) > attention.LANES >= attention.WIDTH
    assert config.C * 2 > matmul.MR * 2
    assert min(config.D, config.F, config.V) > 2 * vector.BYTES // 8
    sizes = [config.C, config.D, config.F, config.V, config.K, config.H, 2]
    assert len(set(sizes)) >= 6


@pytest.mark.slow
def test_layout_holds_with_a_stated_probability():
    result = result_of(claim("microgpt's layout"))
    assert result.error is None, result.why
    lines = result.evidence.text.splitlines()
    assert lines[0].endswith("entries of gradients, all at once: <gradient, v> = D_v loss")
    (message,) = (line for line in lines if line.startswith("probability that a wrong gradient passes: below 2^"))
    assert int(message.partition("^")[2]) <= real_size.BOUND


@pytest.mark.slow
def test_a_wrong_kernel_fails():
    kernel, right, wrong = "rms_norm_backward", "sum_lanes(sum_hn) / count", "sum_lanes(sum_hn)"
    with planted_kernel(kernel, kernel_with(kernel, right, wrong)):
        result = result_of(claim("microgpt's layout"))
    assert isinstance(result.error, Refuted)
    assert "refuted: Loss" in result.why


@pytest.mark.slow
def test_a_wrong_rule_fails():
    with planted_rule(*rule_with("gelu_erf", "grad_x", "gelu_erf_backward(g, x", "gelu_erf_backward(g * 2, x")):
        assert isinstance(result_of(claim("nanoGPT's layout")).error, Refuted)


def test_unsafe_or_undecided_proof_is_refused():
    proof = prove(lambda x: x * x, (3,), size="real")
    real_size.accept(proof)
    with pytest.raises(Refuted, match="could pass with a probability"):
        real_size.accept(replace(proof, error=-99.0))
    with pytest.raises(Refuted):
        real_size.accept(replace(proof, against=("a sentence",)))


# --- The recorded step


@pytest.fixture
def small_step(monkeypatch):
    """The claim of the recorded step, for a smaller model; returns its run, for a change of the recording."""
    monkeypatch.setattr(real_size, "RECORDED", decoder.Config(D=4, H=2, F=6, L=1, V=7, C=5))
    make = real_size.recorded_step

    def run(change=lambda recording: None):
        def changed(settings):
            recorded, *rest = make(settings)
            change(recorded.recording)
            return recorded, *rest

        monkeypatch.setattr(real_size, "recorded_step", changed)
        return result_of(claim("the replayed step"))

    return run


def launches(recording, name: str) -> list[int]:
    return [i for i, (what, _) in enumerate(recording.noted) if getattr(what, "name", "") == name]


def test_the_recorded_step_holds(small_step):
    result = small_step()
    assert result.error is None, result.why
    assert "equations" in result.evidence.text


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["take", "layer_norm", "attention_backward", "scatter_add", "adam", "matmul", "sumsq"])
def test_missing_launch_of_a_recording_is_noticed(name, small_step):
    assert small_step(lambda recording: recording.noted.pop(launches(recording, name)[0])).error is not None


def test_swapped_launches_are_noticed(small_step):
    def change(recording):
        first, last = launches(recording, "layer_norm_backward")[0], launches(recording, "layer_norm_backward")[-1]
        recording.noted[first], recording.noted[last] = recording.noted[last], recording.noted[first]

    assert small_step(change).error is not None


def test_buffer_reused_too_early_is_noticed(small_step):
    """The first layer norm leaves its result where another launch writes before it has been read for the last time."""

    def change(recording):
        one, other = launches(recording, "layer_norm")[:2]
        kernel, launch = recording.noted[other]
        index = kernel.names.index("y")
        args = list(launch.args)
        args[index] = recording.noted[one][1].args[index]
        recording.noted[other] = kernel, launch._replace(args=tuple(args))

    result = small_step(change)
    assert result.error is not None
    assert "adam" not in result.why  # found before, where the gradient is


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("name", "right", "wrong", "message"),
    [
        ("adam", "new2 * d * d", "new2 * d * d * d * d", "the square of"),
        ("adam", "* grow + eps", "+ eps", "after the step"),
        ("adam", "old = ps[i] * (cast(1) - factor * shrink)", "old = ps[i]", "after the step"),
        ("sumsq", "row_sum(x[begin:end]", "row_sum(x[begin : end - 1]", "the norm"),
        ("scatter_add", "target[d] += row[d]", "target[d] = row[d]", "<gradient, v>"),
    ],
)
def test_a_wrong_kernel_in_a_recording_is_named(name, right, wrong, message, small_step, monkeypatch):
    kernel, scope = KERNELS[name], {"__name__": "planted"}
    exec(compile(kernel_with(name, right, wrong), module_of(kernel).__file__, "exec"), scope)
    monkeypatch.setattr(replaying, "lift", lambda k, **constants: lift(scope[name] if k is kernel else k, **constants))
    result = small_step()
    assert isinstance(result.error, Refuted), result.why
    assert message in result.why


def test_unwritten_memory_of_a_recording_is_named(small_step):
    result = small_step(lambda recording: recording.noted.pop(launches(recording, "take")[0]))
    assert "was read before anything was written there" in result.why
