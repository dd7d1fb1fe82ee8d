"""Attention head by head: the same numbers from any spelling of heads, and nothing turned."""

import pytest

torch = pytest.importorskip("torch")

import torch_models  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from straightway.executorch.capture import capture  # noqa: E402
from straightway.executorch.exported import Recipe, export  # noqa: E402
from straightway.executorch.model import made  # noqa: E402
from straightway.executorch.rewrites import attention, heads, layer_norm, permutes, projections  # noqa: E402
from straightway.executorch.rewrites.scene import rewritten  # noqa: E402
from straightway.flow.export import compared  # noqa: E402
from straightway.run.process import Child  # noqa: E402

SIZE, STEPS = 24, 10


class Separate(nn.Module):
    """Three layers, `groups` heads of keys and values, repeated for `heads` of queries."""

    def __init__(self, count=6, groups=6, *, turned=False):
        super().__init__()
        self.count, self.groups, self.each, self.turned = count, groups, SIZE // count, turned
        self.q = nn.Linear(SIZE, SIZE)
        self.k, self.v = (nn.Linear(SIZE, groups * self.each, bias=False) for _ in range(2))
        self.out = nn.Linear(SIZE, SIZE)

    def forward(self, x):
        q = self.q(x).view(1, STEPS, self.count, self.each).transpose(1, 2)
        k, v = (self.repeated(one(x)) for one in (self.k, self.v))
        if self.turned:  # a rotation, say: no projection makes it
            q = q * torch.linspace(0.5, 1.5, STEPS).reshape(1, 1, STEPS, 1)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.groups < self.count)
        return self.out(y.transpose(1, 2).contiguous().view(1, STEPS, SIZE))

    def repeated(self, x):
        x = x.view(1, STEPS, self.groups, self.each).transpose(1, 2)[:, :, None]
        x = x.expand(1, self.groups, self.count // self.groups, STEPS, self.each)
        return x.reshape(1, self.count, STEPS, self.each)


class Module(nn.Module):
    """torch's own, which puts heads beside the batch, between two norms."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(SIZE, 3, batch_first=True)
        self.norm = nn.LayerNorm(SIZE)

    def forward(self, x):
        y = self.norm(x)
        return x + self.attention(y, y, y, need_weights=False)[0]


def of(module):
    torch.manual_seed(0)
    return lambda: (module.eval(), (torch.randn(1, STEPS, SIZE),))


def packed():
    torch.manual_seed(0)
    return torch_models.Attention(SIZE, 3).eval(), (torch.randn(1, STEPS, SIZE),)


@pytest.fixture(autouse=True)
def _short_sequences(monkeypatch):
    monkeypatch.setattr(heads, "_FEWEST_SCORES", 1)


@pytest.mark.parametrize(
    "factory",
    [packed, of(Separate()), of(Separate(groups=2)), of(Module())],
    ids=["packed", "separate", "grouped and causal", "nn.MultiheadAttention"],
)
def test_each_head_has_weights_of_its_own(factory):
    model = made("heads", factory)
    done = export(model, Recipe(rewrites=(heads.REWRITE, permutes.REWRITE)))
    assert done.changes[0].rewrite == "heads"
    left = rewritten(capture(model), [heads.REWRITE, projections.REWRITE, attention.REWRITE])[1]
    assert {change.rewrite for change in left} == {"heads"}
    assert done.lowered.map.transposes == 0
    masks = [b for b in done.program.buffers() if b.shape == (1, STEPS, STEPS)]
    assert len(masks) <= 1  # one for all heads
    assert len(done.lowered.map.delegates) == 1
    with Child() as child:
        numbers = compared(child, done, "fp32")
    assert numbers.equal
    assert numbers.model_db > 120


def test_what_is_no_projection_stays():
    program = capture(made("turned", of(Separate(turned=True))))
    unchanged, changes = rewritten(program, [heads.REWRITE])
    assert not changes
    assert unchanged is program


def test_several_pictures_at_once_stay():
    program = capture(made("batch", torch_models.attention))
    assert not rewritten(program, [heads.REWRITE])[1]


def test_short_sequences_stay(monkeypatch):
    monkeypatch.setattr(heads, "_FEWEST_SCORES", 3 * STEPS * STEPS + 1)
    assert not rewritten(capture(made("packed", packed)), [heads.REWRITE])[1]


def test_norms_and_scores_keep_their_floats_in_8_bits():
    model = made("norm", of(Module()))
    recipe = Recipe(
        precision="int8", rewrites=(heads.REWRITE, layer_norm.REWRITE), samples=[model.inputs]
    )
    done = export(model, recipe)
    (delegate,) = done.lowered.map.delegates
    types = {value.id: value.dtype for value in delegate.values}
    products = [n for n in delegate.nodes if n.kind in {"XNNFullyConnected", "XNNSubtract"}]
    floats = [node for node in products if types[node.output] == "fp32"]
    assert len(floats) == 3 + 3  # scores of three heads; two sums and a difference of the norm
    with Child() as child:
        assert compared(child, done, "int8").equal
