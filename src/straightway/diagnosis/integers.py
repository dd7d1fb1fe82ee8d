"""What runs in floats among 8-bit integers, and the conversions around it."""

from straightway.diagnosis.case import Case

_FLOATS = {"fp32", "fp16"}
_QUANTIZED = {"qint8", "quint8"}


def computes_in_floats(case: Case, place: int) -> bool:
    """Whether a delegate that holds 8-bit activations computes an operator in floats."""
    found = False
    for number, node in case.nodes(place):
        if node.is_transpose or node.kind == "XNNConvert":
            continue
        delegate = case.program.delegates[number]
        if not any(v.dtype in _QUANTIZED and v.role != "constant" for v in delegate.values):
            return False
        result = delegate.value(node.output)
        if result is None or result.dtype not in _FLOATS:
            return False
        found = True
    return found


def conversions_around(case: Case, place: int) -> tuple[int, ...]:
    """The measured conversions of type of an operator, its operands and its results."""
    near = [*case.ops[place].feeds_on, *case.readers(place)]
    beyond = [k for one in near for k in (*case.ops[one].feeds_on, *case.readers(one))]
    own = case.ops[place].partition
    quantizing = [
        k
        for k in dict.fromkeys([*near, *beyond])
        if "quantize" in case.name(k)
        and any(case.ops[m].partition == own for m in case.ops[k].feeds_on)
    ]
    return tuple(
        event.id
        for one in (place, *quantizing)
        for event in case.own(one)
        if event.category == "type conversion"
    )
