"""Ops between DEQUANTIZE and QUANTIZE compute with the integers themselves.

    before                                       after
      %x = DEQUANTIZE(%q)                          %r = CONV_2D(%q, int8, int32)
      %y = CONV_2D(%x, const, const)
      %r = QUANTIZE(%y)

A graph with QUANTIZE and DEQUANTIZE is complete as it is: floats, rounded where it says so. What only
picks elements runs on the integers on either side of such a rounding, with the same result. What
computes does so by its row's rule, within one quantum. All else stays in floats, and is named.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from straightway.ir import Graph, Node, Op, Value, edit
from straightway.ir.source import is_kept_in_floats
from straightway.passes import activation, dead
from straightway.quant import assign, average, reasons, region, storage, weights
from straightway.quant.edges import (
    FLOAT32,
    constant,
    demand,
    dequantized,
    integers,
    is_op,
    is_requantized,
    quantized,
    requantizes,
    rounds,
    shifts,
    stored,
    take_over,
)
from straightway.quant.placement import HYBRID
from straightway.quant.scheme import (
    INT8,
    UINT8,
    Scheme,
    fixed_scheme,
    scheme_of,
    stored_scheme,
)
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

STEP = "quant.integer"
MOST_ROUNDS = 8
# by which a 1 is a whole number
ONE_SCALE = 1 / 127
# below, float32 loses bits
SMALLEST = 1e-30
# results of these are new numbers, though they share the operands' scale
AVERAGES = ("AVERAGE_POOL_2D", "RESIZE_BILINEAR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Integers:
    """What was done, and which integers stand for others now: as they are, or int8 for uint8."""

    remarks: tuple[Remark, ...]
    stand_ins: Mapping[Value, Value]

    def stand_in(self, value: Value) -> Value:
        """What holds the numbers of a value now."""
        while value in self.stand_ins:
            value = self.stand_ins[value]
        return value


def run(graph: Graph) -> Integers:
    """Compute with integers wherever the graph is rounded on both sides."""
    assign.run(graph)
    pass_ = _Pass(graph=graph)
    for _ in range(MOST_ROUNDS):
        if not pass_.round():
            break
    removed = [*activation.run(graph), *dead.run(graph)] if pass_.done else dead.run(graph)
    hybrid, told = storage.run(graph), pass_.remarks()
    assign.forget(graph)  # remarks need the schemes of constants
    remarks = (*told, *removed, *hybrid) if pass_.done else (*told, *hybrid)
    return Integers(remarks=remarks, stand_ins=pass_.stand_ins)


@dataclass(slots=True, kw_only=True)
class _Pass:
    graph: Graph
    done: Counter[str] = field(default_factory=Counter)
    raised: dict[str, int] = field(default_factory=dict)
    requantized: list[Remark] = field(default_factory=list)
    stand_ins: dict[Value, Value] = field(default_factory=dict)

    def round(self) -> bool:
        """Apply every rewrite once, forwards or backwards; returns whether any did something."""
        before = self.done.total()
        self.sweep(self.note_signs)
        self.sweep(self.multiply)
        self.sweep(self.push)
        self.sweep(self.join_conversions)
        self.sweep(self.drop_limits, backwards=True)
        self.sweep(self.pull, backwards=True)
        self.sweep(self.join_conversions)
        self.sweep(self.compute)
        return self.done.total() > before

    def sweep(self, step: Callable[[Node], str], *, backwards: bool = False) -> None:
        """Try one rewrite at each node; it says what it did, or ""."""
        nodes = list(self.graph.nodes)
        for node in reversed(nodes) if backwards else nodes:
            if node.graph is self.graph and node.op.dialect == "tflite":
                found = step(node)
                if found:
                    self.done[found] += 1

    def note_signs(self, node: Node) -> str:
        """What is shifted to uint8 is held as int8 as well."""
        if requantizes(node) and node.output.dtype == UINT8 and shifts(node):
            self.stand_ins.setdefault(node.output, node.operands()[0])
        return ""

    # -- what only picks elements

    def push(self, node: Node) -> str:
        """DEQUANTIZE after what picks elements of integers, not before."""
        real = floats(node)
        if not picks(node) or not any(stored(v) for v in real):
            return ""
        sources = [stored(v) for v in real if v.const is None]
        schemes = {None if s is None else scheme_of(s) for s in sources}
        scheme = schemes.pop() if len(schemes) == 1 else None
        constants = [] if spreads(node) else [v.const for v in real if v.const is not None]
        if scheme is None or not all(scheme.holds(array) for array in constants):
            return ""
        if not takes(node, scheme):
            return ""
        results = self.rebuilt(node, scheme)
        values = [
            dequantized(self.graph, new, old, node) if old.dtype == FLOAT32 else new
            for old, new in zip(node.outputs, results, strict=True)
        ]
        edit.replace(node, values)
        return "moved"

    def pull(self, node: Node) -> str:
        """QUANTIZE before what picks elements, not after: rounding picks the same ones."""
        results = [v for v in node.outputs if v.dtype == FLOAT32]
        if not picks(node) or not results:
            return ""
        schemes = {demand(v) for v in results}
        scheme = schemes.pop() if len(schemes) == 1 else None
        if scheme is None or not takes(node, scheme):
            return ""
        self.deliver(node, self.rebuilt(node, scheme))
        return "moved"

    def multiply(self, node: Node) -> str:
        """By a number, integers stay as they are: their scale changes. Dividing is multiplying."""
        found = factor(node)
        if found is None:
            return ""
        x, number = found
        if is_op(node, "DIV"):
            made = edit.constant(self.graph, np.array(number, np.float32), f"{node.name}/factor")
            result = Value(self.graph.fresh(node.output.name), node.output.type)
            inputs = [x, made]
            op = Op(dialect="tflite", name="MUL")
            new = Node(op, inputs, [result], node.attrs, name=node.name, origins=node.origins)
            edit.insert(self.graph, new, node)
            edit.replace(node, [result])
            return "divided"
        source = stored(x)
        if source is None or number <= 0 or demand(node.output) is not None or spreads(node):
            return ""
        own = scheme_of(source)
        scaled = replace(own, scale=float(np.float32(own.scale * number)))
        inputs = [
            source
            if v is x
            else constant(self.graph, v, replace(own, scale=number / 127, zero_point=0))
            for v in node.operands()
        ]
        made = integers(self.graph, node.output, scaled)
        new = Node(node.op, inputs, [made], node.attrs, name=node.name, origins=node.origins)
        edit.insert(self.graph, new, node)
        edit.replace(node, [dequantized(self.graph, made, node.output, node)])
        return "MUL"

    def rebuilt(self, node: Node, scheme: Scheme) -> list[Value]:
        """Insert the same op on integers of one scheme before a node; return its results."""
        one = replace(scheme, scale=ONE_SCALE, zero_point=0)
        inputs = [
            quantized(self.graph, v, one if spreads(node) and v.const is not None else scheme, node)
            if v is not None and v.dtype == FLOAT32
            else v
            for v in node.inputs
        ]
        outputs = [
            integers(self.graph, v, scheme)
            if v.dtype == FLOAT32
            else Value(self.graph.fresh(v.name), v.type)
            for v in node.outputs
        ]
        made = Node(node.op, inputs, outputs, node.attrs, name=node.name, origins=node.origins)
        return edit.insert(self.graph, made, node).outputs

    def deliver(self, node: Node, results: list[Value]) -> None:
        """Let integers take the place of what the users of a node's results round."""
        for place, (old, new) in enumerate(zip(node.outputs, results, strict=True)):
            if old.dtype != FLOAT32:
                edit.replace_uses(old, new)
                continue
            self.hand_over(old, new, place)
        edit.remove(node)

    def hand_over(self, old: Value, new: Value, place: int) -> None:
        """Give each QUANTIZE of `old` the integers: as they are, or scaled anew."""
        first, *others = [user for user in old.users() if rounds(user)]
        maker = new.producer
        if scheme_of(new) == scheme_of(first.output) and maker is not None:
            take_over(first, maker, place)
            for other in others:
                self.stand_ins[other.output] = maker.outputs[place]
                edit.replace(other, [maker.outputs[place]])
            return
        for user in (first, *others):
            edit.set_input(user, 0, new)

    # -- conversions

    def join_conversions(self, node: Node) -> str:
        """QUANTIZE of what DEQUANTIZE made: the integers as they are, or scaled anew."""
        if not is_op(node, "QUANTIZE"):
            return ""
        if rounds(node):
            source = stored(node.operands()[0])
            if source is None or not is_requantized(source, node.output):
                return ""
            edit.set_input(node, 0, source)
        (source,) = node.operands()
        back = source.producer
        if back is not None and requantizes(back) and shifts(back) and shifts(node):
            (source,) = back.operands()
        if source.dtype != node.output.dtype or scheme_of(source) != scheme_of(node.output):
            return ""
        if self.graph.is_output(node.output):
            return ""
        edit.replace_uses(node.output, source)
        edit.remove(node)
        self.stand_ins[node.output] = source
        return "joined"

    def drop_limits(self, node: Node) -> str:
        """A limit that the range of the integers implies is none."""
        if len(node.outputs) != 1 or node.output.dtype != FLOAT32:
            return ""
        scheme = demand(node.output)
        found = limits(node)
        if scheme is None or found is None:
            return ""
        x, low, high = found
        ends = scheme.stored(np.array([low, high]))
        if tuple(int(v) for v in ends) != scheme.limits or x.shape != node.output.shape:
            return ""
        edit.replace_uses(node.output, x)
        edit.remove(node)
        return "limits"

    # -- what computes

    def compute(self, node: Node) -> str:
        """Let an op compute with integers by its row's rule."""
        if why_float(node):
            return ""
        if is_op(node, "AVERAGE_POOL_2D") and average.is_plain(node):
            return average.respell(self.graph, node)
        row = ROWS[node.op.name]
        sources = {v: stored(v) for v in floats(node) if v.const is None}
        first = next(s for s in sources.values() if s is not None)
        results = [v for v in node.outputs if v.dtype == FLOAT32]
        wanted = demand(results[0]) if results else None
        own = fixed_scheme(row, first.dtype) or wanted
        if node.op.name in AVERAGES:
            own = scheme_of(first)
        inputs = (
            self.weighted(node, first) if row.quant == "weights" else self.operands(node, first)
        )
        outputs = [
            integers(self.graph, v, own)
            if own is not None and v.dtype == FLOAT32
            else Value(self.graph.fresh(v.name), v.type)
            for v in node.outputs
        ]
        made = Node(node.op, inputs, outputs, node.attrs, name=node.name, origins=node.origins)
        edit.insert(self.graph, made, node)
        if own is not None and wanted is not None and own != wanted:
            self.say_requantized(node, own, wanted)
        self.deliver(node, made.outputs)
        return node.op.name

    def operands(self, node: Node, first: Value) -> list[Value | None]:
        """The integers of each operand, constants stored as they are best."""
        found: list[Value | None] = []
        for value in node.inputs:
            if value is None or value.dtype != FLOAT32:
                found.append(value)
                continue
            scheme = stored_scheme(value, first.dtype)
            source = stored(value)
            found.append(source if scheme is None else constant(self.graph, value, scheme))
        return found

    def weighted(self, node: Node, x: Value) -> list[Value | None]:
        """The operand's integers, weights, bias."""
        made = weights.store(self.graph, node, scheme_of(x))
        if made.raised:
            self.raised[node.name] = made.raised
        return [x, made.weights, made.bias][: len(node.inputs)]

    # -- what there is to say

    def say_requantized(self, node: Node, own: Scheme, wanted: Scheme) -> None:
        """Name a scale that the op can't give."""
        reason = (
            "fixes its result to" if own == fixed_scheme(ROWS[node.op.name], own.dtype) else "keeps"
        )
        self.requantized.append(
            Remark(
                kind="done",
                step=STEP,
                node=node.name,
                op=node.op.name,
                text=f"TFLite's {node.op.name} {reason} {own}; one QUANTIZE makes that {wanted}",
            )
        )

    def remarks(self) -> list[Remark]:
        """What became integer, what changed scale, and what stayed in floats for which reason."""
        names = {k: n for k, n in self.done.items() if k in ROWS}
        total = sum(names.values())
        found = []
        if total:
            listed = ", ".join(f"{n} {name}" for name, n in Counter(names).most_common())
            text = f"{total} ops compute with integers: {listed}"
            found.append(Remark(kind="done", step=STEP, text=text, numbers={"nodes": total}))
        found += [
            Remark(
                kind="done",
                step=STEP,
                node=name,
                text=f"the scale of {count} channels of weights was raised so that their bias fits",
                numbers={"channels": count},
            )
            for name, count in self.raised.items()
        ]
        return [*found, *self.requantized, *self.left()]

    def left(self) -> list[Remark]:
        """Every op beside a rounding that stayed in floats."""
        found = []
        known = region.normalizers(self.graph)
        for node in self.graph.nodes:
            dtype = _beside(node)
            if dtype is None or is_op(node, "QUANTIZE", "DEQUANTIZE"):
                continue
            why = HYBRID if storage.is_hybrid(node) else why_float(node)
            if why.startswith(EMPTY):
                why = known.get(node) or reasons.around(node, dtype, known) or why
            text = f"stays in floats between conversions: {why}"
            found.append(
                Remark(kind="missed", step=STEP, node=node.name, op=node.op.name, text=text)
            )
        return found


