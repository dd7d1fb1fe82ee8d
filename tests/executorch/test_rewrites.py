"""Each rewrite computes the same, where it applies; where it does not, nothing changes."""

import re

import pytest

torch = pytest.importorskip("torch")

import torch_models  # noqa: E402

from straightway.cli.fix import place_of  # noqa: E402
from straightway.executorch.capture import capture  # noqa: E402
from straightway.executorch.exported import Recipe, export  # noqa: E402
from straightway.executorch.model import made  # noqa: E402
from straightway.executorch.rewrites import (  # noqa: E402
    attention,
    batch_norm,
    channels_last,
    greatest,
    hardsigmoid,
    layer_norm,
    mean,
    permutes,
    prelu,
    projections,
    scalar,
    softmax_axis,
    split,
)
from straightway.executorch.rewrites.catalogue import REWRITES  # noqa: E402
from straightway.executorch.rewrites.scene import rewritten  # noqa: E402
from straightway.flow.export import compared  # noqa: E402
from straightway.run.process import Child  # noqa: E402

CASES = [
    (attention.REWRITE, torch_models.attention, 1),
    (attention.REWRITE, torch_models.causal_attention, 1),
    (batch_norm.REWRITE, torch_models.small, 1),
    (hardsigmoid.REWRITE, torch_models.weighed, 1),
    (mean.REWRITE, torch_models.weighed, 2),
    (layer_norm.REWRITE, torch_models.small, 1),
    (projections.REWRITE, torch_models.attention, 1),
    (permutes.REWRITE, torch_models.turned, 2),
    (split.REWRITE, torch_models.parts, 3),
    (scalar.REWRITE, torch_models.small, 2),
    (softmax_axis.REWRITE, torch_models.softmax_of_image, 1),
    (prelu.REWRITE, torch_models.prelus, 3),
    (greatest.REWRITE, torch_models.greatest, 2),
]


def program_of(factory):
    return capture(made(factory.__name__, factory))


@pytest.mark.parametrize(("rewrite", "factory", "places"), CASES)
def test_the_rewritten_program_computes_the_same(rewrite, factory, places):
    program = program_of(factory)
    changed, changes = rewritten(program, [rewrite])
    assert len(changes) == places
    inputs = program.example_inputs[0]
    want, got = program.module()(*inputs), changed.module()(*inputs)
    assert torch.allclose(want, got, atol=1e-5 * float(want.abs().max()))
    assert all(change.source.line for change in changes)


def test_attention_stays_where_a_row_may_be_masked_whole():
    class Masked(torch.nn.Module):
        def forward(self, q, mask):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    module = Masked().eval()
    q, mask = torch.randn(1, 2, 4, 8), torch.ones(4, 4, dtype=torch.bool)
    program = capture(made("masked", lambda: (module, (q, mask))))
    unchanged, changes = rewritten(program, [attention.REWRITE])
    assert not changes
    assert unchanged is program


def test_a_constant_mask_without_empty_rows_is_added():
    kept = torch.ones(4, 4, dtype=torch.bool).tril()

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", kept)

        def forward(self, q):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=self.mask)

    program = capture(made("masked", lambda: (Masked().eval(), (torch.randn(1, 2, 4, 8),))))
    changed, changes = rewritten(program, [attention.REWRITE])
    assert len(changes) == 1
    inputs = program.example_inputs[0]
    assert torch.allclose(program.module()(*inputs), changed.module()(*inputs), atol=1e-6)


@pytest.mark.parametrize("mask", [None, (3, 3), (2, 4, 3, 3), (2, 1, 1, 3)])
def test_heads_that_share_keys_are_rows_of_one_product(mask):
    class Grouped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", None if mask is None else torch.randn(mask))

        def forward(self, q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=self.mask, enable_gqa=True
            )

    q, k, v = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 3, 8), torch.randn(2, 2, 3, 7)
    program = capture(made("grouped", lambda: (Grouped().eval(), (q, k, v))))
    changed, changes = rewritten(program, [attention.REWRITE])
    assert len(changes) == 1
    assert torch.allclose(program.module()(q, k, v), changed.module()(q, k, v), atol=1e-6)


def test_a_norm_after_an_activation_is_computed_in_integers():
    model = made("norm", torch_models.norm_after_activation)
    recipe = Recipe(precision="int8", rewrites=(batch_norm.REWRITE,), samples=[model.inputs])
    (delegate,) = export(model, recipe).lowered.map.delegates
    assert [node.kind for node in delegate.nodes].count("XNNConvert") == 2  # input and output


def test_a_layer_that_is_called_twice_runs_in_integers():
    model = made("twice", torch_models.called_twice)
    with Child() as child:
        for precision, changes in (("int8", 2), ("fp32", 0)):
            done = export(model, Recipe(precision=precision, samples=[model.inputs]))
            assert len(done.changes) == changes  # weights and bias
            assert compared(child, done, precision).equal


def test_permutes_of_an_image_stay():
    changed, _ = rewritten(program_of(torch_models.turned), [permutes.REWRITE])
    names = ("aten.transpose.int", "aten.permute.default")
    moves = [list(n.args[1:]) for n in changed.graph.nodes if str(n.target) in names]
    assert moves == [[2, 3], [[2, 1, 0]]]


def test_images_given_channels_last_are_not_turned():
    model = made("norm", torch_models.norm_after_activation)
    before = export(model, Recipe()).lowered.map
    after = export(model, Recipe(rewrites=(channels_last.REWRITE,)))
    assert [one.channels_last for one in after.lowered.map.inputs] == [True]
    assert (before.inserted_transposes, after.lowered.map.inserted_transposes) == (2, 0)
    with Child() as child:
        assert compared(child, after, "fp32").equal


def test_an_open_batch_stays_in_one_partition():
    done = export(made("open", torch_models.open_moves), Recipe(rewrites=REWRITES))
    names = {change.rewrite for change in done.changes}
    assert {"expand", "projections", "strided-slice", "squeeze"} <= names
    outside = [op.target for op in done.lowered.map.ops if op.partition is None]
    assert [one for one in outside if "slice" not in one] == []
    assert len(done.lowered.map.delegates) == 1
    with Child() as child:
        numbers = compared(child, done, "fp32")
    assert numbers.equal
    assert {check.shape[0] for check in numbers.checks} == {3, 4}


def test_a_part_of_a_sequence_is_told_by_its_path_and_where_it_is_made():
    model = made("row", torch_models.in_a_row)
    _, (change,) = rewritten(capture(model), [batch_norm.REWRITE])
    told = place_of(change.source, model.parts)
    assert re.search(r"2: BatchNorm2d, made at \S+torch_models.py:\d+ nn.BatchNorm2d\(4\),", told)
    assert "Conv2d, made at" in model.parts["0"]
