"""Which operator of the model each node of a delegate's graph works for, and what forces it.

XNNPACK's nodes carry the debug handle of the operator they were made from. Those that the lowering
inserted carry none: a layout conversion belongs to the operator that demands the other layout, a
batch norm's convolution to its batch norm, anything else to the next node that has an operator.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from straightway.executorch.program import Delegate, EdgeOp, ProgramMap, XnnNode
from straightway.trace.taxonomy import category

# XNNPACK's node kinds (serialization/schema.fbs) as TFLite's ops of the same work, which the
# alignment and the taxonomy know; those that are not here are named alike.
TFLITE_OF: Mapping[str, str] = {
    "XNNConv2d": "CONV_2D",
    "XNNDepthwiseConv2d": "DEPTHWISE_CONV_2D",
    "XNNConvTranspose2d": "TRANSPOSE_CONV",
    "XNNFullyConnected": "FULLY_CONNECTED",
    "XNNBatchMatrixMultiply": "BATCH_MATMUL",
    "XNNScaledDotProductAttention": "STABLEHLO_COMPOSITE",
    "XNNAdd": "ADD",
    "XNNSubtract": "SUB",
    "XNNMultiply": "MUL",
    "XNNDiv": "DIV",
    "XNNMinimum": "MINIMUM",
    "XNNMaximum": "MAXIMUM",
    "XNNSoftmax": "SOFTMAX",
    "XNNSigmoid": "LOGISTIC",
    "XNNTanh": "TANH",
    "XNNGelu": "GELU",
    "XNNClamp": "RELU",
    "XNNHardswish": "HARD_SWISH",
    "XNNLeakyReLU": "LEAKY_RELU",
    "XNNELU": "ELU",
    "XNNPReLU": "PRELU",
    "XNNFloor": "FLOOR",
    "XNNCeiling": "CEIL",
    "XNNAbs": "ABS",
    "XNNNegate": "NEG",
    "XNNSquare": "SQUARE",
    "XNNSquareRoot": "SQRT",
    "XNNReciprocalSquareRoot": "RSQRT",
    "XNNExp": "EXP",
    "XNNLog": "LOG",
    "XNNSin": "SIN",
    "XNNCos": "COS",
    "XNNConvert": "QUANTIZE",
    "XNNStaticTranspose": "TRANSPOSE",
    "XNNStaticReshape": "RESHAPE",
    "XNNStaticSlice": "SLICE",
    "XNNStaticConstantPad": "PAD",
    "XNNStaticResizeBilinear2D": "RESIZE_BILINEAR",
    "XNNGlobalAvgPooling2d": "MEAN",
    "XNNAvgPooling2d": "AVERAGE_POOL_2D",
    "XNNMaxPooling2d": "MAX_POOL_2D",
    "XNNArgMaxPooling2d": "MAX_POOL_2D",
    **{f"XNNConcatenate{count}": "CONCATENATION" for count in range(2, 6)},
}
TO_NHWC, TO_NCHW = "NCHW to NHWC", "NHWC to NCHW"
_LAYOUTS: Mapping[tuple[int, ...], str] = {(0, 2, 3, 1): TO_NHWC, (0, 3, 1, 2): TO_NCHW}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The operator (its place in the program's list) that a node works for, and what forces it.

    `forced_by` is the operator for whose sake a layout is converted; None where it is the program's
    own input or output.
    """

    op: int | None
    cause: str = ""
    forced_by: int | None = None


def owners(program: ProgramMap) -> Mapping[tuple[int, int], Owner]:
    """By delegate and node: the operator, where one is known."""
    found: dict[tuple[int, int], Owner] = {}
    for delegate in program.delegates:
        for index, owner in _Owners(program, delegate).all().items():
            found[delegate.number, index] = owner
    return found