def floats(node: Node) -> list[Value]:
    """The operands that hold real numbers."""
    return [v for v in node.operands() if v.dtype == FLOAT32]


def picks(node: Node) -> bool:
    """Whether the elements of the results are elements of the operands, or zero."""
    row = ROWS.get(node.op.name)
    if row is None or is_kept_in_floats(node.origins):
        return False
    return (row.quant == "same" and node.op.name not in AVERAGES) or spreads(node)


def spreads(node: Node) -> bool:
    """Whether a node repeats its operand: a MUL by ones, which XNNPACK runs where it has no TILE."""
    constants = [v.const for v in node.operands() if v.const is not None]
    return (
        is_op(node, "MUL")
        and node.attrs.get("activation") == "NONE"
        and len(constants) == 1
        and bool((constants[0] == 1).all())
    )


def factor(node: Node) -> tuple[Value, float] | None:
    """The operand of a MUL or DIV between integers, and the number by which it multiplies it."""
    is_plain = is_op(node, "MUL", "DIV") and node.attrs.get("activation") == "NONE"
    if not is_plain or is_kept_in_floats(node.origins):
        return None
    a, b = node.operands()
    x, other = (b, a) if is_op(node, "MUL") and a.const is not None else (a, b)
    if other.const is None or other.const.size != 1 or x.dtype != FLOAT32 or not stored(x):
        return None
    number = float(other.const.reshape(-1)[0])
    with np.errstate(all="ignore"):
        number = number if is_op(node, "MUL") else float(np.float32(1) / np.float32(number))
    fits = np.isfinite(number) and abs(number) >= SMALLEST and node.output.shape == x.shape
    return (x, number) if fits else None


