"""Reads a .pte file: its chain of calls and the graphs inside its XNNPACK delegates.

The program's flatbuffer is read by ExecuTorch's own reader, the delegates' by the flatc and schema
of the wheel. Nothing is run.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from executorch.exir._serialize._program import deserialize_pte_binary

from straightway.errors import InvalidModel
from straightway.executorch import flatc
from straightway.executorch.model import first_line
from straightway.executorch.program import (
    NO_HANDLE,
    Delegate,
    Input,
    Instruction,
    ProgramMap,
    XnnNode,
    XnnValue,
)

_XNNPACK_SCHEMA = flatc.PACKAGE / "backends" / "xnnpack" / "serialization" / "schema.fbs"
# XNNHeader.h: magic at byte 4, then header length, offsets and sizes of graph and constants.
_XNN_MAGIC = b"XH00"
_XNN_HEADER = struct.Struct("<HIIIQ")
_XNN_FIELDS_AT = 8
# exir/scalar_type.py names types as C++ does.
_DTYPES = {
    "BYTE": "uint8",
    "CHAR": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "HALF": "float16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BOOL": "bool",
    "BFLOAT16": "bfloat16",
}
_EXTERNAL_INPUT, _EXTERNAL_OUTPUT = 1, 2


def read(data: bytes, subject: str) -> ProgramMap:
    """The map of a program's first method.

    Raises InvalidModel for what is no .pte file, a damaged one, or one of another version.
    """
    program = _program(data, subject)
    plan = program.execution_plan[0]
    return ProgramMap(
        instructions=_instructions(plan),
        delegates=tuple(
            _delegate(number, one, program, subject) for number, one in enumerate(plan.delegates)
        ),
        inputs=tuple(_inputs(plan)),
        outputs=len(plan.outputs),
    )


def _program(data: bytes, subject: str) -> Any:
    if len(data) < 8 or data[4:6] != b"ET":
        raise InvalidModel(f"{subject}: is no ExecuTorch program (no mark 'ET..' at byte 4)")
    if data[4:8] != b"ET12":
        found = data[4:8].decode("ascii", "replace")
        raise InvalidModel(
            f"{subject}: is of version {found}; this ExecuTorch reads ET12: export it again"
        )
    try:
        program = deserialize_pte_binary(data).program
    except Exception as error:  # the reader fails in whatever way the damage leads to
        raise InvalidModel(f"{subject}: the program is damaged: {first_line(error)}") from error
    if not program.execution_plan:
        raise InvalidModel(f"{subject}: the program has no method")
    return program


def _inputs(plan: Any) -> Iterator[Input]:
    for place in plan.inputs:
        tensor = plan.values[place].val
        if not hasattr(tensor, "sizes"):
            continue  # a number
        order = bytes(tensor.dim_order)
        yield Input(
            sizes=tuple(tensor.sizes),
            dtype=_DTYPES.get(tensor.scalar_type.name, tensor.scalar_type.name.lower()),
            channels_last=order == bytes((0, 2, 3, 1)),
        )


def _instructions(plan: Any) -> tuple[Instruction, ...]:
    found = []
    for index, step in enumerate(plan.chains[0].instructions):
        call = step.instr_args
        kind: Literal["kernel", "delegate", "other"] = "other"
        name, delegate = type(call).__name__, None
        if name == "KernelCall":
            operator = plan.operators[call.op_index]
            kind, name = "kernel", f"{operator.name.replace('::', '.')}.{operator.overload}"
        elif name == "DelegateCall":
            kind, delegate = "delegate", call.delegate_index
            name = plan.delegates[call.delegate_index].id
        found.append(Instruction(index=index, kind=kind, name=name, delegate=delegate))
    return tuple(found)


def _delegate(number: int, one: Any, program: Any, subject: str) -> Delegate:
    if one.id != "XnnpackBackend" or one.processed.location.name != "INLINE":
        return Delegate(number=number, backend=one.id)
    blob = bytes(program.backend_delegate_data[one.processed.index].data)
    graph = _xnnpack_graph(blob, f"{subject}, delegate {number}")
    values = tuple(_value(value) for value in graph["xvalues"])
    return Delegate(
        number=number, backend=one.id, nodes=tuple(_nodes(graph["xnodes"])), values=values
    )


def _xnnpack_graph(blob: bytes, subject: str) -> dict[str, Any]:
    if blob[4:8] != _XNN_MAGIC or len(blob) < _XNN_FIELDS_AT + _XNN_HEADER.size:
        raise InvalidModel(f"{subject}: is no XNNPACK graph (no mark {_XNN_MAGIC.decode()})")
    _, offset, size, _, _ = _XNN_HEADER.unpack_from(blob, _XNN_FIELDS_AT)
    if offset + size > len(blob):
        raise InvalidModel(f"{subject}: its graph ends beyond the delegate's {len(blob)} bytes")
    return flatc.decode(blob[offset : offset + size], _XNNPACK_SCHEMA, subject)


def _value(entry: Mapping[str, Any]) -> XnnValue:
    union = entry["xvalue_union"]
    tensor = union.get("tensor_value", union)
    flags = tensor["flags"]
    role: Literal["inside", "input", "output", "constant"] = "inside"
    if flags & _EXTERNAL_INPUT:
        role = "input"
    elif flags & _EXTERNAL_OUTPUT:
        role = "output"
    elif tensor["constant_buffer_idx"]:
        role = "constant"
    return XnnValue(
        id=tensor["id_out"],
        sizes=tuple(tensor.get("dims", ())),
        dtype=str(tensor["datatype"]).removeprefix("xnn_datatype_"),
        role=role,
    )


_INPUTS = (
    "input_id",
    *(f"input{k}_id" for k in range(1, 6)),
    *("query_id", "key_id", "value_id", "scale_id", "mask_id"),
    *("filter_id", "bias_id"),
)
_NO_VALUE = 2**32 - 1


def _nodes(entries: Sequence[Mapping[str, Any]]) -> list[XnnNode]:
    found = []
    for index, entry in enumerate(entries):
        parts = entry["xnode_union"]
        inputs = [parts[key] for key in _INPUTS if parts.get(key, _NO_VALUE) != _NO_VALUE]
        if entry["xnode_union_type"].startswith("XNNConcatenate"):  # absent operands read as 0
            inputs = inputs[: int(entry["xnode_union_type"].removeprefix("XNNConcatenate"))]
        found.append(
            XnnNode(
                index=index,
                kind=entry["xnode_union_type"],
                handle=entry.get("debug_handle", NO_HANDLE),
                inputs=tuple(inputs),
                output=parts.get("output_id", parts.get("output1_id", -1)),
                permutation=tuple(parts.get("perm", ())),
            )
        )
    return found
