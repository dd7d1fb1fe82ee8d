"""The plan: what must still be converted, why, and whether it could be less."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from straightway.domains.atoms import Order
from straightway.domains.solve import Solution
from straightway.domains.store import Moved
from straightway.ir import Node, Value
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

STEP = "domains.layout"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedConversion:
    """One TRANSPOSE left: the value, its orders in the model's dimensions, bytes, and who forces it."""

    value: str
    shape: tuple[int, ...]
    given: str
    wanted: str
    size_bytes: int
    made_by: str
    demanded_by: str
    node: Node

    def __str__(self) -> str:
        return (
            f"{self.value} {list(self.shape)} {self.given}→{self.wanted}, {self.size_bytes:,} bytes: "
            f"stored so by {self.made_by}; demanded by {self.demanded_by}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All conversions left; their cost; the proven lower bound, equal to the cost if `minimal`."""

    conversions: tuple[PlannedConversion, ...]
    cost_bytes: int
    bound_bytes: int
    minimal: bool
    method: str

    def joined(self, others: "Iterable[Plan]") -> "Plan":
        """This plan together with those of the graphs inside."""
        plans = [self, *others]
        return Plan(
            conversions=tuple(found for plan in plans for found in plan.conversions),
            cost_bytes=sum(plan.cost_bytes for plan in plans),
            bound_bytes=sum(plan.bound_bytes for plan in plans),
            minimal=all(plan.minimal for plan in plans),
            method=self.method,
        )

    def verdict(self) -> str:
        """One line: minimal, or the bound."""
        count = len(self.conversions)
        moved = sum(c.size_bytes for c in self.conversions)
        what = f"{count} layout conversion{'' if count == 1 else 's'}, {moved:,} bytes"
        if self.minimal:
            return f"{what}: minimal ({self.method})"
        return f"{what}; cost {self.cost_bytes:,}, no plan costs less than {self.bound_bytes:,}"

    def remarks(self) -> list[Remark]:
        """One remark for each conversion, one for the whole."""
        found = [
            Remark(
                kind="missed",
                step=STEP,
                node=c.node.name,
                op="TRANSPOSE",
                text=str(c),
                numbers={"bytes": c.size_bytes},
            )
            for c in self.conversions
        ]
        return [*found, Remark(kind="done", step=STEP, text=self.verdict())]


def make_plan(solution: Solution, moves: Sequence[Moved]) -> Plan:
    """Tell the conversions that were written, in the model's words."""
    return Plan(
        conversions=tuple(_conversion(moved) for moved in moves),
        cost_bytes=solution.cost,
        bound_bytes=solution.bound,
        minimal=solution.minimal,
        method=solution.method,
    )


def _conversion(moved: Moved) -> PlannedConversion:
    value = moved.value
    producer, user = _maker(value), _demander(moved.demanded_by)
    return PlannedConversion(
        value=value.name,
        shape=value.shape,
        given=order_text(moved.given),
        wanted=order_text(moved.wanted),
        size_bytes=value.known_type.size_bytes,
        made_by=_who(producer) if isinstance(producer, Node) else f"graph input {producer.name}",
        demanded_by=_who(user) if user is not None else f"graph output {value.name}",
        node=moved.node,
    )


def _maker(value: Value) -> Node | Value:
    """The op that stored the value as it is, past those that only rename; or the graph's input."""
    while value.producer is not None:
        if not _renames(value.producer):
            return value.producer
        value = value.producer.operands()[0]
    return value


def _demander(user: Node | None) -> Node | None:
    """The op that wants the value so, past those that only rename."""
    while user is not None and _renames(user):
        user = next((n for n in user.output.users() if n.op.dialect == "tflite"), None)
    return user


def _renames(node: Node) -> bool:
    return ROWS[node.op.name].layout == "rename"


def _who(node: Node) -> str:
    found = next((s for s in node.origins if s.node == node.name), None)
    return f"{found.op if found is not None else node.op.name} '{node.name}'"


def order_text(order: Order) -> str:
    """Dimensions of the model as stored: (0 2 3 1), parts as 2.0 2.1."""
    split = {dim for dim, part in order if part}
    return "(" + " ".join(f"{d}.{p}" if d in split else str(d) for d, p in order) + ")"
