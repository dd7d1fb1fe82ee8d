"""What a report shows of a model of eight bits: how near it is to the float model, value by value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from straightway.report import quantity

# beyond, a difference is nothing but the last bits of floats
MOST_DB = 150.0
# decibels that the picture of the whole graph spans at most
SPAN_DB = 70.0
FEWEST_DB = 10.0
SHOWN_PICTURES = 12
SHOWN_NODES = 20
SHOWN_BRANCHES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelError:
    """A channel and its signal to error."""

    index: int
    sqnr_db: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedValue:
    """One value: the node that makes it, its error, what its scale holds and cuts off, its elements in bins.

    `saturated` is a share (0 to 1), None for what is not stored in integers; `share` that of its node in
    the end error, None where it was not measured. `channels` are its least accurate ones, of
    `channel_count`.
    """

    name: str
    sqnr_db: float
    max_error: float
    node: str = ""
    op: str = ""
    saturated: float | None = None
    low: float | None = None
    high: float | None = None
    bins_low: float = 0.0
    bins_high: float = 0.0
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    share: float | None = None
    channels: tuple[ChannelError, ...] = ()
    channel_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchError:
    """Nodes in a row from a fork or join to the next: signal to error before and behind, their share."""

    first: str
    last: str
    values: int
    to_db: float
    from_db: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberBorder:
    """A QUANTIZE or DEQUANTIZE that is left in the file, and why."""

    op: str
    value: str
    bytes: int
    between: str
    cause: str
    operator: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyReport:
    """All of it. `inputs` has the share of each input's rounding, `shares` how shares were measured."""

    samples: int
    calibration: str
    outputs: tuple[RoundedValue, ...]
    inside: tuple[RoundedValue, ...] = ()
    branches: tuple[BranchError, ...] = ()
    borders: tuple[NumberBorder, ...] = ()
    inputs: Mapping[str, float] = field(default_factory=dict)
    shares: str = ""

    @property
    def ranked(self) -> tuple[RoundedValue, ...]:
        """Values inside, those first that cause most of the end error; else the least accurate."""
        return tuple(sorted(self.inside, key=lambda one: (-(one.share or 0.0), one.sqnr_db)))

    @property
    def ranked_branches(self) -> tuple[BranchError, ...]:
        """Branches in the same order; without shares those first that lose most."""
        return tuple(sorted(self.branches, key=lambda b: (-(b.share or 0.0), -_drop(b))))


def _drop(branch: BranchError) -> float:
    return (MOST_DB if branch.from_db is None else branch.from_db) - branch.to_db


def decibels(number: float | None) -> str:
    """A distance in decibels; one beyond what floats themselves have is exact."""
    if number is None:
        return "exact"
    return "exact" if number >= MOST_DB else f"{number:.1f} dB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Signal to error along the graph: points in a box of 1000 by 200, the ends of the scale in dB."""

    points: str
    low_db: float
    high_db: float
    marks: tuple[tuple[float, float, str], ...]


def along(values: Sequence[RoundedValue], marked: Sequence[RoundedValue]) -> Line | None:
    """The picture of the error along the graph; None for fewer than two values."""
    if len(values) < 2:
        return None
    least = min(one.sqnr_db for one in values)
    most = min(max(one.sqnr_db for one in values), least + SPAN_DB)
    most = max(most, least + FEWEST_DB)

    def place(index: int) -> tuple[float, float]:
        height = (min(values[index].sqnr_db, most) - least) / (most - least)
        return round(1000 * index / (len(values) - 1), 1), round(195 - 190 * height, 1)

    chosen = {id(one) for one in marked}
    marks = [(*place(k), _title(one)) for k, one in enumerate(values) if id(one) in chosen]
    points = " ".join(f"{x:g},{y:g}" for x, y in map(place, range(len(values))))
    return Line(points=points, low_db=least, high_db=most, marks=tuple(marks))


def _title(one: RoundedValue) -> str:
    return f"{quantity.printable(one.op, 30)} {quantity.printable(one.node, 60)}: {decibels(one.sqnr_db)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Elements in bins as two outlines in a box of 480 by 100, and where the scale ends."""

    before: str
    after: str
    low: float | None
    high: float | None


def histogram(one: RoundedValue) -> Histogram | None:
    """The picture of a value's elements as floats and rounded; heights are square roots of counts.

    So the tails can be seen beside the bin of zeros.
    """
    if not one.before or one.bins_high <= one.bins_low:
        return None
    most = max(*one.before, *one.after, 1) ** 0.5

    def end(number: float | None) -> float | None:
        if number is None:
            return None
        place = 480 * (number - one.bins_low) / (one.bins_high - one.bins_low)
        return round(place, 1) if 0 <= place <= 480 else None

    return Histogram(
        before=_outline(one.before, most),
        after=_outline(one.after, most),
        low=end(one.low),
        high=end(one.high),
    )


def _outline(counts: Sequence[int], most: float) -> str:
    """Steps from left to right."""
    wide = 480 / len(counts)
    tops = [f"{100 - 96 * count**0.5 / most:.1f}" for count in counts]
    steps = [f"{k * wide:.1f},{top} {(k + 1) * wide:.1f},{top}" for k, top in enumerate(tops)]
    return " ".join(["0,100", *steps, "480,100"])
