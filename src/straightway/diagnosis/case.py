"""What a rule looks at: a program's operators, what each takes, and who forces which conversion."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from straightway.errors import InvalidModel
from straightway.executorch.attribution import owners, told
from straightway.executorch.foreign import named
from straightway.executorch.program import EdgeOp, ProgramMap, XnnNode
from straightway.trace.schema import Event, Trace
from straightway.trace.taxonomy import UNACCOUNTED


class Case:
    """One program and one trace of it. Operators are called by their place in the program's list."""

    def __init__(self, program: ProgramMap, trace: Trace) -> None:
        self.program = named(program)
        self.trace = trace
        self.ops: Sequence[EdgeOp] = self.program.ops
        if [op.kind for op in trace.ops] != [op.target for op in self.ops]:
            raise InvalidModel("the trace is of another program: its operators are not the map's")
        self.events: Mapping[int, Event] = {
            event.id: event for event in trace.events if event.place != UNACCOUNTED
        }
        self._of: dict[int, list[Event]] = defaultdict(list)
        for event in self.events.values():
            if event.op_index is not None and not event.cause:
                self._of[event.op_index].append(event)
        self._readers: dict[int, list[int]] = defaultdict(list)
        for place, op in enumerate(self.ops):
            for maker in op.feeds_on:
                self._readers[maker].append(place)
        self._nodes: dict[int, list[tuple[int, XnnNode]]] = defaultdict(list)
        kept = {(d.number, node.index): node for d in self.program.delegates for node in d.nodes}
        for (number, index), owner in owners(self.program).items():
            if owner.op is not None:
                self._nodes[owner.op].append((number, kept[number, index]))

    def name(self, place: int) -> str:
        """The operator's plain name: "layer_norm" of "aten.native_layer_norm.out" is "native_layer_norm".

        Namespace, overload and the suffix of copying variants are left out.
        """
        parts = self.ops[place].target.split(".")
        name = parts[1] if len(parts) > 2 else parts[0]
        return name.removesuffix("_copy")

    def outside(self, *names: str) -> Iterator[int]:
        """The operators of these names (all without any) that run outside of delegates."""
        for place, op in enumerate(self.ops):
            if op.partition is None and (not names or self.name(place) in names):
                yield place

    def inside(self, *names: str) -> Iterator[int]:
        """The operators of these names that run in a delegate."""
        for place, op in enumerate(self.ops):
            if op.partition is not None and self.name(place) in names:
                yield place

    def is_outside(self, place: int) -> bool:
        """Whether it runs outside of delegates."""
        return self.ops[place].partition is None

    def own(self, place: int) -> Sequence[Event]:
        """What was measured of an operator itself, without conversions that something else forces."""
        return self._of[place]

    def forced(self, place: int) -> list[Event]:
        """The layout conversions that an operator forces, its own and its neighbours'."""
        return [event for event in self.conversions() if event.forced_by == place]

    def conversions(self) -> Iterator[Event]:
        """The layout conversions that no operator of the model asked for."""
        return (event for event in self.events.values() if event.cause)

    def nodes(self, place: int) -> Sequence[tuple[int, XnnNode]]:
        """What the delegate computes for an operator: its number and the node."""
        return self._nodes[place]

    def readers(self, place: int) -> Sequence[int]:
        """The operators that read its results."""
        return self._readers[place]

    def above(self, place: int, steps: int) -> Iterator[int]:
        """The operators that it comes from, at most `steps` up, nearest first."""
        seen, level = {place}, [place]
        for _ in range(steps):
            level = [m for one in level for m in self.ops[one].feeds_on if m not in seen]
            for maker in dict.fromkeys(level):
                seen.add(maker)
                yield maker

    def lines(self) -> Mapping[tuple[str, int, str], Sequence[int]]:
        """The operators by file, line and module: those that one expression became."""
        found: dict[tuple[str, int, str], list[int]] = defaultdict(list)
        for place, op in enumerate(self.ops):
            found[op.source.file, op.source.line, op.source.module].append(place)
        return found

    def rank(self, place: int) -> int:
        """How many dimensions its first result has; -1 where it is unknown."""
        outputs = self.ops[place].outputs
        return len(outputs[0].sizes) if outputs else -1

    def has_dtype(self, place: int, *dtypes: str) -> bool:
        """Whether an operand or result is of one of these types."""
        op = self.ops[place]
        return any(shape.dtype in dtypes for shape in (*op.inputs, *op.outputs))

    def told(self, place: int) -> str:
        """An operator in a few words."""
        return told(self.ops[place])
