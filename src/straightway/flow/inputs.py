"""Seeded inputs of the inputs' kind: images, tokens, masks."""

import math
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from straightway.errors import InvalidRequest
from straightway.flow import told_shapes
from straightway.ir import Graph, Node, Value
from straightway.passes import implied

Arrays = dict[str, np.ndarray]

# What hands token ids on to the lookup that they index.
CARRIERS = {
    "Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Slice",
    "Concat", "Expand", "Gather", "Split", "Where", "Max", "Clip", "Add", "Mul",
}  # fmt: skip
# What only hands numbers on.
MOVES = {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Expand"}
# What takes integers, its second operand, as places in the first.
ALONG_ONE_AXIS = {"Gather", "GatherElements", "ScatterElements", "Scatter"}
SCATTERS = {"ScatterElements", "Scatter", "ScatterND", "MaxUnpool"}
# ids, segments and positions of EmbedLayerNormalization, and the operand whose rows they are
EMBEDDED = {0: 2, 1: 4, 8: 3}
LOOKUPS = ALONG_ONE_AXIS | {"GatherND", "ScatterND"}
# What takes no whole number 0 as its second operand.
DIVISIONS = {"Div", "Mod"}
# What counts places in the whole of its first result.
COUNTED_WHOLE = {"MaxUnpool"}
MOST_STEPS = 400
# what a declared result says of operands that come at run time
TOLD_BY = (implied.sizes, implied.scales, implied.limits, implied.columns, implied.places)
# what zipfile raises for archives that are damaged, encrypted, or packed in a way that it lacks
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, KeyError, RuntimeError)
# What reads so many steps of each sequence as that operand says.
RECURRENT, LENGTHS = {"RNN", "GRU", "LSTM"}, 4
PRODUCTS = {"ReduceProd", "CumProd"}
DEFAULT_LIMIT = 100
MOST_EXACT = 2**53
# a number below this, to a power below this, is an int32
SELF_POWER = 10
# first bytes: of an archive, and of one array (numpy.lib.format: MAGIC_PREFIX)
ARCHIVE, SINGLE_ARRAY = b"PK", b"\x93NUMPY"
HOW_TO_SAVE = "Write it by numpy.savez(path, **{'INPUT': array}), of numbers or truth values"


def pinned_inputs(graph: Graph) -> Arrays:
    """Inputs of one whole number that the model compares with a constant, such as a sampling rate.

    They take that constant: models tell by it which branch they run, and some know no other. Sizes are
    those of the results that the model declares. Ask before the graph is prepared, which may leave one
    branch only, and writes such sizes into it.
    """
    found = {}
    for value in graph.inputs:
        for node, _ in value.uses:
            told = [pair for tell in TOLD_BY for pair in tell(node)]
            found.update({v.name: array for v, array in told if v is value})
        if np.issubdtype(value.dtype, np.integer) and math.prod(value.shape) == 1:
            for node, position in value.uses:
                known = _compared_with(node, position)
                if known is not None:
                    found[value.name] = np.full(value.shape, known, value.dtype)
        sizes = None if value.name in found else told_shapes.told(graph, value)
        if sizes is not None:
            found[value.name] = sizes
    return found


