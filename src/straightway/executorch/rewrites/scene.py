"""What a rewrite works on: a program's graph before it is lowered, with ATen operators."""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves, tree_map_only

from straightway.errors import Bug
from straightway.executorch.origins import source_of
from straightway.ir.source import Source

aten = torch.ops.aten
# In what torch.export keeps of a node as its author's own ("custom"): it stays in floats.
_IN_FLOATS = "straightway_in_floats"


def is_quantizable(node: torch.fx.Node) -> bool:
    """Whether no rewrite wrote it as part of something that is computed in floats."""
    return not (node.meta.get("custom") or {}).get(_IN_FLOATS, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One place that a rewrite changed: the node, its line, and what was done."""

    rewrite: str
    node: str
    source: Source
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A rewrite: `apply` changes a scene in place and says where.

    `safety` is "exact" where the same numbers come out but for the order of summation, "interface"
    where the caller has to give inputs in another form. `advice` is the change to make in the
    model's own source, `title` says in a few words what the rewrite does.
    """

    name: str
    title: str
    advice: str
    safety: Literal["exact", "interface"]
    apply: Callable[["Scene"], Iterator[Change]]


class Scene:
    """A graph module under change, and the values that its nodes had when it was exported."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self.graph = module.graph
        # inputs that are to be given so, by the names of their placeholders
        self.channels_last: set[str] = set()
        self._constants = 0

    def calls(self, *targets: Any) -> list[torch.fx.Node]:
        """The nodes that call one of these operators, in order."""
        return [n for n in self.graph.nodes if n.op == "call_function" and n.target in targets]

    def shape(self, node: torch.fx.Node) -> tuple[int, ...] | None:
        """The node's shape, None where a dimension is open or it is no tensor."""
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        if any(not isinstance(size, int) for size in value.shape):
            return None
        return tuple(int(size) for size in value.shape)

    def dims(self, node: torch.fx.Node) -> tuple[Any, ...]:
        """The node's shape; of an open dimension torch's expression, equal where the sizes are.

        () where it is no tensor.
        """
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return ()
        return tuple(size if isinstance(size, int) else size.node.expr for size in value.shape)

    def sizes(self, node: torch.fx.Node) -> tuple[int, ...] | None:
        """The node's shape as a reshape takes it: -1 for the one dimension that is open.

        None where several are, or it is no tensor.
        """
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        found = tuple(size if isinstance(size, int) else -1 for size in value.shape)
        return found if found.count(-1) < 2 else None

    def rank(self, node: torch.fx.Node) -> int:
        """How many dimensions it has."""
        return int(node.meta["val"].dim())

    def dtype(self, node: torch.fx.Node) -> torch.dtype:
        """Its type."""
        found: torch.dtype = node.meta["val"].dtype
        return found

    def constant(self, node: Any) -> torch.Tensor | None:
        """The tensor of a parameter or buffer; None for anything else."""
        if not isinstance(node, torch.fx.Node) or node.op != "get_attr":
            return None
        found: Any = self.module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        return found.detach() if isinstance(found, torch.Tensor) else None

    def new_constant(self, value: torch.Tensor, near: torch.fx.Node) -> torch.fx.Node:
        """A node for a new buffer; it stands before `near`."""
        name = f"_straightway_{self._constants}"
        while hasattr(self.module, name):
            self._constants += 1
            name = f"_straightway_{self._constants}"
        self.module.register_buffer(name, value.detach().clone().contiguous())
        with self.graph.inserting_before(near):
            node = self.graph.get_attr(name)
        node.meta["val"] = value.detach()
        return node

    def writer(
        self, at: torch.fx.Node, *, origin: torch.fx.Node | None = None, in_floats: bool = False
    ) -> "Writer":
        """Writes nodes before `at` that stand for `origin` (or it); `in_floats`: none is quantized."""
        return Writer(self, at, origin or at, in_floats=in_floats)

    def only_user(self, node: torch.fx.Node) -> torch.fx.Node | None:
        """The one node that reads it."""
        users = list(node.users)
        return users[0] if len(users) == 1 else None

    def replace(self, old: torch.fx.Node, new: torch.fx.Node) -> None:
        """All readers of `old` read `new`."""
        old.replace_all_uses_with(new)
        self.graph.erase_node(old)

    def drop(self, node: torch.fx.Node) -> None:
        """Take away a call that nobody reads, and those that only it read.

        torch keeps some that it takes for random, attention among them.
        """
        waiting, gone = [node], set()
        while waiting:
            one = waiting.pop()
            if one.op == "call_function" and not one.users and one not in gone:
                waiting += one.all_input_nodes
                gone.add(one)
                self.graph.erase_node(one)

    def changed(self, rewrite: str, node: torch.fx.Node, text: str) -> Change:
        """What to tell of a node, before it is erased."""
        return Change(rewrite=rewrite, node=node.name, source=source_of(node), text=text)


def together(sizes: Sequence[int]) -> int:
    """How large several dimensions are as one: open where one of them is."""
    return -1 if -1 in sizes else math.prod(sizes)


class Writer:
    """Writes calls before a node; each has a node's origin, and a value from its operands'."""

    def __init__(
        self, scene: Scene, at: torch.fx.Node, origin: torch.fx.Node, *, in_floats: bool
    ) -> None:
        self._scene = scene
        self._at = at
        kept = {"stack_trace", "nn_module_stack", "source_fn_stack", "from_node"}
        self._meta = {key: value for key, value in origin.meta.items() if key in kept}
        if in_floats:
            self._meta["custom"] = {_IN_FLOATS: True}

    def __call__(self, target: Any, *args: Any, **keywords: Any) -> torch.fx.Node:
        """A call of an operator."""
        graph = self._scene.graph
        with graph.inserting_before(self._at):
            node = graph.call_function(target, args, keywords)
        node.meta = dict(self._meta)
        node.meta["val"] = self._value(target, args, keywords)
        return node

    def constant(self, value: torch.Tensor) -> torch.fx.Node:
        """A new buffer."""
        return self._scene.new_constant(value, self._at)

    def _value(self, target: Any, args: Any, keywords: Any) -> Any:
        def real(one: Any) -> Any:
            return one.meta["val"] if isinstance(one, torch.fx.Node) else one

        mode = _mode_of([real(one) for one in _leaves((args, keywords))])
        with mode if mode is not None else torch.no_grad():
            given = tree_map_only(torch.fx.Node, real, (args, keywords))
            given = tree_map_only(torch.Tensor, lambda one: _fake(one, mode), given)
            try:
                return target(*given[0], **given[1])
            except (RuntimeError, TypeError, ValueError) as error:
                raise Bug(
                    f"a rewrite wrote {target} with operands that do not fit: {error}"
                ) from error


def _leaves(tree: Any) -> list[Any]:
    return list(tree_leaves(tree))


def _mode_of(values: Sequence[Any]) -> Any:
    return next((one.fake_mode for one in values if hasattr(one, "fake_mode")), None)


def _fake(tensor: torch.Tensor, mode: Any) -> torch.Tensor:
    if mode is None or hasattr(tensor, "fake_mode"):
        return tensor
    made: torch.Tensor = mode.from_tensor(tensor, static_shapes=True)
    return made


def is_mutable(node: torch.fx.Node) -> bool:
    """Whether it writes to an operand; detach_ says so of itself, and does not."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or node.target is aten.detach_.default:
        return False
    return bool(schema.is_mutable)


def keeps_state(program: ExportedProgram) -> bool:
    """Whether it writes to buffers of its own, so that one run changes the next."""
    signature = program.graph_signature
    if signature.buffers_to_mutate:
        return True
    for node in program.graph.nodes:
        if is_mutable(node):
            written = node.args[0]
            while written.op == "call_function" and _is_view(written):
                written = written.args[0]
            if written.name in signature.inputs_to_buffers:
                return True
    return False


def _functional(program: ExportedProgram) -> ExportedProgram:
    """Without writes to parts of tensors or to what others read: rewrites take values for values."""
    for node in program.graph.nodes:
        if is_mutable(node):
            written = node.args[0]
            if len(written.users) > 1 or _is_view(written):
                return program.run_decompositions({})
    return program


def _is_view(node: torch.fx.Node) -> bool:
    """Whether it may share its operand's memory."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(one.alias_info is not None for one in schema.arguments)


def changes_of(program: ExportedProgram, rewrites: Sequence[Rewrite]) -> tuple[Change, ...]:
    """Where rewrites would change a program."""
    scene = Scene(_functional(program).module(check_guards=False))
    return tuple(change for rewrite in rewrites for change in rewrite.apply(scene))


def rewritten(
    program: ExportedProgram, rewrites: Sequence[Rewrite], *, dynamic_shapes: Any = None
) -> tuple[ExportedProgram, tuple[Change, ...]]:
    """Apply rewrites in order to a program; the program itself stays as it is.

    The result is exported anew, so that its shapes are torch's own.
    """
    module = _functional(program).module(check_guards=False)
    scene = Scene(module)
    changes: list[Change] = []
    for rewrite in rewrites:
        changes += list(rewrite.apply(scene))
    if not changes:
        return program, ()
    scene.graph.eliminate_dead_code()
    scene.graph.lint()
    module.recompile()
    with torch.no_grad():
        again = torch.export.export(
            module, _arguments(program, scene), dynamic_shapes=dynamic_shapes, strict=False
        )
    return again, tuple(changes)


def _arguments(program: ExportedProgram, scene: Scene) -> tuple[Any, ...]:
    """The example inputs, stored as a rewrite wants them."""
    arguments, _ = program.example_inputs or ((), {})
    names = [node.name for node in scene.graph.nodes if node.op == "placeholder"]
    return tuple(
        one.contiguous(memory_format=torch.channels_last) if name in scene.channels_last else one
        for name, one in zip(names, arguments, strict=True)
    )


def parts_of(node: torch.fx.Node) -> dict[int, torch.fx.Node]:
    """The getitem readers of a tuple by index."""
    return {
        int(user.args[1]): user
        for user in node.users
        if user.op == "call_function" and user.target is operator.getitem
    }
