"""Operators without a kernel in XNNPACK, spelled by those that have one: the same numbers."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from straightway.executorch.capture import capture  # noqa: E402
from straightway.executorch.exported import Recipe, export  # noqa: E402
from straightway.executorch.model import made  # noqa: E402
from straightway.executorch.rewrites.catalogue import REWRITES  # noqa: E402
from straightway.executorch.rewrites.scene import rewritten  # noqa: E402
from straightway.flow.export import compared  # noqa: E402
from straightway.run.process import Child  # noqa: E402


class Spelled(nn.Module):
    """A function of layers and inputs."""

    def __init__(self, compute, *layers):
        super().__init__()
        self.compute, self.layers = compute, nn.ModuleList(layers)
        for layer in self.layers:
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.uniform_(-0.3, 0.3)
                layer.running_var.uniform_(0.5, 1.5)

    def forward(self, *inputs):
        return self.compute(self.layers, *inputs)


def up(x, factor=2):
    return functional.interpolate(x, scale_factor=factor)


def focus(x):
    return torch.cat([x[..., a::2, b::3] for a in (0, 1) for b in (0, 1, 2)], 1)


def over_time(layers, x):
    y = functional.gelu(layers[1](layers[0](x)))
    y = functional.max_pool1d(y + layers[2](y) * 2, 2)
    y = torch.cat([y, functional.avg_pool1d(y, 3, 1, 1)], 1)
    return functional.pad(layers[3](y), (1, 2)).mean(-1, keepdim=True), y[:, 1:3]


def causal(layers, x):
    hidden = torch.tril(torch.ones(5, 5)) == 0
    y = layers[0](x)
    return (y @ x.transpose(1, 2)).masked_fill(hidden, -torch.inf).softmax(-1) @ y


def selected(layers, x):
    kept = torch.arange(5)[:, None] >= torch.arange(5)
    return torch.where(kept, layers[0](x) @ x.transpose(1, 2), torch.tensor(-1e9)).softmax(-1)


def repeated(layers, x):
    y = layers[0](x)[:, :1]
    return y.expand(-1, 3, -1) * x[:, :3], torch.cat([y.repeat(1, 4, 1), x], 1)


def thresholds(_, x):
    small, y = x < 0.2, x.tanh()
    return (
        torch.where(x > 0, x, 0.3 * x),
        torch.where(small & (y >= -0.5), y, 2.0),
        torch.where(small | ~(y <= 0.1), 0.0, x * 3),
        torch.where(x == x.relu(), y, x).masked_fill(y != x, -7.0),
        torch.where(torch.tensor([True, False] * 3 + [True]), x, y),
    )


def guarded(_, x):
    y = x * 3
    return torch.where(y > 0, y.log(), y), torch.where(x == 0, 0.0, 1 / x).masked_fill(
        y > 1, -torch.inf
    )


def rearranged(_, x):
    return (
        functional.pad(x, (1, 2, 2, 0), "reflect"),
        functional.pad(x, (1, 1, 0, 2), "replicate"),
        functional.pad(x, (2, 1, 0, 1), "circular"),
        nn.ReflectionPad2d(3)(x),
        x.flip(1, 3).roll((2, -1), (2, 3)),
        x[:, [2, 0, 1]] + x[:, :, [0, 1, 2, 4, 4]].mean((2, 3), keepdim=True),
    )


def copied(_, x):
    y = x.to(torch.float32).contiguous(memory_format=torch.channels_last).double().float() + 1
    return y.clone().relu() * 2, y.abs().double()


def cell(kind, *, with_state=False, **options):
    return lambda: Spelled(
        lambda layers, *x: layers[0](*x) if with_state else layers[0](x[0]), kind(4, 6, **options)
    )


CASES = {
    "nearest, alone": (
        {"nearest": 1},
        lambda: Spelled(lambda k, x: functional.interpolate(k[0](x), (10, 21)), nn.Conv2d(3, 4, 1)),
        [(2, 3, 5, 7)],
    ),
    "nearest before a convolution and its norm": (
        {"nearest": 1},
        lambda: Spelled(
            lambda k, x: k[1](k[0](up(x, (4, 5)))),
            nn.Conv2d(3, 4, (3, 5), padding=(1, 3)),
            nn.BatchNorm2d(4),
        ),
        [(2, 3, 5, 7)],
    ),
    "nearest beside others": (
        {"nearest": 1},
        lambda: Spelled(
            lambda k, x, y: k[1](k[0](torch.cat([y, up(x, 4), y * y], 1))).relu(),
            nn.Conv2d(7, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
        ),
        [(1, 3, 5, 7), (1, 2, 20, 28)],
    ),
    "bicubic": (
        {"bicubic": 2},
        lambda: Spelled(
            lambda _, x: (
                functional.interpolate(x, (11, 9), mode="bicubic"),
                functional.interpolate(x, scale_factor=1.7, mode="bicubic", align_corners=True),
            )
        ),
        [(2, 3, 5, 7)],
    ),
    "focus": (
        {"strided-slice": 1},
        lambda: Spelled(lambda k, x: k[0](focus(x)), nn.Conv2d(18, 4, 3, stride=2, padding=1)),
        [(2, 3, 8, 12)],
    ),
    "part of an image": (
        {"strided-slice": 1},
        lambda: Spelled(lambda k, x: k[0](x[:, :, 1::2, 2::3]), nn.Conv2d(3, 4, 1)),
        [(2, 3, 8, 12)],
    ),
    "part of features": (
        {"strided-slice": 2},
        lambda: Spelled(lambda _, x: x[..., ::2] * x[..., 1::2]),
        [(2, 3, 8)],
    ),
    "group norm": (
        {"group-norm": 1},
        lambda: Spelled(lambda k, x: k[0](x), nn.GroupNorm(2, 6)),
        [(2, 6, 5, 7)],
    ),
    "instance norm over time": (
        {"group-norm": 1},
        lambda: Spelled(lambda k, x: k[0](x), nn.InstanceNorm1d(6, affine=True)),
        [(2, 6, 9)],
    ),
    "activations": (
        {"activations": 6},
        lambda: Spelled(
            lambda _, x: (
                functional.elu(4 * x, 0.7),
                functional.selu(4 * x),
                functional.celu(4 * x, 1.4),
                functional.softplus(9 * x, 2.0),
                functional.mish(30 * x),
                functional.logsigmoid(30 * x),
            )
        ),
        [(2, 3, 5, 7)],
    ),
    "softmax over channels": (
        {"softmax-channels": 1},
        lambda: Spelled(lambda _, x: x.softmax(1)),
        [(2, 3, 5, 7)],
    ),
    "causal attention by hand": (
        {"constants": 1, "masked-softmax": 1, "matmul": 2},
        lambda: Spelled(causal, nn.Linear(4, 4)),
        [(2, 5, 4)],
    ),
    "a selection before a softmax": (
        {"constants": 2, "masked-softmax": 1, "matmul": 1},
        lambda: Spelled(selected, nn.Linear(4, 4)),
        [(2, 5, 4)],
    ),
    "expansions": ({"expand": 2}, lambda: Spelled(repeated, nn.Linear(4, 4)), [(2, 5, 4)]),
    "squeezes": (
        {"squeeze": 2},
        lambda: Spelled(lambda k, x: k[0](x.unsqueeze(1)).squeeze(1), nn.Linear(4, 4)),
        [(2, 5, 4)],
    ),
    "selections": ({"selection": 6, "constants": 1}, lambda: Spelled(thresholds), [(2, 3, 5, 7)]),
    "selections that keep infinities away": ({}, lambda: Spelled(guarded), [(2, 3, 5, 7)]),
    "rearrangements": (
        {"rearrangements": 8, "constants": 2},
        lambda: Spelled(rearranged),
        [(2, 3, 5, 7)],
    ),
    "copies": ({"copies": 4}, lambda: Spelled(copied), [(2, 3, 5, 9)]),
    "convolutions over time": (
        {"convolution-1d": 3},
        lambda: Spelled(
            over_time,
            nn.Conv1d(3, 4, 5, stride=2, padding=2),
            nn.BatchNorm1d(4),
            nn.Conv1d(4, 4, 3, padding="same", groups=4),
            nn.ConvTranspose1d(8, 3, 4, stride=2, padding=1),
        ),
        [(2, 3, 16)],
    ),
    "LSTM of two layers and directions": (
        {"recurrent": 1},
        cell(nn.LSTM, num_layers=2, bidirectional=True),
        [(5, 2, 4)],
    ),
    "GRU with a state": (
        {"recurrent": 1},
        cell(nn.GRU, with_state=True, num_layers=2, bias=False, batch_first=True),
        [(3, 5, 4), (2, 3, 6)],
    ),
    "plain recurrence": ({"recurrent": 1}, cell(nn.RNN, batch_first=True), [(1, 5, 4)]),
    "a recurrence with a projection": ({}, cell(nn.LSTM, proj_size=3), [(5, 2, 4)]),
}


def captured(make, shapes):
    torch.manual_seed(0)
    return capture(made("spelled", lambda: (make().eval(), tuple(map(torch.randn, shapes)))))


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(name):
    wanted, make, shapes = CASES[name]
    program = captured(make, shapes)
    others = [one for one in REWRITES if one.name in wanted]
    changed, changes = rewritten(program, others)
    names = [change.rewrite for change in changes]
    assert {one: names.count(one) for one in names} == wanted
    for _ in range(2):
        inputs = tuple(map(torch.randn, shapes))
        pairs = zip(
            torch.utils._pytree.tree_leaves(program.module()(*inputs)),
            torch.utils._pytree.tree_leaves(changed.module()(*inputs)),
            strict=True,
        )
        for want, got in pairs:
            assert torch.allclose(want, got, atol=3e-6 * float(want.abs().max()), rtol=1e-5)


@pytest.mark.parametrize(
    ("factor", "kernel", "folded"), [(2, 3, False), (2, 1, False), (4, 3, True), (4, 5, True)]
)
def test_a_transposed_convolution_is_written_where_it_computes_much_less(factor, kernel, folded):
    rewrite = next(one for one in REWRITES if one.name == "nearest")
    layer = nn.Conv2d(3, 4, kernel, padding=kernel // 2)
    program = captured(lambda: Spelled(lambda k, x: k[0](up(x, factor)), layer), [(1, 3, 5, 7)])
    changed, _ = rewritten(program, [rewrite])
    names = {str(node.target) for node in changed.graph.nodes}
    assert ("aten.conv_transpose2d.input" in names) is folded


def test_half_gelu_is_near_to_a_half_float():
    rewrite = next(one for one in REWRITES if one.name == "half-gelu")
    model = made(
        "gelu",
        lambda: (
            Spelled(lambda _, x: (functional.gelu(x), functional.gelu(x, approximate="tanh"))),
            (torch.linspace(-300, 300, 4001).half(),),
        ),
    )
    program = capture(model)
    changed, changes = rewritten(program, [rewrite])
    assert len(changes) == 2
    for want, got in zip(
        program.module()(*model.inputs), changed.module()(*model.inputs), strict=True
    ):
        assert torch.allclose(want.float(), got.float(), atol=1e-3, rtol=2e-3)


def test_half_silu_is_near_to_a_half_float():
    rewrite = next(one for one in REWRITES if one.name == "half-silu")
    x = torch.linspace(-20, 300, 4001).half()
    program = capture(made("silu", lambda: (Spelled(lambda _, x: functional.silu(x)), (x,))))
    changed, changes = rewritten(program, [rewrite])
    assert len(changes) == 1
    want, got = program.module()(x).float(), changed.module()(x).float()
    assert torch.allclose(want, got, atol=1e-6, rtol=2e-3)


def test_the_least_difference_is_seen():
    """Neighbours of the threshold, the least numbers above and below 0, and zeros of both signs."""
    rewrite = next(one for one in REWRITES if one.name == "selection")
    least, big = 2.0**-149, 3e38
    x = torch.tensor([[0.2, 0.0, -0.0, least, -least, big, -big, 1.0]])
    x = torch.cat(
        [x, torch.nextafter(x, torch.tensor(9.0)), torch.nextafter(x, torch.tensor(-9.0))]
    )
    model = Spelled(
        lambda _, x: [
            torch.where(one, 1.0, -1.0) * torch.ones_like(x)
            for t in (0.0, 0.2)
            for one in (x > t, x >= t, x < t, x <= t, x == t, x != t)
        ]
    )
    program = capture(made("least", lambda: (model, (x,))))
    changed, changes = rewritten(program, [rewrite])
    assert len(changes) == 12
    for want, got in zip(program.module()(x), changed.module()(x), strict=True):
        assert torch.equal(want, got)


def test_a_mask_from_outside_is_one_number():
    rewrite = next(one for one in REWRITES if one.name == "selection")
    x, mask = torch.randn(2, 3), torch.tensor([[True, False, True]] * 2)
    model = Spelled(lambda _, x, mask: torch.where(~mask, x * 2, -1.0).relu())
    program = capture(made("masked", lambda: (model, (x, mask))))
    changed, changes = rewritten(program, [rewrite])
    assert len(changes) == 1
    assert torch.equal(program.module()(x, mask), changed.module()(x, mask))


def test_a_copy_of_a_state_stays():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x):
            before = self.last.clone()
            self.last.copy_(x)
            return before + x

    rewrite = next(one for one in REWRITES if one.name == "copies")
    program = capture(made("kept", lambda: (Kept().eval(), (torch.ones(3),))))
    assert not rewritten(program, [rewrite])[1]


class OfOne(nn.Module):
    """A function of one input, so that its shapes can be told apart by name."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def attended(layers, x):
    mask = torch.ones(6, 6).tril() == 1
    q, k, v = layers[0](x).reshape(-1, 6, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


def any_length(layers, x):
    y = layers[0](x)
    return layers[0](functional.scaled_dot_product_attention(y, x, y))


# With an open dimension: which, the rewrites that apply, and what is computed.
OPEN = {
    "attention": (
        0,
        {"attention", "constants"},
        lambda: Spelled(attended, nn.Linear(16, 48)),
        (4, 6, 16),
    ),
    "attention over any length": (
        1,
        {"attention"},
        lambda: Spelled(any_length, nn.Linear(8, 8)),
        (2, 5, 8),
    ),
    "norms": (
        0,
        {"layer-norm", "group-norm"},
        lambda: Spelled(
            lambda k, x: k[1](k[0](x)) + k[2](x) * 2,
            nn.GroupNorm(2, 4),
            nn.LayerNorm([6, 8]),
            nn.InstanceNorm2d(4),
        ),
        (3, 4, 6, 8),
    ),
    "images": (
        0,
        {"nearest", "bicubic", "softmax-channels", "mean"},
        lambda: Spelled(
            lambda k, x: (
                k[0](up(x)).softmax(1),
                k[0](up(x, 4)).mean((2, 3)),
                functional.interpolate(x, (9, 7), mode="bicubic"),
            ),
            nn.Conv2d(4, 4, 3, padding=1),
        ),
        (3, 4, 6, 8),
    ),
    "a softmax of rows": (
        0,
        set(),
        lambda: Spelled(lambda k, x: k[0](k[0](x).softmax(-1)), nn.Conv2d(4, 4, 1)),
        (3, 4, 6, 8),
    ),
    "over time": (
        2,
        {"convolution-1d"},
        lambda: Spelled(
            lambda k, x: k[1](k[0](x).relu()) * 2, nn.Conv1d(3, 4, 3, padding=1), nn.Conv1d(4, 2, 1)
        ),
        (1, 3, 16),
    ),
    "rows": (
        0,
        {"mean", "squeeze", "layer-norm", "permutes"},
        lambda: Spelled(
            lambda k, x: (
                k[0](x.unsqueeze(1)).squeeze(1).mean(-1)
                + x.transpose(1, 2).transpose(1, 2).mean(-1)
            ),
            nn.RMSNorm(16),
        ),
        (3, 6, 16),
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_open_dimensions_stay_open(name):
    """Of what XNNPACK's operators take; compared at another size, too."""
    place, wanted, make, shape = OPEN[name]
    torch.manual_seed(0)
    shapes = ({place: torch.export.Dim("size", min=1 + (place > 0), max=32)},)
    model = made("open", lambda: (OfOne(make()).eval(), (torch.randn(shape),), shapes))
    before = export(model, Recipe()).lowered.map
    done = export(model, Recipe(rewrites=REWRITES))
    assert {change.rewrite for change in done.changes} - {"softmax-axis", "scalar"} >= wanted
    with Child() as child:
        assert compared(child, done, "fp32").equal
    outside, left = (
        sum(op.partition is None for op in one.ops) for one in (before, done.lowered.map)
    )
    assert left < outside or not wanted


def test_what_an_input_or_a_step_changes_is_no_constant():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen.add_(1)
            return x + self.seen * 2

    rewrite = next(one for one in REWRITES if one.name == "constants")
    program = capture(made("counter", lambda: (Counter().eval(), (torch.ones(3),))))
    assert not rewritten(program, [rewrite])[1]


def test_writes_to_parts_are_seen():
    class Writes(nn.Module):
        def forward(self, x):
            mask = torch.zeros(4, 4)
            mask[1:, 2] = 3
            x = x * 2
            x[:, 0] += 1
            a, b = x.chunk(2, 1)
            a.add_(b)
            return x + mask, torch.nn.functional.elu(x[:, 1], inplace=True), x * 3

    program = captured(Writes, [(3, 4, 4)])
    changed, changes = rewritten(program, REWRITES)
    assert {"constants", "activations", "split"} <= {change.rewrite for change in changes}
    x = torch.randn(3, 4, 4)
    for want, got in zip(program.module()(x), changed.module()(x), strict=True):
        assert torch.allclose(want, got, atol=1e-6)


def test_all_of_it_is_one_partition():
    """What each rewrite writes, XNNPACK takes, and computes right."""
    chosen = [
        make
        for wanted, make, shapes in CASES.values()
        if wanted and shapes in ([(2, 3, 5, 7)], [(2, 5, 4)], [(2, 3, 8, 12)])
    ]
    assert len(chosen) > 10
    shapes = [(2, 3, 5, 7), (2, 5, 4), (2, 3, 8, 12)]
    places = [
        shapes.index(given[0])
        for wanted, _, given in CASES.values()
        if wanted and given[0] in shapes and len(given) == 1
    ]

    class All(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(make() for make in chosen)

        def forward(self, *inputs):
            return [part(inputs[place]) for part, place in zip(self.parts, places, strict=True)]

    torch.manual_seed(0)
    model = made("all", lambda: (All().eval(), tuple(map(torch.randn, shapes))))
    done = export(model, Recipe(rewrites=REWRITES))
    assert [op.target for op in done.lowered.map.ops if op.partition is None] == []
    assert len(done.lowered.map.delegates) == 1
    with Child() as child:
        assert compared(child, done, "fp32").equal
