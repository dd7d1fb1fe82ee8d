"""From an exported program to a .pte file for XNNPACK, and an account of every operator in it."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS
from executorch.backends.xnnpack.partition.config.gemm_configs import LinearConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.utils import WhyNoPartition
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, OutputKind

from straightway.errors import Bug, Unsupported
from straightway.executorch import pte
from straightway.executorch.lines import user_line
from straightway.executorch.model import first_line
from straightway.executorch.origins import source_of, target_name
from straightway.executorch.products import Products
from straightway.executorch.program import EdgeOp, Instruction, ProgramMap, Shape

_REASONS_LOGGER = "executorch.backends.xnnpack.partition"
CONFIGURATIONS = tuple(one.__name__ for one in ALL_PARTITIONER_CONFIGS)
# What a view becomes where memory planning can't elide it (exir/passes/replace_view_copy_with_view_pass.py).
_OPEN_VIEW = "executorch_prim.et_view.default"
_SMALL_STATE_BYTES = 1 << 20
_VOLUME_RANK = 5
_DELEGATE_CALL = "executorch_call_delegate"
# Places of operators, one for each part of a tuple.
Made = tuple["int | Made", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A program's bytes and map; `manager` is what ExecuTorch's own tools join traces by.

    `written` are the places of inputs that it changes and returns, before its results.
    """

    data: bytes
    map: ProgramMap
    written: tuple[int, ...] = ()
    manager: Any = None


def lower(
    program: ExportedProgram,
    subject: str,
    *,
    without: Sequence[str] = (),
    products: bool = False,
    etrecord: bool = False,
) -> Lowered:
    """Lower to ExecuTorch with all that XNNPACK's partitioner takes.

    `without` names partitioner configurations to leave out ("BatchNormConfig"); `products`: linear
    layers whose weights are computed are taken, too, as rewrites write them. One partitioner takes
    dynamically quantized products, too: ExecuTorch's own recipe with a partitioner of their own gives
    each a partition (30 where 6 do). Raises Unsupported with torch's reason where the lowering fails.
    """
    configs = [one for one in ALL_PARTITIONER_CONFIGS if one.__name__ not in without]
    if products:
        configs = [Products if one is LinearConfig else one for one in configs]
    with _reasons() as reasons:
        try:
            edge = to_edge_transform_and_lower(
                program,
                partitioner=[XnnpackPartitioner(configs=configs)],
                compile_config=EdgeCompileConfig(_check_ir_validity=False),
                generate_etrecord=etrecord,
            )
            states = InitializedMutableBufferPass(_states(edge.exported_program()))
            manager = edge.to_executorch(ExecutorchBackendConfig(passes=[states]))
        except Exception as error:  # whatever a pass of ExecuTorch fails with
            place = user_line(error) or _named_line(program, str(error))
            at = f" (at {place})" if place else ""
            raise Unsupported(
                f"{subject}: ExecuTorch can't lower it: {_failed(error)}{at}{_helps(error)}"
            ) from error
    data = bytes(manager.buffer)
    read = pte.read(data, subject)
    account = _Account(read, reasons)
    account.add(manager.exported_program())
    _check_kernels(account.ops, subject)
    return Lowered(
        data=data,
        map=replace(read, ops=tuple(account.ops)),
        written=_written(manager.exported_program().graph_signature),
        manager=manager,
    )


def _written(signature: ExportGraphSignature) -> tuple[int, ...]:
    """The places of inputs that are changed, in the order of the outputs that say so."""
    names = list(signature.user_inputs)
    return tuple(
        names.index(one.target)
        for one in signature.output_specs
        if one.kind is OutputKind.USER_INPUT_MUTATION
    )


def drawn(ops: Sequence[EdgeOp]) -> EdgeOp | None:
    """The first operator that draws random numbers."""
    for op in ops:
        packet = getattr(torch.ops.aten, op.target.partition(".")[0], None)
        overloads = packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ()  # noqa: SLF001 - its name
        if any(torch.Tag.nondeterministic_seeded in getattr(packet, one).tags for one in overloads):
            return op
    return None