def _compared_with(node: Node, position: int) -> int | None:
    """The one number that operand `position` of an Equal is compared with."""
    other = node.inputs[1 - position] if node.op.name == "Equal" else None
    if other is None:
        return None
    maker = other.producer
    array = other.const
    if maker is not None and maker.op.name == "Constant":
        array = maker.attrs.get("value")
    return int(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def make_inputs(graph: Graph, seed: int, pinned: Arrays | None = None) -> Arrays:
    """Make one array for each input of an ingested graph; `pinned` ones are as they are given.

    Floats are uniform in [0, 1); integers in [0, n) where n is the size of the smallest table that
    they index (100 where none is found); truth values, and integers called masks, mostly true.
    """
    rng = np.random.default_rng(seed)
    made = {value.name: _make(value, rng) for value in graph.inputs}
    return {**made, **(pinned or {})}


def _make(value: Value, rng: np.random.Generator) -> np.ndarray:
    shape, dtype = value.shape, value.dtype
    is_mask = "mask" in value.name.lower()
    if dtype == np.bool_ or (is_mask and np.issubdtype(dtype, np.integer)):
        return np.asarray(rng.random(shape) < 0.75).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        limit = max(min(index_limit(value), int(np.iinfo(dtype).max)), 1)
        least = int(_meets(value, _is_divisor))
        if _is_scattered(value):
            return _distinct(value, limit, rng).astype(dtype)
        return np.asarray(rng.integers(least, max(limit, least + 1), shape)).astype(dtype)
    if _meets(value, _is_hot):
        return np.asarray(rng.integers(0, index_limit(value), shape)).astype(dtype)
    return np.asarray(rng.random(shape)).astype(dtype)


def _is_scattered(value: Value) -> bool:
    """Whether these are places to write to: one that comes twice may hold either number."""
    return any(node.op.name in SCATTERS and position == 1 for node, position in value.uses)


def _meets(value: Value, wanted: Callable[[Node, int], bool]) -> bool:
    """Whether these come, perhaps moved, to such an operand of an operator."""
    waiting, seen = deque([value]), {value}
    while waiting:
        for node, position in waiting.popleft().uses:
            if wanted(node, position):
                return True
            if node.op.name in MOVES:
                fresh = [v for v in node.outputs if v not in seen]
                seen.update(fresh)
                waiting.extend(fresh)
    return False


def _is_hot(node: Node, position: int) -> bool:
    """Whether numbers say which place of many is 1."""
    return node.op.name == "OneHot" and position == 0


def _is_divisor(node: Node, position: int) -> bool:
    """What is divided by, or raised to a negative power."""
    if node.op.name in DIVISIONS:
        return position == 1
    exponent = node.inputs[1] if node.op.name == "Pow" and position == 0 else None
    return exponent is not None and exponent.const is not None and bool((exponent.const < 0).any())


def _distinct(value: Value, limit: int, rng: np.random.Generator) -> np.ndarray:
    """Places below `limit`, none of which comes twice along the axis that they index."""
    shape = value.shape
    node = next(n for n, position in value.uses if n.op.name in SCATTERS and position == 1)
    axis = node.attrs.get("axis", 0)
    if node.op.name not in ALONG_ONE_AXIS or not isinstance(axis, int) or not shape:
        return np.resize(rng.permutation(limit), shape)
    axis %= len(shape)
    rows = [d for k, d in enumerate(shape) if k != axis]
    places = np.broadcast_to(np.arange(max(limit, shape[axis])), [*rows, max(limit, shape[axis])])
    chosen = rng.permuted(places, axis=-1)[..., : shape[axis]] % limit
    return np.moveaxis(chosen, -1, axis)


def within(arrays: Arrays, graph: Graph) -> Arrays:
    """The same, with whole numbers that index something small enough for what the graph has."""
    return {**arrays, **{v.name: _below(v, arrays[v.name]) for v in graph.inputs}}


def _below(value: Value, array: np.ndarray) -> np.ndarray:
    limit = known_limit(value) if np.issubdtype(value.dtype, np.integer) else None
    if limit is None or not array.size or array.max() < limit:
        return array
    return np.asarray(array % max(limit, 1)).astype(array.dtype)


def index_limit(value: Value) -> int:
    """The size of the smallest axis that these integers index; a default where they index none."""
    limit = known_limit(value)
    return DEFAULT_LIMIT if limit is None else limit


def known_limit(value: Value) -> int | None:
    """The size of the smallest axis that these integers index, as far as the graph shows."""
    limit = None
    waiting, seen = deque([value]), {value}
    for _ in range(MOST_STEPS):
        if not waiting:
            break
        current = waiting.popleft()
        for node, position in current.uses:
            found = _indexed(node, position)
            if found is not None:
                limit = found if limit is None else min(limit, found)
            elif node.op.name in CARRIERS:
                fresh = [v for v in node.outputs if v not in seen]
                seen.update(fresh)
                waiting.extend(fresh)
    return limit


def _power_limit(node: Node, position: int) -> int:
    """The least number that makes a power overflow, or onnxruntime round it: it has powers of doubles."""
    value, other = node.inputs[position], node.inputs[1 - position]
    if value is None or other is None or not np.issubdtype(value.dtype, np.integer):
        return DEFAULT_LIMIT
    most = float(min(np.iinfo(value.dtype).max, MOST_EXACT))
    if other.const is None:
        return SELF_POWER
    known = float(other.const.max(initial=1))
    if position == 0:  # negative powers vanish
        return max(int(most ** (1 / known)), 1)
    size = float(np.abs(other.const.astype(np.float64)).max(initial=1))
    return DEFAULT_LIMIT if size <= 1 else max(math.floor(math.log(most, size)), 1)


def _factor_limit(node: Node) -> int:
    """The least number whose product with itself, as often as there are elements, overflows."""
    value = node.inputs[0]
    if value is None or value.type is None or not np.issubdtype(value.dtype, np.integer):
        return DEFAULT_LIMIT
    count = math.prod(size for size in value.type.shape if isinstance(size, int))
    most = float(min(np.iinfo(value.dtype).max, MOST_EXACT))
    return min(int(most ** (1 / max(count, 1))) + 1, DEFAULT_LIMIT)


def _steps(node: Node) -> int:
    """The steps of what a recurrent layer reads."""
    (x, *_), layout = node.inputs, node.attrs.get("layout", 0)
    sizes = x.type.shape if x is not None and x.type is not None else ()
    size = sizes[1 if layout else 0] if len(sizes) > 1 else None
    return size if isinstance(size, int) else DEFAULT_LIMIT


def _indexed(node: Node, position: int) -> int | None:
    """The size of the smallest axis that operand `position` indexes, if it indexes one."""
    if node.op.name == "Pow":
        return _power_limit(node, position)
    if node.op.name in PRODUCTS and position == 0:
        return _factor_limit(node)
    if node.op.name == "OneHot" and position == 0:
        depth = node.inputs[1].const if len(node.inputs) > 1 and node.inputs[1] else None
        return int(depth.reshape(-1)[0]) if depth is not None and depth.size else None
    if node.op.name in RECURRENT and position == LENGTHS:
        return _steps(node) + 1
    if node.op.name in COUNTED_WHOLE and position == 1:
        kind = node.outputs[0].type
        return math.prod(kind.dims) if kind is not None and kind.is_static else None
    if node.op.name == "EmbedLayerNormalization":
        place = EMBEDDED.get(position, len(node.inputs))
    elif node.op.name in LOOKUPS and position == 1:
        place = 0
    else:
        return None
    table = node.inputs[place] if place < len(node.inputs) else None
    if table is None or table.type is None or not table.type.shape:
        return None
    shape, axis = table.type.shape, node.attrs.get("axis", 0)
    if node.op.name in LOOKUPS - ALONG_ONE_AXIS:
        sizes = [size for size in shape if isinstance(size, int)]
        return min(sizes, default=None)
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return None  # the operator's own rules refuse it later
    size = shape[axis]
    return size if isinstance(size, int) else None


def read_arrays(path: Path) -> Mapping[str, np.ndarray]:
    """Read an .npz file; raises InvalidRequest for anything else."""
    try:
        with path.open("rb") as file:
            head = file.read(len(SINGLE_ARRAY))
            if not head.startswith(ARCHIVE):
                single = head == SINGLE_ARRAY
                what = "it is one array (.npy), without a name" if single else f"it begins {head!r}"
                raise InvalidRequest(f"{path}: is no .npz file of arrays: {what}. {HOW_TO_SAVE}")
            file.seek(0)
            with np.load(file, allow_pickle=False) as data:
                return {name: _plain_array(path, data, name) for name in data.files}
    except FileNotFoundError as error:
        raise InvalidRequest(f"{path}: there is no such file") from error
    except OSError as error:
        raise InvalidRequest(f"{path}: cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise InvalidRequest(
            f"{path}: its arrays do not fit in the memory of this machine: {error}"
        ) from error
    except (ValueError, EOFError, TypeError, *BROKEN_ARCHIVE) as error:
        raise InvalidRequest(
            f"{path}: is no .npz file of arrays, or is damaged. {HOW_TO_SAVE}"
        ) from error


def _plain_array(path: Path, data: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """One array of the archive; what is no array, or holds Python objects, is refused."""
    try:
        array = data[name]
    except ValueError as error:
        raise InvalidRequest(
            f"{path}: '{name}' holds Python objects, which are never unpickled, or is damaged. "
            f"{HOW_TO_SAVE}"
        ) from error
    if not isinstance(array, np.ndarray):
        raise InvalidRequest(f"{path}: '{name}' is no array. {HOW_TO_SAVE}")
    return array


def load_inputs(path: Path, graph: Graph) -> Arrays:
    """Read inputs from an .npz file: one array for each input, by name.

    Raises InvalidRequest where one is missing or has another shape or type.
    """
    found = read_arrays(path)
    for value in graph.inputs:
        array = found.get(value.name)
        if array is None:
            raise InvalidRequest(f"{path}: lacks '{value.name}'; it holds {sorted(found)}")
        if array.shape != value.shape or array.dtype != value.dtype:
            raise InvalidRequest(
                f"{path}: '{value.name}' is {array.dtype}{list(array.shape)}; "
                f"the model takes {value.dtype}{list(value.shape)}"
            )
    return {value.name: found[value.name] for value in graph.inputs}
