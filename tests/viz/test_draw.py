"""`draw`: what stands in the boxes, that fused operations unfold to the same gradients, and files."""

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.viz.graphs import chain
from tinytensor import nn
from tinytensor.native.platform.distribution import install
from tinytensor.viz import draw, look, watch
from tinytensor.viz.expand_fused import expanded
from tinytensor.viz.layout import Box, layout

SVG = "{http://www.w3.org/2000/svg}"


def attention_layer():
    tt.manual_seed(0)
    net = nn.MultiheadAttention(8, 2, batch_first=True)
    x = tt.randn(1, 4, 8)
    with watch():
        loss = F.layer_norm(net(x, x, x, need_weights=False)[0], (8,)).square().mean()
    return net, loss


def boxes(svg: str) -> dict[str, list[str]]:
    """The lines of text in each box, by the class of the box and the first line."""
    root = ElementTree.fromstring(svg)
    groups = [g for g in root.iter(f"{SVG}g") if g.get("id")]
    return {g.find(f"{SVG}text").text: [g.get("class")] + [t.text for t in g.iter(f"{SVG}text")] for g in groups}


def test_boxes_have_names_values_shapes_and_gradients():
    t = chain()
    drawing = draw(t["y"], t)
    result = boxes(drawing.svg)
    t["y"].backward()
    assert result["a"] == ["leaf", "a", "2", f"gradient {t['a'].grad.item():.4g}"]
    assert result["d = add(c, a)"] == ["op", "d = add(c, a)", "-4", "gradient 0.01832"]
    assert result["y = exp(d)"][0] == "op result" and len(result) == 5
    assert "add(c, a)" in drawing.dot and 'n3 -> n0 [label="↑ -0.05495"]' in drawing.dot
    assert drawing._repr_svg_() == drawing.svg


def test_every_use_is_a_line():
    a = tt.tensor(1.0, requires_grad=True)
    drawing = draw(a + a, {"a": a})
    assert drawing.dot.count("n1 -> n0") == 2
    lines = re.findall(r'<path d="(M[^"]*C[^"]*)"', drawing.svg)
    assert len(set(lines)) == 2  # beside each other, not on top of each other


def test_parameters_have_their_names():
    net = nn.Linear(3, 2)
    result = boxes(draw(net(tt.ones(4, 3)).sum(), {"net": net, "other": 3}).svg)
    assert {"net.weight", "net.bias"} <= set(result)


@pytest.mark.parametrize("name", ["<b>&", 'say "x"', "back\\slash", "</script>"])
def test_names_are_escaped(name):
    x = tt.tensor(1.0, requires_grad=True)
    drawing = draw(x.exp(), {name: x})
    assert name in boxes(drawing.svg)
    assert name.replace("\\", "\\\\").replace('"', '\\"') in drawing.dot


def test_fused_operations_unfold_to_the_same_gradients():
    net, loss = attention_layer()
    seen = look(loss, net)
    wide = expanded(look(loss, net))
    fused = {"attention", "layer_norm", "linear"}
    assert fused <= {step.op.name for step in seen.steps}
    assert fused.isdisjoint(step.op.name for step in wide.steps)
    assert fused <= {step.part_of.op.name for step in wide.steps if step.part_of}
    loss.backward()
    for leaf in wide.leaves:
        total = sum(share.sent.astype(float) for share in leaf.shares)
        assert total == pytest.approx(leaf.tensor.grad.numpy(), rel=1e-4, abs=1e-6)
    assert len({step.name for step in wide.steps}) == len(wide.steps)
    position = {step: i for i, step in enumerate(wide.walked)}  # each after all that read its result
    assert all(
        position[reader] < position[step] for step in wide.walked for reader in step.consumers if reader in position
    )
    sources = {a.source for step in wide.steps for a in step.arguments if a.source is not None}
    assert sources <= {*wide.steps, *wide.leaves}  # nothing hangs in the air


def test_wrong_definition_shows_when_unfolded():
    @tt.op
    class careless:
        r"y = x^2"

        def kernel(x):
            return x * x

        def grad_x(g, x):
            return g * 2 * x

        def definition(x):
            return x * x * x

    x = tt.tensor(3.0, requires_grad=True)
    assert look(careless(x)).leaves[0].gradient == 6
    assert sum(share.sent for share in expanded(look(careless(x))).leaves[0].shares) == 27


def test_unfolding_changes_nothing():
    net, loss = attention_layer()
    draw(loss, net, unfold=True)
    assert all(p.grad is None for p in net.parameters())
    loss.backward()


def test_graph_is_saved_as_svg_png_and_dot(tmp_path):
    t = chain()
    drawing = draw(t["y"], t)
    for name in ("graph.svg", "graph.png", "graph.dot"):
        assert drawing.save(tmp_path / name).stat().st_size > 300
    ElementTree.parse(tmp_path / "graph.svg")
    assert (tmp_path / "graph.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match=r"ends in \.svg, \.png or \.dot, got 'graph.jpg'"):
        drawing.save(tmp_path / "graph.jpg")


def test_graph_of_one_leaf():
    x = tt.tensor(1.0, requires_grad=True)
    assert list(boxes(draw(x, {"x": x}).svg)) == ["x"]


def test_missing_graphviz_is_named(monkeypatch):
    t = chain()
    monkeypatch.setitem(sys.modules, "grandalf.graphs", None)
    assert draw(t["y"]).dot.startswith("digraph")
    with pytest.raises(ModuleNotFoundError, match="a drawing needs grandalf.*" + re.escape(install("viz"))):
        draw(t["y"]).svg  # noqa: B018


def test_wrong_tensors_raise():
    t = chain()
    t["y"].backward()
    with pytest.raises(RuntimeError, match=r"draw: this part of the tape \(exp\) was freed"):
        draw(t["y"])


def test_boxes_do_not_overlap_and_lines_lead_down():
    rng = np.random.default_rng(0)
    keys = list(range(60))
    edges = [(i, int(rng.integers(i + 1, min(i + 6, 60)))) for i in keys[:-1] for _ in range(2)]
    edges += [(i, 59) for i in keys[:-1] if not any(a == i for a, _ in edges)]
    position = layout({i: Box(float(rng.integers(60, 200)), 50.0) for i in keys}, edges, 59)
    result = list(position.boxes.values())
    for i, one in enumerate(result):
        for other in result[:i]:
            apart = abs(one.x - other.x) >= (one.width + other.width) / 2 - 1e-6
            assert apart or abs(one.y - other.y) >= (one.height + other.height) / 2
    for (a, b), line in zip(edges, position.lines, strict=True):
        assert position.boxes[a].y < position.boxes[b].y and line[0][1] < line[-1][1]