def _check_kernels(ops: Sequence[EdgeOp], subject: str) -> None:
    """Raise Unsupported for what has a kernel by name, which fails as it runs."""
    deep = [
        op
        for op in ops
        if op.partition is None
        and op.target.startswith("convolution")
        and any(len(shape.sizes) == _VOLUME_RANK for shape in op.inputs)
    ]
    if deep:
        # check_convolution_args in kernels/portable/cpu/util/kernel_ops_util.cpp
        raise Unsupported(
            f"{subject}: ExecuTorch's convolution takes one or two dimensions beside batch and "
            f"channels; got three at {deep[0].source}: write it as convolutions over two"
        )

    places = [op for op in ops if op.partition is None and op.target.startswith("nonzero")]
    if places:
        # torch says that the places are stored by dimension; kernels/portable/cpu/op_nonzero.cpp
        # writes them by element
        raise Unsupported(
            f"{subject}: ExecuTorch's nonzero stores places in another order than it says, at "
            f"{places[0].source}: select by the mask itself (x[mask]), or keep sizes that do not depend "
            "on data (torch.where(mask, x, 0))"
        )


def _failed(error: BaseException) -> str:
    """What failed; where that is a pass that failed, why."""
    cause = error.__cause__
    inner = f": {_failed(cause)}" if cause is not None else ""
    return f"{type(error).__name__}: {first_line(error)}{inner}"


_REMEDIES = (
    ("while_loop", "write a loop of known length out, or run it around the program"),
    ("in strides is not supported", "ExecuTorch takes dense tensors alone: leave out to_sparse"),
)


def _helps(error: BaseException) -> str:
    said = _failed(error)
    found = next((remedy for sign, remedy in _REMEDIES if sign in said), "")
    return f"\n  what usually helps: {found}" if found else ""


def _named_line(program: ExportedProgram, said: str) -> str:
    """The line of the first operator that a message names, else of one whose result is not dense."""
    for node in program.graph.nodes:
        if node.op == "call_function" and re.search(rf"\b{re.escape(_name(node))}\b", said):
            return str(source_of(node))
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout != torch.strided:
            return str(source_of(node))
    return ""


def _states(program: ExportedProgram) -> list[str]:
    """Placeholders of buffers that the program changes, and whose first values it has to hold.

    ExecuTorch leaves what they hold at first to the memory that it is given, mostly zeros; a large
    cache of zeros is left to it.
    """
    signature = program.graph_signature
    return [
        name
        for name in _mutated(signature)
        for value in [program.state_dict.get(signature.inputs_to_buffers[name])]
        if value is not None and (value.nbytes <= _SMALL_STATE_BYTES or bool(value.any()))
    ]


