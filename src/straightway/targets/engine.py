"""What an engine's kernels compute with: op by op the element types, and where that is from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from straightway.ir import Node, Value
from straightway.tflite.rows import ROWS
from straightway.tflite.rows.row import types

FLOAT32 = np.dtype(np.float32)
Types = frozenset[np.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One op on one engine.

    `types`: element types of the data operand that it computes with; `quantized`: those that it takes
    with a scale and a zero point. `results` and `places`: types of what it gives and of its indices,
    where not all fit. `broadcast_rank`: the most dimensions where operands differ in shape. `constant`:
    the operand of a file that must be one. `same_scale`: operand and result share one. `data`: the
    position of the data operand in a file, where it is not the row's.
    """

    types: Types
    quantized: Types
    source: str
    results: Types = frozenset()
    places: Types = frozenset()
    max_rank: int = 8
    broadcast_rank: int = 8
    constant: int | None = None
    same_scale: bool = False
    data: int | None = None

    def fault(self, node: Node, data: Value) -> str:
        """What of a node it does not compute with, or ""."""
        scaled = data.quant is not None and data.dtype.kind != "f"
        known = self.quantized if scaled else self.types
        result = node.outputs[0] if node.outputs else data
        index = node.inputs[0 if ROWS[node.op.name].data else 1] if self.places else None
        given = [v for v in node.operands() if v.quant is not None and v.dtype.kind in "iu"]
        if data.dtype not in known:
            return f"takes {_listed(known)}{' with a scale' * scaled}; got {data.dtype}"
        if index is not None and index.dtype not in self.places:
            return f"takes indices of {_listed(self.places)}; got {index.dtype}"
        if self.results and result.dtype not in self.results:
            return f"gives {_listed(self.results)}; the model asks for {result.dtype}"
        rank = max((v.rank for v in (data, *node.outputs)), default=0)
        shapes = {v.shape for v in (*node.operands(), *node.outputs)}
        most = self.broadcast_rank if len(shapes) > 1 else self.max_rank
        if rank > min(most, self.max_rank):
            return f"takes up to {min(most, self.max_rank)} dimensions; got {rank}"
        if self.same_scale and scaled and _scheme(data) != _scheme(result):
            return "gives its operand's scale, whatever the file says"
        if data.dtype == FLOAT32 and ROWS[node.op.name].quant == "weights" and given:
            return f"multiplies floats with float weights; got {given[0].dtype}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """All kernels of an engine, by the ops' names; `folder` is where their sources stand."""

    name: str
    folder: str
    registered: str
    kernels: Mapping[str, Kernel] = field(default_factory=dict)

    def fault(self, node: Node, *, written: bool) -> str:
        """Why it can't run a node, or ""; `written`: its operands are those of a file."""
        name = node.op.name
        kernel = self.kernels.get(name)
        if kernel is None:
            return f"{self.name} has no {name} ({self.registered})"
        data = _data(node, kernel, written=written)
        held = node.inputs[kernel.constant] if written and kernel.constant is not None else None
        if held is not None and held.const is None:
            return (
                f"{self.name}'s {name} gives a size that is known before "
                f"({self.folder}/{kernel.source})"
            )
        found = "" if data is None else kernel.fault(node, data)
        return f"{self.name}'s {name} {found} ({self.folder}/{kernel.source})" if found else ""

    def described(self) -> dict[str, object]:
        """Ops and types, as plain data."""
        listed = {
            name: {
                "types": _names(kernel.types),
                "quantized": _names(kernel.quantized),
                "source": f"{self.folder}/{kernel.source}",
            }
            for name, kernel in self.kernels.items()
        }
        return {"name": self.name, "kernels": listed}


def _data(node: Node, kernel: Kernel, *, written: bool) -> Value | None:
    """The operand that the types are of; constants that hold attributes stand before it in files."""
    row = ROWS[node.op.name]
    place = row.data
    if written:
        for position in sorted(a.operand for a in row.attrs.values() if a.operand is not None):
            place += position <= place
        place = place if kernel.data is None else kernel.data
    return node.inputs[place] if place < len(node.inputs) else None


def _scheme(value: Value) -> tuple[float, int] | None:
    if value.quant is None:
        return None
    return float(np.ravel(value.quant.scale)[0]), int(np.ravel(value.quant.zero_point)[0])


def _names(dtypes: Iterable[np.dtype]) -> list[str]:
    return sorted(str(dtype) for dtype in dtypes)


def _listed(dtypes: Iterable[np.dtype]) -> str:
    return ", ".join(_names(dtypes)) or "none"


def table(text: str) -> dict[str, Kernel]:
    """Read kernels: name, types, types with a scale, source, limits, with | between them."""
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, plain, scaled, source, *limits = (part.strip() for part in line.split("|"))
        told = dict(one.split("=") for one in " ".join(limits).split())
        found[name] = Kernel(
            types=types(plain),
            quantized=types(scaled),
            source=source,
            results=types(told.get("results", "").replace(",", " ")),
            places=types(told.get("places", "").replace(",", " ")),
            max_rank=int(told.get("rank", 8)),
            broadcast_rank=int(told.get("broadcast", 8)),
            constant=int(told["constant"]) if "constant" in told else None,
            same_scale="scale" in told,
            data=int(told["data"]) if "data" in told else None,
        )
    return found
