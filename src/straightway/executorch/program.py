"""What a lowered program holds, as plain data: its operators, where each runs, and why."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from straightway.errors import InvalidModel
from straightway.ir.source import Source

FORMAT = "straightway-executorch-map"
VERSION = 1
# What ExecuTorch gives a node that it made itself (xnnpack_preprocess.py, DEFAULT_DEBUG_HANDLE).
NO_HANDLE = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """An operand: its shape (an open dimension at its greatest size) and torch's name of its type."""

    sizes: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An input of the program; `channels_last`: its last dimensions are stored channels last."""

    sizes: tuple[int, ...]
    dtype: str
    channels_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeOp:
    """One operator of the edge program, in the order of execution.

    `partition` is the number of the delegate that it runs in, None outside. Outside, `reason` says
    why. `instruction` is its place in the program's chain. `handle` is what traces call it by:
    operators that came from one ATen operator share it. `feeds_on` are the places in the list of
    operators of those that its operands come from; inputs and constants of the model have none. What is
    `is_constant` depends on no input, so that each run computes the same; `is_result`: the program
    returns it.
    """

    name: str
    target: str
    handle: int
    partition: int | None
    instruction: int | None = None
    reason: str = ""
    inputs: tuple[Shape, ...] = ()
    outputs: tuple[Shape, ...] = ()
    feeds_on: tuple[int, ...] = ()
    source: Source = field(default_factory=Source)
    is_constant: bool = False
    is_result: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class XnnValue:
    """A tensor of a delegate's graph. `role` says whether it crosses the delegate's border."""

    id: int
    sizes: tuple[int, ...]
    dtype: str
    role: Literal["inside", "input", "output", "constant"] = "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class XnnNode:
    """One node of a delegate's graph: XNNPACK's kind, the debug handle, and its values by id.

    `permutation` is a transpose's. `inserted`: no operator of the model asked for it; XNNPACK's
    lowering put it there.
    """

    index: int
    kind: str
    handle: int
    inputs: tuple[int, ...]
    output: int
    permutation: tuple[int, ...] = ()

    @property
    def inserted(self) -> bool:
        """Whether the lowering made it on its own."""
        return self.handle == NO_HANDLE

    @property
    def is_transpose(self) -> bool:
        """Whether it moves data into another order of dimensions."""
        return self.kind == "XNNStaticTranspose"

    @property
    def is_layout(self) -> bool:
        """Whether it is a conversion between NCHW and NHWC that no operator asked for."""
        return self.inserted and self.permutation in {(0, 2, 3, 1), (0, 3, 1, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegate:
    """A partition: what runs as one call of a delegate. `nodes` are known for XNNPACK's alone."""

    number: int
    backend: str
    nodes: tuple[XnnNode, ...] = ()
    values: tuple[XnnValue, ...] = ()

    def value(self, number: int) -> XnnValue | None:
        """The value of an id."""
        return next((value for value in self.values if value.id == number), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One step of the program's chain: the kernel or delegate called, or a move or jump."""

    index: int
    kind: Literal["kernel", "delegate", "other"]
    name: str
    delegate: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramMap:
    """A program's chain, delegates and operators. `ops` is empty for a file made elsewhere.

    `inputs` are the tensors among its inputs; `outputs` counts its results.
    """

    instructions: tuple[Instruction, ...]
    delegates: tuple[Delegate, ...]
    inputs: tuple[Input, ...] = ()
    outputs: int = 0
    ops: tuple[EdgeOp, ...] = ()

    @property
    def transposes(self) -> int:
        """How many transposes the delegates hold, the model's own among them."""
        return sum(node.is_transpose for one in self.delegates for node in one.nodes)

    @property
    def inserted_transposes(self) -> int:
        """How many of them no operator of the model asked for."""
        return sum(node.is_transpose and node.inserted for d in self.delegates for node in d.nodes)

    def to_json(self) -> str:
        """Write it as JSON; `from_json` reads it back equal."""
        return json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "ProgramMap":
        """Read what `to_json` wrote. Raises InvalidModel for anything else."""
        try:
            data = json.loads(text)
            if data["format"] != FORMAT or data["version"] != VERSION:
                raise InvalidModel(f"a map of format {FORMAT} {VERSION} is wanted")
            return cls(
                instructions=tuple(Instruction(**one) for one in data["instructions"]),
                delegates=tuple(_delegate(one) for one in data["delegates"]),
                inputs=tuple(
                    Input(**{**one, "sizes": tuple(one["sizes"])}) for one in data["inputs"]
                ),
                outputs=data["outputs"],
                ops=tuple(_op(one) for one in data["ops"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidModel(f"the program's map is damaged: {error}") from error


def _delegate(data: dict[str, Any]) -> Delegate:
    nodes = tuple(
        XnnNode(
            **{
                **node,
                "inputs": tuple(node["inputs"]),
                "permutation": tuple(node["permutation"]),
            }
        )
        for node in data["nodes"]
    )
    values = tuple(XnnValue(**{**one, "sizes": tuple(one["sizes"])}) for one in data["values"])
    return Delegate(**{**data, "nodes": nodes, "values": values})


def _op(data: dict[str, Any]) -> EdgeOp:
    shapes = {
        side: tuple(Shape(sizes=tuple(one["sizes"]), dtype=one["dtype"]) for one in data[side])
        for side in ("inputs", "outputs")
    }
    plain = {"feeds_on": tuple(data["feeds_on"]), "source": Source(**data["source"])}
    return EdgeOp(**{**data, **shapes, **plain})
