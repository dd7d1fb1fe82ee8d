"""Shape functions of TFLite's ops, in the dimension order of the user's model."""

import math
from typing import Any

import numpy as np

from straightway.ir import Node, TensorType, Value


def typed(dtype: np.dtype | type, *shape: int) -> TensorType:
    """Make a static type."""
    return TensorType(dtype=np.dtype(dtype), shape=shape)


def operand(node: Node, index: int) -> Value:
    """Return operand `index`; raises ValueError where it is absent."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        raise ValueError(f"{node.op.name} needs operand {index}")
    return value


def same(node: Node) -> list[TensorType]:
    """The result has the type of the first operand."""
    return [operand(node, 0).known_type]


def broadcast(node: Node) -> list[TensorType]:
    """The result has the broadcast shape of the operands and the type of the first."""
    shape = np.broadcast_shapes(*(v.shape for v in node.operands()))
    return [typed(operand(node, 0).dtype, *shape)]


def alike(node: Node) -> list[TensorType]:
    """Operands of one shape, which is the result's."""
    a, b = operand(node, 0), operand(node, 1)
    if a.shape != b.shape:
        raise ValueError(f"{node.op.name} takes operands of one shape; got {a.type} and {b.type}")
    return [a.known_type]


def compare(node: Node) -> list[TensorType]:
    """The result is a truth value for each element."""
    return [typed(bool, *broadcast(node)[0].dims)]


def select(node: Node) -> list[TensorType]:
    """The result has the type of the second operand, the first being a condition."""
    return [typed(operand(node, 1).dtype, *broadcast(node)[0].dims)]


def window_sizes(
    sizes: tuple[int, ...], kernel: tuple[int, ...], attrs: dict[str, Any]
) -> tuple[int, ...]:
    """Spatial sizes after a window op; padding is "SAME" or "VALID"."""
    strides = attrs["strides"]
    dilations = attrs.get("dilations") or (1,) * len(sizes)
    found = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        free = size if attrs["padding"] == "SAME" else size - (k - 1) * dilation
        found.append(max(math.ceil(free / stride), 0))
    return tuple(found)


def convolution(node: Node) -> list[TensorType]:
    """X: [N, C, spatial…]; weights: [M, C / groups, kernel…]; result: [N, M, spatial…]."""
    x, weights = operand(node, 0), operand(node, 1)
    spatial = window_sizes(x.shape[2:], weights.shape[2:], node.attrs)
    return [typed(x.dtype, x.shape[0], weights.shape[0], *spatial)]


def transposed_convolution(node: Node) -> list[TensorType]:
    """X: [N, C, spatial…]; weights: [C, M, kernel…]; the result's shape is an attribute."""
    return [typed(operand(node, 0).dtype, *node.attrs["output_shape"])]


def pool(node: Node) -> list[TensorType]:
    """X: [N, C, spatial…]."""
    x = operand(node, 0)
    spatial = window_sizes(x.shape[2:], node.attrs["filter"], node.attrs)
    return [typed(x.dtype, *x.shape[:2], *spatial)]


def resize(node: Node) -> list[TensorType]:
    """X: [N, C, spatial…]; the spatial sizes are an attribute."""
    x = operand(node, 0)
    return [typed(x.dtype, *x.shape[:2], *node.attrs["size"])]