class _Owners:
    """The operators of one delegate's nodes."""

    def __init__(self, program: ProgramMap, delegate: Delegate) -> None:
        self._program = program
        self._delegate = delegate
        self._inside = [
            place for place, op in enumerate(program.ops) if op.partition == delegate.number
        ]
        self._makers = {node.output: node for node in delegate.nodes}
        self._readers: dict[int, list[XnnNode]] = defaultdict(list)
        for node in delegate.nodes:
            for value in node.inputs:
                self._readers[value].append(node)
        self._found: dict[int, Owner] = {}

    def all(self) -> Mapping[int, Owner]:
        self._by_handle()
        self._norms()
        for node in self._delegate.nodes:
            if node.index not in self._found and not node.is_layout:
                self._found[node.index] = Owner(op=self._next_op(node))
        for node in self._delegate.nodes:
            if node.index not in self._found:
                self._found[node.index] = self._layout(node)
        return self._found

    def _by_handle(self) -> None:
        """Nodes and operators of one handle stand in the same order, each beside its like."""
        waiting: dict[int, list[int]] = defaultdict(list)
        for place in self._inside:
            waiting[self._program.ops[place].handle].append(place)
        for node in self._delegate.nodes:
            if node.inserted:
                continue
            left = waiting.get(node.handle, [])
            likes = category(TFLITE_OF.get(node.kind, node.kind))
            pick = next((p for p in left if category(self._program.ops[p].target) == likes), None)
            if pick is None and left:
                pick = left[0]
            if pick is not None and len(left) > 1:
                left.remove(pick)
            self._found[node.index] = Owner(op=pick)

    def _norms(self) -> None:
        """Batch norms that became depthwise convolutions (DecomposeBatchNorm), in order."""
        taken = {owner.op for owner in self._found.values()}
        norms = iter(
            place
            for place in self._inside
            if "batch_norm" in self._program.ops[place].target and place not in taken
        )
        for node in self._delegate.nodes:
            if node.inserted and node.kind == "XNNDepthwiseConv2d":
                place = next(norms, None)
                if place is not None:
                    self._found[node.index] = Owner(op=place)

    def _next_op(self, node: XnnNode) -> int | None:
        """Downwards to the next node that has an operator, else upwards."""
        for one in self._down(node):
            if one.index in self._found:
                return self._found[one.index].op
        for one in self._up(node):
            if one.index in self._found:
                return self._found[one.index].op
        return self._inside[0] if self._inside else None

    def _up(self, node: XnnNode) -> Iterator[XnnNode]:
        queue, seen = [node], {node.index}
        while queue:
            for value in queue.pop(0).inputs:
                maker = self._makers.get(value)
                if maker is not None and maker.index not in seen:
                    seen.add(maker.index)
                    queue.append(maker)
                    yield maker

    def _down(self, node: XnnNode) -> Iterator[XnnNode]:
        queue, seen = [node], {node.index}
        while queue:
            for reader in self._readers[queue.pop(0).output]:
                if reader.index not in seen:
                    seen.add(reader.index)
                    queue.append(reader)
                    yield reader

    def _layout(self, node: XnnNode) -> Owner:
        """Who demands the other layout: a reader inside, or one beyond the border."""
        before = self._op_above(node)
        inside = [reader for reader in self._readers[node.output] if reader.index in self._found]
        turn = _LAYOUTS[node.permutation]
        if inside:
            place = self._found[inside[0].index].op
            if place is None:
                return Owner(op=before, cause=turn)
            if inside[0].kind == "XNNConvert" and place == before:
                return self._leaving(before, turn)  # on its way out, as another type
            cause = f"{turn} for {self._told(place)}{self._came(node, place)}"
            return Owner(op=place, cause=cause, forced_by=self._forced(node, place, before))
        return self._leaving(before, turn)

    def _leaving(self, before: int | None, turn: str) -> Owner:
        """Of a value that leaves the delegate."""
        outside = self._outside(before)
        if outside is None:
            return Owner(op=before, cause=f"{turn}: the program's output is stored so")
        why = self._program.ops[outside].reason or "it runs in another partition"
        cause = f"{turn} for {self._told(outside)}: {why}"
        return Owner(op=before, cause=cause, forced_by=outside)

    def _forced(self, node: XnnNode, place: int, before: int | None) -> int | None:
        """Who can't do with channels last: the reader, or whoever made the operand.

        What only carries an order (sums, activations, conversions of type) is forced itself, by what
        its operands come from.
        """
        value = self._delegate.value(node.inputs[0])
        if value is not None and value.role == "input":
            return next(iter(self._beyond(place)), None)
        if _LAYOUTS[node.permutation] == TO_NCHW:
            return self._origin(place, before)
        return None if before is None else self._origin(before)

    def _origin(self, place: int, without: int | None = None) -> int | None:
        """Up through what carries any order; None at the program's own input."""
        ops, seen = self._program.ops, {place, without}
        while self._carries(place):
            feeds = [k for k in ops[place].feeds_on if k not in seen and not ops[k].is_constant]
            beyond = [k for k in feeds if ops[k].partition != self._delegate.number]
            if beyond or not feeds:
                return beyond[0] if beyond else None
            place = feeds[0]
            seen.add(place)
        return place

    def _carries(self, place: int) -> bool:
        """Whether an operator runs in any order: element by element, on operands of one rank."""
        op = self._program.ops[place]
        if op.partition != self._delegate.number:
            return False
        if "quantize" in op.target:
            return True
        ranks = {len(shape.sizes) for shape in (*op.inputs, *op.outputs)}
        return category(op.target) == "elementwise" and len(ranks) == 1

    def _beyond(self, place: int) -> list[int]:
        """The makers of an operator's operands that stand outside of the delegate."""
        ops = self._program.ops
        return [k for k in ops[place].feeds_on if ops[k].partition != self._delegate.number]

    def _came(self, node: XnnNode, place: int) -> str:
        """Where an operand from beyond the border comes from."""
        value = self._delegate.value(node.inputs[0])
        if value is None or value.role != "input":
            return ""
        makers = self._beyond(place)
        if not makers:
            return ": the program's input is stored otherwise"
        maker = self._program.ops[makers[0]]
        where = "another partition" if maker.partition is not None else "outside of the delegate"
        return f": its operand comes from {self._told(makers[0])} in {where}"

    def _op_above(self, node: XnnNode) -> int | None:
        maker = self._makers.get(node.inputs[0])
        owner = self._found.get(maker.index) if maker is not None else None
        return owner.op if owner is not None else None

    def _outside(self, place: int | None) -> int | None:
        """The first operator beyond the border that reads what operator `place`'s chain made."""
        if place is None:
            return None
        ours = {place}
        for later, op in enumerate(self._program.ops):
            if ours.isdisjoint(op.feeds_on):
                continue
            if op.partition != self._delegate.number:
                return later
            if category(op.target) in {"elementwise", "normalisation"}:
                ours.add(later)
        return None

    def _told(self, place: int) -> str:
        return told(self._program.ops[place])


def told(op: EdgeOp) -> str:
    """An operator in a few words: its name, module, and line."""
    name = op.target.split(".")
    short = name[1] if len(name) > 2 else name[0]
    where = [op.source.module] if op.source.module else []
    if op.source.file:
        where.append(f"{op.source.file.rpartition('/')[2]}:{op.source.line}")
    return f"{short} ({', '.join(where)})" if where else short
