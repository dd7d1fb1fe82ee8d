"""The cases that declarations carry, as nodes with operands of given element types."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from straightway.lower.declare import Case, Lowering, Runtime
from straightway.onnx_io.schema import schema
from straightway.onnx_io.single import SingleNode

NEWEST = 21
"""The opset of a case that names none: the newest that onnxruntime runs everywhere."""
SEED = 7
Retype = Callable[[str, np.ndarray], np.ndarray]


def as_it_is(_: str, array: np.ndarray) -> np.ndarray:
    """Leave an operand's elements as they are."""
    return array


def single(lowering: Lowering, case: Case, retype: Retype = as_it_is) -> SingleNode:
    """Make the node of a case by the operator's official schema.

    Operands go by their names there, or by those of the declaration. The opset of a case is that of
    the operator's domain. `retype` is given the schema's name of each operand's type,
    "" where there is none, and its elements.
    """
    is_own = lowering.op.dialect != "onnx"
    op = replace(lowering.op, version=case.opset or (1 if is_own else NEWEST))
    own = [p.name for p in lowering.parameters if p.kind != p.KEYWORD_ONLY]
    operands = [
        p.name for p in lowering.parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)
    ]
    found = None if is_own else schema(op)
    names = operands if found is None else list(found.inputs)
    kinds = dict(zip(found.inputs, found.operand_types, strict=True)) if found is not None else {}
    attrs = dict(case.arguments)
    maker = _Maker(retype)
    groups = []
    for name, parameter in zip_longest(names, own[: len(names)], fillvalue=""):
        keys = [key for key in attrs if key.lower() in (name.lower(), parameter)]
        groups.append(
            [*maker.operands(name, kinds.get(name, ""), attrs.pop(keys[0]) if keys else None)]
        )
    given = [one for group in groups for one in group]
    while given and not given[-1]:
        given.pop()
    unknown = set(attrs) - set(found.defaults) if found is not None else set()
    if unknown:
        raise ValueError(f"{op} has no {sorted(unknown)}: it has {names}")
    return SingleNode(
        op=op,
        operands=given,
        results=[f"y{k}" for k in range(case.outputs)],
        attrs=attrs,
        feeds=maker.feeds,
        constants=maker.constants,
        opset=NEWEST if is_own else op.version,
    )


class _Maker:
    """Turns the operands of a case into inputs and constants."""

    def __init__(self, retype: Retype) -> None:
        self.random = np.random.default_rng(SEED)
        self.retype = retype
        self.feeds: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}

    def operands(self, name: str, kind: str, given: Any) -> Iterator[str]:
        """Names of the values that one operand becomes; "" for an absent one."""
        if not isinstance(given, list):
            yield self.one(name, kind, given)
            return
        for k, part in enumerate(given):
            yield self.one(f"{name}_{k}", kind, part)

    def one(self, name: str, kind: str, given: Any) -> str:
        """Make one value."""
        if given is None:
            return ""
        if isinstance(given, Runtime):
            self.feeds[name] = self.retype(kind, given.array)
        elif isinstance(given, np.ndarray):
            self.constants[name] = self.retype(kind, given)
        else:
            array = self.random.standard_normal(given).astype(np.float32)
            self.feeds[name] = self.retype(kind, array)
        return name
