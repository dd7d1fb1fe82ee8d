"""What nodes of constants give: the table of all evaluators, and its limits."""

from collections.abc import Sequence

import numpy as np

from straightway.errors import Bug, InvalidModel
from straightway.ir import Node, TensorType
from straightway.passes import (
    evaluate_create,
    evaluate_elementwise,
    evaluate_index,
    evaluate_matrix,
    evaluate_quantize,
    evaluate_reduce,
    evaluate_shape,
)
from straightway.passes.arguments import RuntimeOperandError
from straightway.passes.evaluate_create import refuse_large
from straightway.passes.evaluator import Table, UnfoldableError


def _joined(*tables: Table) -> Table:
    joined = Table()
    for table in tables:
        twice = joined.keys() & table.keys()
        if twice:
            raise Bug(f"operators with two evaluators: {sorted(twice)}")
        joined.update(table)
    return joined


EVALUATORS = _joined(
    evaluate_create.TABLE,
    evaluate_elementwise.TABLE,
    evaluate_index.TABLE,
    evaluate_matrix.TABLE,
    evaluate_quantize.TABLE,
    evaluate_reduce.TABLE,
    evaluate_shape.TABLE,
)


# Results whose size inference leaves open; their evaluators look at it themselves, or it is no larger
# than a few times the operands.
OF_OPEN_SIZE = frozenset(
    {
        "BlackmanWindow",
        "Compress",
        "Constant",
        "HammingWindow",
        "HannWindow",
        "NonZero",
        "OneHot",
        "Range",
    }
)


def evaluate(
    node: Node,
    results: Sequence[TensorType | None],
    most_bytes: int = evaluate_create.MOST_RESULT_BYTES,
) -> list[np.ndarray]:
    """Compute the results of a node whose operands are all constants, typed as `results` say.

    Raises UnfoldableError, with the reason, where the node is better left as it is: one reason is a
    result of more than `most_bytes`, which is never made. Raises InvalidModel where constant indices
    lie outside what they index.
    """
    evaluator = EVALUATORS.get(node.op.name) if node.op.dialect == "onnx" else None
    if evaluator is None:
        raise UnfoldableError(f"{node.op} is not evaluated")
    for kind in results:
        if kind is not None and kind.is_static:
            refuse_large(kind.dims, kind.dtype.itemsize, most_bytes)
        elif node.op.name not in OF_OPEN_SIZE or most_bytes <= 0:
            raise UnfoldableError("its result has no known size")
    try:
        with np.errstate(all="ignore"):
            found = evaluator.run(node, results)
    except UnfoldableError:
        raise
    except RuntimeOperandError as error:
        raise UnfoldableError(str(error)) from error
    except IndexError as error:
        raise InvalidModel(f"node '{node.name}' ({node.op}): {error}") from error
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise UnfoldableError(f"its operands do not fit: {error}") from error
    return [_typed(a, kind) for a, kind in zip(found, results, strict=False)]


def _typed(array: np.ndarray, kind: TensorType | None) -> np.ndarray:
    """Check a result against its inferred type; a wrong guess of either must not go on."""
    array = np.asarray(array)
    if kind is None:
        return array
    if array.dtype != kind.dtype:
        if not np.can_cast(array.dtype, kind.dtype, "same_kind"):
            raise UnfoldableError(f"its result is {array.dtype}, not {kind.dtype}")
        array = array.astype(kind.dtype)
    shape = kind.shape
    if array.ndim != len(shape) or any(
        isinstance(d, int) and d != size for d, size in zip(shape, array.shape, strict=True)
    ):
        raise UnfoldableError(f"its result has shape {list(array.shape)}, not {list(shape)}")
    return array
