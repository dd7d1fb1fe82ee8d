"""Which values are stored in eight bits, and by which scale: TFLite's scheme, from the rows' rules.

A value is rounded where an op with an 8-bit kernel makes or reads it. What picks elements shares one
scale (`same`); some results have a fixed one; all others have the scale of what was observed. Values
that vanish into the op before them (a product before its bias, a sum before its activation) have none.
"""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from straightway.ir import Graph, Node, Value
from straightway.quant import average, region, spelling
from straightway.quant.edges import FLOAT32
from straightway.quant.integer import AVERAGES, limits, picks
from straightway.quant.needed import ALL, needed
from straightway.quant.placement import Errors, Kernels, macs, place
from straightway.quant.reasons import COMPARISONS, UNEVEN, own
from straightway.quant.scheme import INT8, INT16, Scheme, fixed_scheme
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

STEP = "quant.assignment"
# below, the products of scales leave what float32 and the kernels' multipliers hold
SMALLEST_SCALE = 1e-9
# a range this much wider than another member's leaves that one fewer than four bits
UNLIKE = 16.0
# and one this much wider fewer than two: of the scores beside a detector's boxes nothing would be left
LOST = 64.0
WHOLE = "it belongs to a node that stays as it is, in floats"
UNLIKE_RANGES = "one scale for ranges"
ASKED = "the request keeps it in floats"
Range = tuple[float, float]
# a value as integers of one type
Key = tuple[Value, np.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Schemes of values; `anew` are those by which a fixed result is stored once more.

    `hybrids` are those of the ops with `floats` whose weights are int8 and whose operand is rounded as
    they run. `wide` compute with int16 where others do with int8; `others` are the schemes by which ops
    read a value whose maker, or whose other readers, have integers of another type.
    """

    schemes: Mapping[Value, Scheme]
    anew: Mapping[Value, Scheme]
    floats: Mapping[Node, str]
    remarks: tuple[Remark, ...]
    hybrids: AbstractSet[Node] = frozenset()
    wide: AbstractSet[Node] = frozenset()
    others: Mapping[Value, Scheme] = field(default_factory=dict)

    @property
    def dtypes(self) -> frozenset[np.dtype]:
        """All types of integers between ops."""
        return frozenset(s.dtype for some in (self.schemes, self.others) for s in some.values())

    def apart(self, node: Node, value: Value) -> bool:
        """Whether an op reads a value by the second of its types."""
        other = self.others.get(value)
        return (
            other is not None
            and node not in self.floats
            and (node in self.wide) == (other.dtype == INT16)
        )

    def is_direct(self, value: Value) -> bool:
        """Whether the second type of a value is rounded from floats, not from its first."""
        return value.producer is None or value.producer in self.floats

    def is_kept(self, node: Node) -> bool:
        """Whether an op computes with floats between roundings by which others would make it integers.

        Elements that are only picked are the same by either, so that it counts for those asked for.
        """
        why = self.floats.get(node)
        if why is None or node in self.hybrids:
            return False
        results = [v in self.schemes for v in node.outputs if v.dtype == FLOAT32]
        return why == ASKED or (not picks(node) and bool(results) and all(results))

    def roundings(self, node: Node, value: Value) -> tuple[Scheme, ...]:
        """The schemes by which a value is rounded, one after another, before an op reads it."""
        first = tuple(s[value] for s in (self.schemes, self.anew) if value in s)
        if not self.apart(node, value):
            return first
        own = (self.others[value],)
        return own if self.is_direct(value) else (*first, *own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of the schemes: their type, and the names of nodes that stay in floats.

    `hybrid`: products among floats may round their operand as they run. `wide` names nodes that compute
    with int16; `widens`: others may, where that costs less.
    """

    dtype: np.dtype = INT8
    hybrid: bool = False
    keep_float: AbstractSet[str] = frozenset()
    wide: AbstractSet[str] = frozenset()
    widens: bool = False


def assign(
    graph: Graph,
    ranges: Mapping[str, Range],
    hidden: AbstractSet[str],
    makers: Mapping[Node, Node] | None = None,
    asked: Asked | None = None,
    *,
    errors: Errors | None = None,
) -> Assignment:
    """Give each value that is stored as integers a scheme.

    `ranges` are those observed, by name; `hidden` the values that vanish; `makers` has the model's node
    of each op; `errors` are what roundings may not cost.
    """
    told_apart = {value.name: range_ for value, range_ in needed(graph).items()}
    ranges = {name: _within(own, told_apart.get(name, ALL)) for name, own in ranges.items()}
    implied = frozenset(v.name for node in graph.nodes for v in _limited(graph, node))
    found = _Assigner(
        graph=graph,
        ranges=ranges,
        hidden=hidden | implied,
        asked=asked or Asked(),
        makers=makers or {},
        errors=errors,
    )
    return found.run()


def _within(own: Range, other: Range) -> Range:
    """What two ranges share."""
    return max(own[0], other[0]), min(own[1], other[1])


def _limited(graph: Graph, node: Node) -> list[Value]:
    """What only a limit reads: the range of its result implies the limit, and rounding both is one."""
    found = limits(node)
    if found is None or found[0].producer is None or found[0].shape != node.output.shape:
        return []
    x = found[0]
    return [x] if len(x.uses) == 1 and not graph.is_output(x) else []


def scheme_for(
    low: float, high: float, *, symmetric: bool = False, dtype: np.dtype = INT8
) -> Scheme:
    """Integers that cover a range, and zero exactly; int16 has no other zero points than 0."""
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric or dtype != INT8:
        scale = max(max(-low, high) / np.iinfo(dtype).max, SMALLEST_SCALE)
        return Scheme(dtype=dtype, scale=float(np.float32(scale)), zero_point=0)
    scale = float(np.float32(max((high - low) / 255, SMALLEST_SCALE)))
    zero_point = int(np.clip(np.rint(-128 - low / scale), -128, 127))
    return Scheme(dtype=INT8, scale=scale, zero_point=zero_point)


def why_float(node: Node, dtype: np.dtype = INT8) -> str:
    """Why an op has no part in the scheme of integers, or "". Not of the values around it."""
    found = own(node, dtype)
    if found:
        return found
    if node.op.name in COMPARISONS:
        return UNEVEN
    if ROWS[node.op.name].quant == "weights":
        given = node.inputs[1:3]
        if any(v is not None and v.const is None for v in given):
            return "its weights are no constants"
    return ""


def renames(node: Node) -> bool:
    """Whether an op only orders elements anew: it has no numbers of its own, and takes any type."""
    row = ROWS.get(node.op.name)
    return row is not None and row.layout == "rename"


@dataclass(slots=True, kw_only=True)
class _Assigner:
    graph: Graph
    ranges: Mapping[str, Range]
    hidden: AbstractSet[str]
    asked: Asked
    makers: Mapping[Node, Node]
    errors: Errors | None
    kinds: dict[Node, np.dtype] = field(default_factory=dict)
    parents: dict[Key, Key] = field(default_factory=dict)
    symmetric: set[Key] = field(default_factory=set)
    fixed: dict[Key, Scheme] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    def run(self) -> Assignment:
        """Find groups, then one scheme for each."""
        kernels = self.kernels()
        floats = region.normalizers(self.graph)
        floats |= {node: why for node in self.graph.nodes if (why := self.reason(node))}
        floats |= self.whole(floats)
        for node in kernels.wide:
            floats.pop(node, None)
        placed = place(self.graph, floats, self.hidden, self.makers, self.errors, kernels=kernels)
        floats |= placed.floats
        for node in self.graph.nodes:
            if node not in floats:
                self.kinds[node] = INT16 if node in placed.wide else self.asked.dtype
        stored = {v: kinds for v in self.graph.values() if (kinds := self.stored_as(v))}
        for node in self.kinds:
            self.join(node, stored)
        groups: dict[Key, list[Key]] = {}
        for value, kinds in stored.items():
            for kind in kinds:
                groups.setdefault(self.root((value, kind)), []).append((value, kind))
        found = Assignment(
            schemes={},
            anew={},
            floats=floats,
            remarks=(),
            hybrids=placed.hybrids,
            wide=placed.wide,
        )
        return self.with_schemes(found, stored, groups)

    def with_schemes(
        self,
        given: Assignment,
        stored: Mapping[Value, tuple[np.dtype, ...]],
        groups: Mapping[Key, list[Key]],
    ) -> Assignment:
        """One scheme for each group; a value's first type is that of its maker."""
        schemes: dict[Value, Scheme] = {}
        anew: dict[Value, Scheme] = {}
        others: dict[Value, Scheme] = {}
        for root, members in groups.items():
            scheme = self.group_scheme(root, members)
            for value, kind in members:
                own = self.fixed.get((value, kind), scheme)
                if kind != stored[value][0]:
                    others[value] = own
                    continue
                schemes[value] = own
                if own != scheme:
                    anew[value] = scheme
        return replace(
            given, schemes=schemes, anew=anew, others=others, remarks=tuple(self.remarks)
        )

    def kernels(self) -> Kernels:
        """Which ops compute with int16, or may; one whose result vanishes goes with what follows."""
        able = {
            node
            for node in self.graph.nodes
            if any(v.dtype == FLOAT32 for v in (*node.operands(), *node.outputs))
            and node.name not in self.asked.keep_float
            and not why_float(node, INT16)
        }
        wide = {node for node in able if node.name in self.asked.wide}
        pending = list(wide)
        while pending:
            node = pending.pop()
            users = [u for v in node.outputs if v.name in self.hidden for u in v.users()]
            makers = [v.producer for v in node.operands() if v.name in self.hidden]
            new = [one for one in (*users, *makers) if one in able and one not in wide]
            wide.update(new)
            pending += new
        if self.asked.dtype == INT16 or not (wide or self.asked.widens):
            return Kernels(hybrid=self.asked.hybrid)
        free = {node for node in able if self.asked.widens or not macs(node)}
        return Kernels(hybrid=self.asked.hybrid, wide=wide, widened=free - wide)

    def reason(self, node: Node) -> str:
        """Why a node that has to do with floats stays there."""
        if not any(v.dtype == FLOAT32 for v in (*node.operands(), *node.outputs)):
            return ""
        if node.name in self.asked.keep_float and not renames(node):
            return ASKED
        return why_float(node, self.asked.dtype) or self.loses(node)

    def whole(self, floats: Mapping[Node, str]) -> dict[Node, str]:
        """All ops of nodes that stay in the model as they are: one computes with floats, and no ONNX says it."""
        kept = {self.makers[n] for n in floats if n in self.makers and spelling.fault(n)}
        return {
            node: WHOLE
            for node in self.graph.nodes
            if (maker := self.makers.get(node)) in kept
            and node not in floats
            and maker is not None
            and any(v.dtype == FLOAT32 for v in (*node.operands(), *node.outputs))
        }

    def loses(self, node: Node) -> str:
        """Why operands can't be joined in one scale, or ""."""
        if node.op.name != "CONCATENATION":
            return ""
        ends = [self.ranges.get(v.name, (0.0, 0.0)) for v in node.operands() if v.const is None]
        widths = [high - low for low, high in ends if high > low]
        if not widths or max(widths) <= LOST * min(widths):
            return ""
        return (
            f"{UNLIKE_RANGES} of {min(widths):.3g} and {max(widths):.3g} would leave the smaller "
            "less than two bits"
        )

    def stored_as(self, value: Value) -> tuple[np.dtype, ...]:
        """The types of the integer ops that make or read a value: its maker's first, else the usual."""
        if value.const is not None or value.dtype != FLOAT32 or value.name in self.hidden:
            return ()
        beside = [node for node in (value.producer, *value.users()) if node in self.kinds]
        found = dict.fromkeys(self.kinds[node] for node in beside)
        if value.producer in self.kinds:
            return tuple(found)
        return tuple(sorted(found, key=lambda kind: kind != self.asked.dtype))

    def join(self, node: Node, stored: Mapping[Value, tuple[np.dtype, ...]]) -> None:
        """Put values that share a scale together."""
        kind = self.kinds[node]
        real = [
            v for v in (*node.operands(), *node.outputs) if v.const is None and v.dtype == FLOAT32
        ]
        row = ROWS.get(node.op.name)
        own = None if row is None else fixed_scheme(row, kind)
        if own is not None and node.outputs[0] in stored:
            self.fixed[node.outputs[0], kind] = own
        if node.op.name == "BATCH_MATMUL" and node.operands()[1] in stored:
            self.symmetric.add((node.operands()[1], kind))
        shares = picks(node) or (node.op.name in AVERAGES and not average.is_plain(node))
        hides = [v for v in node.operands() if v.name in self.hidden and v.dtype == FLOAT32]
        together = real if shares else [*hides, *node.outputs] if hides else []
        for value in together[1:]:
            self.parents[self.root((value, kind))] = self.root((together[0], kind))

    def root(self, key: Key) -> Key:
        """The value that stands for a group."""
        while key in self.parents and self.parents[key] != key:
            key = self.parents[key]
        return key

    def group_scheme(self, root: Key, members: list[Key]) -> Scheme:
        """One scheme for all: the fixed one if it holds them, else that of their ranges together."""
        kind = root[1]
        ranges = {v: self.ranges.get(v.name, (0.0, 0.0)) for v, _ in members}
        low, high = min(r[0] for r in ranges.values()), max(r[1] for r in ranges.values())
        makers = [v for v in ranges if not self.is_picked(v, kind)]
        for scheme in dict.fromkeys(self.fixed[key] for key in self.fixed if key in members):
            ends = [(limit - scheme.zero_point) * scheme.scale for limit in scheme.limits]
            if all(self.fixed.get((v, kind)) == scheme for v in makers):
                return scheme
            if ends[0] - scheme.scale <= low and high <= ends[1] + scheme.scale:
                return scheme
        self.say_unlike(ranges)
        symmetric = any(self.root(key) == root for key in self.symmetric)
        return scheme_for(low, high, symmetric=symmetric, dtype=kind)

    def is_picked(self, value: Value, kind: np.dtype) -> bool:
        """Whether a value's elements are those of others of its type."""
        node = value.producer
        return node is not None and picks(node) and self.kinds.get(node, kind) == kind

    def say_unlike(self, ranges: Mapping[Value, Range]) -> None:
        """Name what loses bits by sharing a scale with wider values."""
        widths = {value: high - low for value, (low, high) in ranges.items() if high > low}
        if len(widths) < 2:
            return
        widest = max(widths, key=lambda v: widths[v])
        for value, width in widths.items():
            made_here = value.producer is not None and not picks(value.producer)
            if made_here and widths[widest] > UNLIKE * width:
                text = (
                    f"'{value.name}' has a range of {width:.3g} and shares the scale of "
                    f"'{widest.name}', whose range is {widths[widest]:.3g}"
                )
                node = value.producer.name if value.producer is not None else ""
                numbers = {"range": width, "shared_range": widths[widest]}
                self.remarks.append(
                    Remark(kind="missed", step=STEP, node=node, text=text, numbers=numbers)
                )
