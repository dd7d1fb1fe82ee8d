"""LSTM, GRU and plain recurrent layers unrolled with slices and sums that XNNPACK takes whole.

torch unrolls them itself, with a split in each step, which has no kernel there: a sequence becomes as many
partitions as it has steps. The inputs' product is one for all steps, as torch has it.

    g = x @ W + b ; in each step  p = g[t] + h @ U ; i, f, c, o = slices of p ; …
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten, parts_of

_NAME = "recurrent"
_LSTM = aten.lstm.input
_GATES = {
    _LSTM: 4,
    aten.gru.input: 3,
    aten.rnn_tanh.input: 1,
    aten.rnn_relu.input: 1,
}
_NAMES = (
    "input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
    "batch_first",
)  # fmt: skip
State = list[torch.fx.Node]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Direction:
    """One direction of one layer: its weights, and the states that it begins with."""

    weights: tuple[torch.fx.Node, ...]
    first: State
    backwards: bool


class _Unrolling:
    """One recurrent operator, written out before it."""

    def __init__(self, scene: Scene, node: torch.fx.Node, given: dict[str, Any]) -> None:
        self.write: Writer = scene.writer(node, in_floats=True)
        self.kind = node.target
        self.gates = _GATES[node.target]
        self._scene, self._given = scene, given
        shape = scene.shape(given["input"]) or ()
        self.steps, self.batch = (shape[1], shape[0]) if given["batch_first"] else shape[:2]
        self.size = (scene.shape(self._hidden()[0]) or ())[-1]

    def _hidden(self) -> list[Any]:
        hidden = self._given["hx"]
        return list(hidden) if isinstance(hidden, (list, tuple)) else [hidden]

    def layers(self) -> list[list[_Direction]]:
        """The directions of each layer."""
        directions = 2 if self._given["bidirectional"] else 1
        count = 4 if self._given["has_biases"] else 2
        params = list(self._given["params"])
        found = []
        for layer in range(int(self._given["num_layers"])):
            row = []
            for direction in range(directions):
                number = layer * directions + direction
                row.append(
                    _Direction(
                        weights=tuple(params[number * count : (number + 1) * count]),
                        first=[self._state(one, number) for one in self._hidden()],
                        backwards=direction == 1,
                    )
                )
            found.append(row)
        return found

    def _state(self, hidden: torch.fx.Node, number: int) -> torch.fx.Node:
        """One of the states that the sequence begins with, (batch, size)."""
        sizes = [self.batch, self.size]
        if hidden.target is aten.zeros.default:
            return self.write.constant(torch.zeros(sizes, dtype=self._scene.dtype(hidden)))
        part = self.write(aten.slice.Tensor, hidden, 0, number, number + 1)
        return self.write(aten.reshape.default, part, sizes)

    def rows(self) -> torch.fx.Node:
        """The inputs as rows, all of a step together."""
        x = self._given["input"]
        if self._given["batch_first"] and self.batch > 1 and self.steps > 1:
            x = self.write(aten.permute.default, x, [1, 0, 2])
        last = (self._scene.shape(self._given["input"]) or ())[-1]
        return self.write(aten.reshape.default, x, [self.steps * self.batch, last])

    def run(self, rows: torch.fx.Node, one: _Direction) -> tuple[State, State]:
        """The hidden state after each step, in the order of time, and the last states."""
        weight, inner, *biases = one.weights
        given = self.write(aten.linear.default, rows, weight, *biases[:1])
        state, found = list(one.first), []
        order = range(self.steps)
        for step in reversed(order) if one.backwards else order:
            at = given
            if self.steps > 1:
                first = step * self.batch
                at = self.write(aten.slice.Tensor, given, 0, first, first + self.batch)
            fed = self.write(aten.linear.default, state[0], inner, *biases[1:])
            state = self._cell(at, fed, state)
            found.append(state[0])
        return found[::-1] if one.backwards else found, state

    def _cell(self, at: torch.fx.Node, fed: torch.fx.Node, state: State) -> State:
        if self.kind is _LSTM:
            return self._lstm(at, fed, state[1])
        if self.kind is aten.gru.input:
            return [self._gru(at, fed, state[0])]
        activation = aten.tanh.default if self.kind is aten.rnn_tanh.input else aten.relu.default
        return [self.write(activation, self.write(aten.add.Tensor, at, fed))]

    def _part(self, x: torch.fx.Node, first: int, last: int) -> torch.fx.Node:
        return self.write(aten.slice.Tensor, x, 1, first * self.size, last * self.size)

    def _lstm(self, at: torch.fx.Node, fed: torch.fx.Node, cell: torch.fx.Node) -> State:
        write, whole = self.write, self.write(aten.add.Tensor, at, fed)
        enter, forget, new, out = (
            write(activation, self._part(whole, k, k + 1))
            for k, activation in enumerate(
                (
                    aten.sigmoid.default,
                    aten.sigmoid.default,
                    aten.tanh.default,
                    aten.sigmoid.default,
                )
            )
        )
        kept, added = write(aten.mul.Tensor, forget, cell), write(aten.mul.Tensor, enter, new)
        cell = write(aten.add.Tensor, kept, added)
        return [write(aten.mul.Tensor, out, write(aten.tanh.default, cell)), cell]

    def _gru(self, at: torch.fx.Node, fed: torch.fx.Node, hidden: torch.fx.Node) -> torch.fx.Node:
        """(1 − z) · n + z · h as n + z · (h − n)."""
        write = self.write
        both = write(aten.add.Tensor, self._part(at, 0, 2), self._part(fed, 0, 2))
        gates = write(aten.sigmoid.default, both)
        reset = write(aten.mul.Tensor, self._part(gates, 0, 1), self._part(fed, 2, 3))
        new = write(aten.tanh.default, write(aten.add.Tensor, self._part(at, 2, 3), reset))
        apart = write(aten.sub.Tensor, hidden, new)
        return write(aten.add.Tensor, new, write(aten.mul.Tensor, self._part(gates, 1, 2), apart))

    def joined(self, parts: Sequence[torch.fx.Node], dim: int) -> torch.fx.Node:
        """Concatenated; one stays as it is."""
        return parts[0] if len(parts) == 1 else self.write(aten.cat.default, list(parts), dim)

    def sequence(self, states: Sequence[torch.fx.Node], width: int) -> torch.fx.Node:
        """States of all steps as the operator gives them."""
        rows = self.joined(states, 0)
        whole = self.write(aten.reshape.default, rows, [self.steps, self.batch, width])
        if not self._given["batch_first"]:
            return whole
        if self.batch == 1 or self.steps == 1:
            return self.write(aten.reshape.default, rows, [self.batch, self.steps, width])
        return self.write(aten.permute.default, whole, [1, 0, 2])

    def stacked(self, states: Sequence[torch.fx.Node]) -> torch.fx.Node:
        """The last states of all layers and directions, (layers, batch, size)."""
        rows = self.joined(states, 0)
        return self.write(aten.reshape.default, rows, [len(states), self.batch, self.size])


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_GATES):
        given = dict(zip(_NAMES, node.args, strict=False)) | dict(node.kwargs)
        if not _applies(scene, given):
            continue
        yield scene.changed(_NAME, node, "slices of each step's gates, in place of a split")
        _unroll(scene, node, _Unrolling(scene, node, given))
    scene.graph.eliminate_dead_code()


def _applies(scene: Scene, given: dict[str, Any]) -> bool:
    """Of known sizes and weights, a batch of sequences, hidden states as wide as the gates."""
    shape = scene.shape(given["input"])
    hidden = given["hx"] if isinstance(given["hx"], (list, tuple)) else [given["hx"]]
    shapes = {scene.shape(one) for one in hidden}
    if shape is None or len(shape) != 3 or len(shapes) != 1 or None in shapes:
        return False  # a projection gives the states two widths
    return all(scene.constant(one) is not None for one in given["params"])


def _unroll(scene: Scene, node: torch.fx.Node, one: _Unrolling) -> None:
    rows, last = one.rows(), []
    states: list[torch.fx.Node] = []
    width = one.size
    for layer in one.layers():
        if states:
            rows = one.joined(states, 0)
        found = [one.run(rows, direction) for direction in layer]
        last += [ending for _, ending in found]
        states = [
            one.joined(parts, 1) for parts in zip(*(every for every, _ in found), strict=True)
        ]
        width = one.size * len(layer)
    for index, part in parts_of(node).items():
        if index:
            scene.replace(part, one.stacked([ending[index - 1] for ending in last]))
            continue
        _selected(scene, part, states, time=1 if one.steps and _is_batch_first(node) else 0)
        if part.users:
            scene.replace(part, one.sequence(states, width))


def _is_batch_first(node: torch.fx.Node) -> bool:
    given = dict(zip(_NAMES, node.args, strict=False)) | dict(node.kwargs)
    return bool(given["batch_first"])


def _selected(
    scene: Scene, part: torch.fx.Node, states: Sequence[torch.fx.Node], *, time: int
) -> None:
    """Whoever reads one step alone reads its state."""
    for user in list(part.users):
        if user.target is aten.select.int and int(user.args[1]) % 3 == time:
            scene.replace(user, states[int(user.args[2])])


REWRITE = Rewrite(
    name=_NAME,
    title="recurrent layers by slices",
    advice="write the cell with slices of its gates in place of chunk, and keep states of rank 2",
    safety="exact",
    apply=_apply,
)