class _Collector(logging.Handler):
    """Keeps what the partitioner says of each node that it leaves: the message is the fact."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        said = record.msg
        if isinstance(said, WhyNoPartition) and said.node is not None:
            self.found.setdefault(said.node.name, said.reason)


@contextmanager
def _reasons() -> Iterator[Mapping[str, str]]:
    """By node name: why the partitioner did not take it."""
    collector = _Collector()
    loggers = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if name.startswith(_REASONS_LOGGER) and isinstance(logger, logging.Logger)
    ]
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(collector)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    try:
        yield collector.found
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(collector)
            logger.setLevel(level)
            logger.propagate = propagate


class _Account:
    """The operators in order, of the chain and inside each delegate where it is called.

    `made` says which operator each value comes from: an operator's place, or for a tuple of a
    delegate the places of its parts.
    """

    def __init__(self, read: ProgramMap, reasons: Mapping[str, str]) -> None:
        self.ops: list[EdgeOp] = []
        self._reasons = reasons
        self._steps = [one for one in read.instructions if one.kind != "other"]
        self._made: dict[torch.fx.Node, Made] = {}
        self._varying: set[torch.fx.Node] = set()

    def add(self, program: ExportedProgram) -> None:
        """Take in the program's own graph."""
        module, signature = program.graph_module, program.graph_signature
        varying = {*signature.user_inputs, *_mutated(signature)}
        self._varying |= {n for n in module.graph.nodes if n.name in varying}
        for node in module.graph.nodes:
            if node.op == "output":
                self._mark_results(node)
            if node.op != "call_function" or _name(node) == "alloc":
                continue
            if _name(node) == "getitem":
                made = self._made.get(node.args[0], ())
                place = int(node.args[1])
                part = made[place] if place < len(made) else made[:1]
                self._made[node] = part if isinstance(part, tuple) else (part,)
                places = self._of(node)
                if not places or not all(self.ops[place].is_constant for place in places):
                    self._varying.add(node)
            elif _name(node) == _DELEGATE_CALL:
                self._call(module, node)
            elif _is_view(node):
                self._vary(node)
                if self._steps and self._steps[0].name == _OPEN_VIEW:
                    self._take(node, None, self._step("kernel").index, "a view whose size is open")
                else:
                    self._made[node] = self._of(node.all_input_nodes[0])
            else:
                step = self._step("kernel").index
                self._vary(node)
                self._take(node, None, step, _why(node, self._reasons))
                for results in node.kwargs.values():  # parts of a list are read where it lies
                    if isinstance(results, torch.fx.Node) and _name(results) == "alloc":
                        self._made.setdefault(results, self._made[node])

    def _call(self, module: torch.fx.GraphModule, node: torch.fx.Node) -> None:
        step = self._step("delegate")
        program = getattr(module, node.args[0].target).original_module
        given = iter(node.args[1:])
        names = set(program.graph_signature.user_inputs)
        for inner in program.graph_module.graph.nodes:
            if inner.op == "placeholder" and inner.name in names:
                outer = next(given, None)
                if isinstance(outer, torch.fx.Node):
                    self._made[inner] = self._of(outer)
                    if outer in self._varying:
                        self._varying.add(inner)
                continue
            self._vary(inner)
            if inner.op == "call_function" and _name(inner) == "getitem":
                self._made[inner] = self._of(inner.args[0])
            elif inner.op == "call_function":
                self._take(inner, step.delegate, step.index, "")
            elif inner.op == "output":
                self._made[node] = tuple(self._of(one) for one in inner.args[0])

    def _step(self, kind: str) -> Instruction:
        """The next step of a kind; raises Bug where graph and chain don't agree."""
        if not self._steps or self._steps[0].kind != kind:
            found = self._steps[0].name if self._steps else "the end"
            raise Bug(f"a {kind} of the lowered graph meets {found} in the program's chain")
        return self._steps.pop(0)

    def _vary(self, node: torch.fx.Node) -> None:
        """What reads anything that varies varies."""
        if not self._varying.isdisjoint(node.all_input_nodes):
            self._varying.add(node)

    def _mark_results(self, output: torch.fx.Node) -> None:
        for place in {place for node in output.all_input_nodes for place in self._of(node)}:
            self.ops[place] = replace(self.ops[place], is_result=True)

    def _take(self, node: torch.fx.Node, delegate: int | None, step: int, reason: str) -> None:
        feeds = sorted({place for one in node.all_input_nodes for place in self._of(one)})
        self._made[node] = (len(self.ops),)
        self.ops.append(
            EdgeOp(
                name=node.name,
                target=target_name(node),
                handle=_handle(node),
                partition=delegate,
                instruction=step,
                reason=reason,
                inputs=tuple(
                    shape for one in node.all_input_nodes for shape in _shapes(one.meta.get("val"))
                ),
                outputs=tuple(_shapes(node.meta.get("val"))),
                feeds_on=tuple(feeds),
                source=source_of(node),
                is_constant=node not in self._varying,
            )
        )

    def _of(self, node: torch.fx.Node) -> tuple[int, ...]:
        """The places of the operators that a value comes from."""
        return tuple(_flat(self._made.get(node, ())))


def _mutated(signature: ExportGraphSignature) -> set[str]:
    """The names of placeholders of buffers that the program changes as it runs."""
    changed = set(signature.buffers_to_mutate.values())
    return {name for name, kept in signature.inputs_to_buffers.items() if kept in changed}


def _flat(made: "Made | int") -> Iterator[int]:
    if isinstance(made, int):
        yield made
        return
    for one in made:
        yield from _flat(one)


def _name(node: torch.fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _is_view(node: torch.fx.Node) -> bool:
    """Views of planned memory are elided: they are no step of the chain."""
    return "memory.view" in str(node.target) or _name(node) == "view"


def _why(node: torch.fx.Node, reasons: Mapping[str, str]) -> str:
    said = reasons.get(node.name)
    if said:
        return said
    base = target_name(node).split(".")
    names = {config.target_name.split(".")[0] for config in ALL_PARTITIONER_CONFIGS}
    if len(base) > 1 and base[1] not in names:
        return "XNNPACK's partitioner has no rule for it"
    return "XNNPACK's partitioner has a rule for it, whose conditions it does not meet"


def _handle(node: torch.fx.Node) -> int:
    handle = node.meta.get("debug_handle", -1)
    return handle if isinstance(handle, int) else -1


def _shapes(value: Any) -> list[Shape]:
    if isinstance(value, torch.Tensor):
        sizes = tuple(_size(one) for one in value.shape)
        return [Shape(sizes=sizes, dtype=str(value.dtype).removeprefix("torch."))]
    if isinstance(value, (tuple, list)):
        return [shape for one in value for shape in _shapes(one)]
    return []


def _size(given: Any) -> int:
    """A size, or what an open one was at the example inputs; 0 where only the data tell."""
    return given if isinstance(given, int) else int(given.node.hint or 0)
