"""One row per TFLite op, a file per family."""

from straightway.tflite.rows import elementwise, index, matrix, reduce, shape, window
from straightway.tflite.rows.row import Attr, Condition, Row

ROWS: dict[str, Row] = {}
for _family in (elementwise, shape, reduce, window, matrix, index):
    for _row in _family.ROWS:
        if _row.name in ROWS:
            raise ValueError(f"{_row.name} has two rows")
        ROWS[_row.name] = _row

__all__ = ["ROWS", "Attr", "Condition", "Row"]
