"""The parts of a graph: modules and the names in them, views, and the places of groups in a picture."""

import gc

import pytest

import tinytensor as tt
from tests.viz.graphs import chain
from tinytensor import nn
from tinytensor.viz import explain, look, watch
from tinytensor.viz.capture import captured
from tinytensor.viz.drawing import Drawing
from tinytensor.viz.groups import chain as chain_of


class Twice(nn.Module):
    """One module that is called two times, with names inside."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        first = self.inner(x)
        middle = first * 2
        second = self.inner(middle)
        return self.out(second + first)


def twice():
    tt.manual_seed(0)
    net = Twice()
    with watch():
        loss = net(tt.randn(2, 3)).sum()
    return net, loss


def groups_of(seen) -> dict[str, str]:
    return {step.name: step.group.path if step.group else "" for step in seen.steps}


def test_each_call_of_a_module_is_a_group():
    net, loss = twice()
    result = groups_of(look(loss, {"net": net}))
    assert result["net.inner.0"] == "net.inner" and result["net.inner.0₂"] == "net.inner₂"
    assert result["net.middle"] == "net" and result["net.out"] == "net"
    assert result[f"#{len(result)}"] == ""  # the sum stands outside


def test_groups_have_the_names_of_classes_without_the_users():
    _, loss = twice()
    assert "Twice.inner" in groups_of(look(loss)).values()


def test_without_watch_there_are_no_groups():
    net = Twice()
    assert set(groups_of(look(net(tt.ones(2, 3)).sum(), net)).values()) == {""}


def test_names_of_the_user_come_first():
    net = Twice()
    with watch():
        y = net(tt.ones(2, 3))
        loss = y.sum()
    seen = look(loss, {"net": net, "y": y, "middle": loss})
    assert {"y", "middle", "net.middle"} <= {step.name for step in seen.steps}
    assert len({step.name for step in seen.steps}) == len(seen.steps)


def test_names_inside_a_group_are_short():
    net, loss = twice()
    text = str(explain(loss, {"net": net}))
    assert "net.middle = mul(inner.1, 2)" in text
    assert "net.inner.0 = linear(" in text and "inner.0.weight, inner.0.bias)" in text


def test_a_module_with_a_number_is_not_read_as_a_number():
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    with watch():
        loss = net(tt.ones(1, 2)).sum()
    svg = Drawing(look(loss, net)).svg
    assert "layer1 = tanh(layer0)" in svg and "2.1 = relu(2.0)" in svg


@pytest.mark.parametrize("which", ["all", "none", "each"])
def test_boxes_stand_in_the_frames_of_their_groups(which):
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), 2)
    with watch():
        loss = net(tt.randn(1, 3, 4)).sum()
    drawing = Drawing(look(loss, {"net": net}))
    opened = {"all": [drawing.groups], "none": [[]], "each": [group.chain for group in drawing.groups]}[which]
    for groups in opened:
        scene = drawing.scene(lambda group, groups=groups: group in groups)
        assert set(scene.frames) == set(groups)
        for value, box in scene.boxes.items():
            inside = (value.parent if value in drawing.groups else value.group) or None
            around = inside.chain if inside else ()
            for group, frame in scene.frames.items():
                across = abs(box.x - frame.x) < (box.width + frame.width) / 2
                overlaps = across and abs(box.y - frame.y) < (box.height + frame.height) / 2
                assert overlaps == (group in around), f"{value} and {group.path}"
        for line in scene.lines:
            assert line.points[0][1] < line.points[-1][1]
            for x, y in line.points:
                assert 0 <= x <= scene.width and 0 <= y <= scene.height
        drawn = {use for line in scene.lines for use in line.uses}
        for use in drawing.uses():  # all but those inside of a closed group
            both = [g for g in chain_of(use.source.group) if g in chain_of(use.step.group)]
            assert (use in drawn) == all(group in groups for group in both)


def test_a_view_is_a_mark_on_a_line():
    x = tt.ones(2, 3, requires_grad=True)
    loss = (x.t().unsqueeze(0) * tt.arange(6).reshape(3, 2)).sum()
    few, all_ = Drawing(look(loss, {"x": x})), Drawing(look(loss, {"x": x}), views=True)
    (use,) = [use for use in few.uses() if use.source.name == "x"]
    assert use.step.op.name == "mul" and use.words.startswith("permute") and use.share is not None
    assert len(all_.uses()) == len(few.uses()) + len(use.through)
    assert use.share.sent.tolist() == [[0, 2, 4], [1, 3, 5]]  # the gradient that arrives at x itself


def test_a_view_with_a_name_is_a_box():
    x = tt.ones(2, 3, requires_grad=True)
    y = x.t()
    drawing = Drawing(look((y * 2).sum(), {"x": x, "y": y}))
    assert "y = permute(x)" in drawing.svg
    assert Drawing(look(x.t(), {"x": x}, tt.ones(3, 2))).svg.count("<rect") == 3  # the paper, x, and the result


def test_sums_grow_by_each_share():
    t = chain()
    leaf = next(leaf for leaf in look(t["y"], t).leaves if leaf.name == "a")
    numbers = [float(g) for _, g in leaf.sums()]
    assert numbers == pytest.approx([0.018316, -0.036631], rel=1e-4) and numbers[-1] == leaf.gradient


@pytest.mark.slow
def test_a_watched_tape_is_dropped_with_its_result():
    class Keeps(nn.Module):
        def forward(self, x):
            self.last = x * 2
            return self.last

    gc.collect()
    before, net = len(captured), Keeps()
    with watch():
        net(tt.ones(2, requires_grad=True))
    assert len(captured) == before + 1
    del net  # and with it the result, which it holds
    gc.collect()
    assert len(captured) == before


def test_a_view_with_a_variable_is_read_by_its_name():
    class Halves(nn.Module):
        def forward(self, x):
            both = x.exp()
            left, right = both.chunk(2, -1)
            return (left * right).sum()

    with watch():
        loss = Halves()(tt.ones(2, 4, requires_grad=True))
    drawing = Drawing(look(loss))
    assert {use.mark for use in drawing.uses() if use.through} == {"left: slice", "right: slice"}
    assert "mul(left, right)" in drawing.svg
