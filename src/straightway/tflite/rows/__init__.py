"""One row per TFLite op, a file per family."""

from straightway.tflite.rows import (
    control,
    conversion,
    elementwise,
    index,
    matrix,
    recurrent,
    reduce,
    shape,
    spectral,
    unary,
    window,
)
from straightway.tflite.rows.row import Attr, Condition, Row

_FAMILIES = (
    elementwise,
    unary,
    conversion,
    shape,
    reduce,
    window,
    matrix,
    index,
    spectral,
    recurrent,
    control,
)
ROWS: dict[str, Row] = {}
for _family in _FAMILIES:
    for _row in _family.ROWS:
        if _row.name in ROWS:
            raise ValueError(f"{_row.name} has two rows")
        ROWS[_row.name] = _row

__all__ = ["ROWS", "Attr", "Condition", "Row"]
