"""Where two ways of one model meet: places of the model that stand for the same work on both.

One exporter folds a batch norm into its convolution and keeps the norm's line, the other keeps both;
one fuses an activation, the other does not; a pass of an exporter's writes nodes without a line. What is
one operator on a way is one place on both.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from straightway.executorch.program import EdgeOp
from straightway.ir import Node, Source
from straightway.trace.schema import Event, Op, Trace
from straightway.trace.taxonomy import category, operator_name

# How far up and down an operator's neighbours count as what it may have been folded with.
_STEPS = 2


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """A line of the model in a module."""

    module: str
    file: str
    line: int

    @classmethod
    def of(cls, one: Source | Op) -> "Place":
        """Where a node of the model or an op of a trace stands."""
        return cls(module=one.module, file=one.file, line=one.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """An op of the TFLite file: its kind, and the places of the model that it stands for."""

    index: int
    kind: str
    places: list[Place]


class Meeting:
    """Joins the operators of an ExecuTorch program and of a TFLite file of the same model."""

    def __init__(self, ops: Sequence[EdgeOp], operators: Mapping[Node, int]) -> None:
        """`ops` in order of execution; `operators` the written nodes, each with its index."""
        self._ops = ops
        self._places = [Place.of(op.source) for op in ops]
        self._first: dict[Place, int] = {}
        self._last: dict[Place, int] = {}
        for number, place in enumerate(self._places):
            self._first.setdefault(place, number)
            self._last[place] = number
        self._group: dict[Place, list[Place]] = {}
        self._written = [
            _Written(index=index, kind=node.op.name, places=self._known(node.origins))
            for node, index in sorted(operators.items(), key=lambda item: item[1])
        ]
        self._used = {place for one in self._written for place in one.places}
        for number, one in enumerate(self._written):
            if not one.places:
                self._between(number)
        for one in self._written:
            self._unite(one.places)
            self._folded(one)

    def placed(self, trace: Trace) -> Trace:
        """The file's trace, each op with its line of the model."""
        sources = {Place.of(op.source): op.source for op in reversed(self._ops)}
        ops = {op.index: op for op in trace.ops}
        for one in self._written:
            if one.places and one.index in ops:
                source = sources[one.places[0]]
                ops[one.index] = replace(
                    ops[one.index],
                    file=source.file,
                    line=source.line,
                    code=source.code,
                    module=source.module,
                )
        return replace(trace, ops=tuple(ops.values()))

    def name(self, place: Place) -> str:
        """A place in a few words, with what it is one with."""
        group = sorted(self._group.get(place, [place]), key=lambda one: self._first.get(one, -1))
        modules = dict.fromkeys(one.module for one in group if one.module)
        lines: dict[str, list[str]] = {}
        for one in group:
            numbers = lines.setdefault(one.file.rpartition("/")[2], [])
            if str(one.line) not in numbers:
                numbers.append(str(one.line))
        told = [f"{file}:{','.join(numbers)}" for file, numbers in lines.items()]
        return " ".join(filter(None, [" + ".join(modules), *told]))

    def key(self) -> Callable[[Trace, Event], str]:
        """How `trace.difference` names an event's place in either trace."""

        def named(trace: Trace, event: Event) -> str:
            index = event.op_index if event.subgraph == 0 else event.owner
            if index is None:
                return event.name
            op = trace.ops[index]
            return self.name(Place.of(op)) if op.file else operator_name(event.kind, event.name)

        return named

    def _known(self, origins: Iterable[Source]) -> list[Place]:
        """The program's places of some nodes: by line and module, else by the module alone."""
        found: list[Place] = []
        for source in sorted(origins):
            place = Place.of(source)
            if source.file and place in self._first:
                found.append(place)
            elif source.module:
                found += [one for one in self._first if one.module == source.module][:1]
        return list(dict.fromkeys(found))

    def _between(self, number: int) -> None:
        """Give an op without a line that of a like operator between its neighbours' places."""
        one = self._written[number]
        before = [self._last[p] for x in self._written[:number][-1:] for p in x.places]
        after = [self._first[p] for x in self._written[number + 1 :][:1] for p in x.places]
        span = range(max(before, default=-1) + 1, min(after, default=len(self._ops)))
        for k in span:
            place = self._places[k]
            if place.file and place not in self._used and _alike(self._ops[k].target, one.kind):
                one.places.append(place)
                self._used.add(place)
                return

    def _folded(self, one: _Written) -> None:
        """Unite a product's place with its neighbour's, if only that has an operator of its kind."""
        if category(one.kind) not in {"convolution", "matrix"}:
            return
        for place in list(one.places):
            here = [k for k, other in enumerate(self._places) if other == place]
            if any(_alike(self._ops[k].target, one.kind) for k in here):
                return
        for k in (k for k, other in enumerate(self._places) if other in one.places):
            for near in self._near(k):
                place = self._places[near]
                if place not in self._used and _alike(self._ops[near].target, one.kind):
                    self._unite([*one.places, place])
                    return

    def _near(self, number: int) -> list[int]:
        """The operators that it comes from and goes to, the nearest first."""
        found, level = [number], [number]
        for _ in range(_STEPS):
            makers = [maker for k in level for maker in self._ops[k].feeds_on]
            readers = [
                k for k, op in enumerate(self._ops) if not set(level).isdisjoint(op.feeds_on)
            ]
            level = [k for k in dict.fromkeys([*makers, *readers]) if k not in found]
            found += level
        return found[1:]

    def _unite(self, places: Sequence[Place]) -> None:
        merged: list[Place] = []
        for place in places:
            merged += [one for one in self._group.get(place, [place]) if one not in merged]
        for place in merged:
            self._group[place] = merged


def _alike(first: str, second: str) -> bool:
    """Whether two kinds of operator have one name in the taxonomy."""
    return operator_name(first) == operator_name(second)