def takes(node: Node, scheme: Scheme) -> bool:
    """Whether the kernel has a version for these integers."""
    return scheme.dtype in ROWS[node.op.name].quantized


def limits(node: Node) -> tuple[Value, float, float] | None:
    """What a clamp lets through of which operand, None where the node is none."""
    ends = {"RELU": (0, np.inf), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}
    if is_op(node, *ends):
        return node.operands()[0], *ends[node.op.name]
    if not is_op(node, "MAXIMUM", "MINIMUM"):
        return None
    a, b = node.operands()
    x, bound = (a, b) if b.const is not None else (b, a)
    if bound.const is None or bound.const.size != 1:
        return None
    number = float(bound.const.reshape(-1)[0])
    return (x, number, np.inf) if node.op.name == "MAXIMUM" else (x, -np.inf, number)


def why_float(node: Node) -> str:
    """Why an op can't compute with integers where it stands, or ""."""
    row = ROWS.get(node.op.name)
    real = floats(node)
    data = real[:1] if row is not None and row.quant == "weights" else real
    sources = [stored(v) for v in data if v.const is None]
    dtypes = {s.dtype for s in sources if s is not None}
    dtype = min(dtypes, key=str, default=INT8)
    found = reasons.own(node, dtype)
    if found or row is None:
        return found
    if not sources or any(s is None for s in sources):
        return f"{UNROUNDED} {_unrounded(data)} to integers"
    if len(dtypes) > 1:
        return f"TFLite's {node.op.name} doesn't take these types"
    if reasons.compares_unevenly(node):
        return reasons.UNEVEN
    if row.quant == "weights":
        reason = weights.fault(node)
        if reason:
            return reason
    elif any(v.const is not None and stored_scheme(v, dtype) is None for v in data):
        return "a constant has no scale, and none would hold its elements exactly"
    schemes = [demand(v) for v in node.outputs if v.dtype == FLOAT32]
    if None in schemes:
        return f"{USED}, or rounded in several ways"
    if any(s is not None and s.dtype != dtype for s in schemes) or len(set(schemes)) > 1:
        return "its results have another type than its operands"
    if picks(node):
        return "its operands and results have different scales"
    return ""


# what only says that floats are beside an op
UNROUNDED = "the model does not round"
USED = "its result is used as floats"
EMPTY = (UNROUNDED, USED, weights.NO_SCALE, reasons.KEPT)


def _unrounded(data: list[Value]) -> str:
    names = [f"'{v.name}'" for v in data if v.const is None and stored(v) is None]
    return " and ".join(dict.fromkeys(names)) or "its operands"


def _beside(node: Node) -> np.dtype | None:
    """The type of the integers beside an op of floats, None where there are none."""
    made = [s.dtype for v in floats(node) if (s := stored(v)) is not None]
    made += [u.output.dtype for v in node.outputs for u in v.users() if rounds(u)]
    return next(iter(made), None)