def depth_to_space(node: Node) -> list[TensorType]:
    """X: [N, C·b², H, W] to [N, C, H·b, W·b]."""
    x, block = operand(node, 0), node.attrs["block_size"]
    n, c, *spatial = x.shape
    return [typed(x.dtype, n, c // block ** len(spatial), *(s * block for s in spatial))]


def space_to_depth(node: Node) -> list[TensorType]:
    """X: [N, C, H·b, W·b] to [N, C·b², H, W]."""
    x, block = operand(node, 0), node.attrs["block_size"]
    n, c, *spatial = x.shape
    return [typed(x.dtype, n, c * block ** len(spatial), *(s // block for s in spatial))]


def matrix(node: Node) -> list[TensorType]:
    """X: […, K at `axis`, …]; weights: [M, K]; result: […, M at `axis`, …]."""
    x, weights = operand(node, 0), operand(node, 1)
    shape = list(x.shape)
    shape[node.attrs["axis"]] = weights.shape[0]
    return [typed(x.dtype, *shape)]


def batch_matrix(node: Node) -> list[TensorType]:
    """A: [batch…, M, K] or, with `adj_x`, [batch…, K, M]; B: [batch…, K, N], or with `adj_y` [N, K]."""
    a, b = operand(node, 0), operand(node, 1)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-1] if node.attrs["adj_x"] else a.shape[-2]
    columns = b.shape[-2] if node.attrs["adj_y"] else b.shape[-1]
    return [typed(a.dtype, *batch, rows, columns)]


def reduced(node: Node) -> list[TensorType]:
    """The reduced dimensions vanish, or become 1 with `keep_dims`."""
    x, axes = operand(node, 0), node.attrs["axes"]
    keep = node.attrs["keep_dims"]
    shape = [1 if k in axes else d for k, d in enumerate(x.shape) if keep or k not in axes]
    return [typed(x.dtype, *shape)]


def arg(node: Node) -> list[TensorType]:
    """The axis vanishes; the result is an index."""
    x, axis = operand(node, 0), node.attrs["axis"]
    dtype = np.int64 if node.attrs["output_type"] == "INT64" else np.int32
    return [typed(dtype, *(d for k, d in enumerate(x.shape) if k != axis))]


def reshape(node: Node) -> list[TensorType]:
    """The result has the shape of the attribute."""
    x = operand(node, 0)
    shape = tuple(node.attrs["shape"])
    if math.prod(shape) != math.prod(x.shape):
        raise ValueError(f"{list(x.shape)} has other elements than {list(shape)}")
    return [typed(x.dtype, *shape)]


def transpose(node: Node) -> list[TensorType]:
    """Result dimension k is dimension perm[k] of the operand."""
    x = operand(node, 0)
    return [typed(x.dtype, *(x.shape[p] for p in node.attrs["perm"]))]


def sliced(node: Node) -> list[TensorType]:
    """The result has the sizes of the attribute."""
    return [typed(operand(node, 0).dtype, *node.attrs["size"])]


def strided(node: Node) -> list[TensorType]:
    """Dimension k goes from begin[k] to end[k], not included, by strides[k], as Python's slices do."""
    x, attrs = operand(node, 0), node.attrs
    ends = [
        None if mask else end for end, mask in zip(attrs["end"], attrs["end_mask"], strict=True)
    ]
    places = zip(x.shape, attrs["begin"], ends, attrs["strides"], strict=True)
    sizes = [len(range(size)[begin:end:stride]) for size, begin, end, stride in places]
    return [typed(x.dtype, *sizes)]


def padded(node: Node) -> list[TensorType]:
    """Dimension k grows by paddings[k]: before, after."""
    x = operand(node, 0)
    grown = [d + a + b for d, (a, b) in zip(x.shape, node.attrs["paddings"], strict=True)]
    return [typed(x.dtype, *grown)]


def tiled(node: Node) -> list[TensorType]:
    """Dimension k is repeated multiples[k] times."""
    x = operand(node, 0)
    return [typed(x.dtype, *(d * m for d, m in zip(x.shape, node.attrs["multiples"], strict=True)))]


def broadcast_to(node: Node) -> list[TensorType]:
    """The result has the shape of the attribute."""
    return [typed(operand(node, 0).dtype, *node.attrs["shape"])]


def concatenation(node: Node) -> list[TensorType]:
    """The sizes along the axis add up."""
    first, axis = operand(node, 0), node.attrs["axis"]
    shape = list(first.shape)
    shape[axis] = sum(v.shape[axis] for v in node.operands())
    return [typed(first.dtype, *shape)]


def split(node: Node) -> list[TensorType]:
    """Equal parts along the axis."""
    x, axis, count = operand(node, 0), node.attrs["axis"], node.attrs["num_splits"]
    shape = list(x.shape)
    shape[axis] //= count
    return [typed(x.dtype, *shape)] * int(count)


def unpack(node: Node) -> list[TensorType]:
    """One result for each position along the axis, which vanishes."""
    x, axis = operand(node, 0), node.attrs["axis"]
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return [typed(x.dtype, *shape)] * int(node.attrs["num"])


def shape(node: Node) -> list[TensorType]:
    """The sizes of the dimensions."""
    dtype = np.int64 if node.attrs["output_type"] == "INT64" else np.int32
    return [typed(dtype, operand(node, 0).rank)]


def split_v(node: Node) -> list[TensorType]:
    """Parts of the given sizes along the axis."""
    x, axis = operand(node, 0), node.attrs["axis"]
    return [
        typed(x.dtype, *(size if k == axis else d for k, d in enumerate(x.shape)))
        for size in node.attrs["sizes"]
    ]


def gather(node: Node) -> list[TensorType]:
    """The axis is replaced by the dimensions of the indices."""
    x, indices, axis = operand(node, 0), operand(node, 1), node.attrs["axis"]
    return [typed(x.dtype, *x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])]


def gather_nd(node: Node) -> list[TensorType]:
    """The last dimension of the indices addresses the first ones of the operand."""
    x, indices = operand(node, 0), operand(node, 1)
    return [typed(x.dtype, *indices.shape[:-1], *x.shape[indices.shape[-1] :])]


def embedding_lookup(node: Node) -> list[TensorType]:
    """Rows of a table: the first dimension is that of the indices."""
    indices, table = operand(node, 0), operand(node, 1)
    return [typed(table.dtype, *indices.shape, *table.shape[1:])]


def scatter_nd(node: Node) -> list[TensorType]:
    """The result has the shape of the attribute and the type of the updates."""
    return [typed(operand(node, 1).dtype, *node.attrs["shape"])]


def segments(node: Node) -> list[TensorType]:
    """The dimensions of the segment numbers become one of the given size."""
    x, places = operand(node, 0), operand(node, 1)
    return [typed(x.dtype, int(node.attrs["count"]), *x.shape[places.rank :])]


def selected(node: Node) -> list[TensorType]:
    """Numbers of the selected boxes, then zeros; and how many are selected."""
    return [typed(np.int32, int(node.attrs["most"])), typed(np.int32)]


def where(node: Node) -> list[TensorType]:
    """Positions of what is not zero, as many as there are: [count, rank], int64."""
    return [TensorType(dtype=np.dtype(np.int64), shape=("count", operand(node, 0).rank))]


def counted(node: Node) -> list[TensorType]:
    """As many numbers as there are steps."""
    return [TensorType(dtype=operand(node, 0).dtype, shape=("count",))]


def filled(node: Node) -> list[TensorType]:
    """The shape is an operand."""
    sizes, number = operand(node, 0), operand(node, 1)
    shape = tuple(f"size {k}" for k in range(sizes.shape[0]))
    return [TensorType(dtype=number.dtype, shape=shape)]


def dequantized(node: Node) -> list[TensorType]:
    """The shape stays; the result is float32."""
    return [typed(np.float32, *operand(node, 0).shape)]


def real_of_complex(node: Node) -> list[TensorType]:
    """The shape stays; one real number for each complex one."""
    return [typed(np.float32, *operand(node, 0).shape)]


def real_fourier(node: Node) -> list[TensorType]:
    """[…, H, W] to [..., height, width / 2 + 1]; `lengths` are height and width."""
    height, width = node.attrs["lengths"]
    return [typed(np.complex64, *operand(node, 0).shape[:-2], height, width // 2 + 1)]


def recurrent(node: Node) -> list[TensorType]:
    """X: two dimensions of time and batch, then features, which become the cells' outputs."""
    x = operand(node, 0)
    weights = operand(node, 6 if len(node.inputs) > 6 else 2)
    return [typed(x.dtype, *x.shape[:2], weights.shape[-1])]


def cast(node: Node) -> list[TensorType]:
    """The shape stays; the type is an attribute."""
    return [typed(node.attrs["dtype"], *operand(node, 0).shape)]


def bitcast(node: Node) -> list[TensorType]:
    """The bits stay; wider elements join those of the last dimension, narrower ones add one."""
    x, dtype = operand(node, 0), np.dtype(node.attrs["dtype"])
    shape, old, new = x.shape, x.dtype.itemsize, dtype.itemsize
    if old > new:
        return [typed(dtype, *shape, old // new)]
    if old == new:
        return [typed(dtype, *shape)]
    if shape[-1:] != (new // old,):
        raise ValueError(f"BITCAST to {dtype} needs a last dimension of {new // old}; got {x.type}")
    return [typed(dtype, *shape[:-1])]


def top_k(node: Node) -> list[TensorType]:
    """The last dimension becomes k; values, then int32 indices."""
    x, k = operand(node, 0), int(node.attrs["k"])
    shape = (*x.shape[:-1], k)
    return [typed(x.dtype, *shape), typed(np.int32, *shape)]


def one_hot(node: Node) -> list[TensorType]:
    """A dimension of the given depth is inserted at the axis."""
    indices, on = operand(node, 0), operand(node, 1)
    axis, depth = node.attrs["axis"], node.attrs["depth"]
    return [typed(on.dtype, *indices.shape[:axis], int(depth), *indices.shape[axis:])]


def pack(node: Node) -> list[TensorType]:
    """Operands of one shape, stacked along a new axis."""
    first, axis = operand(node, 0), node.attrs["axis"]
    shape = (*first.shape[:axis], len(node.inputs), *first.shape[axis:])
    return [typed(first.dtype, *shape)]
