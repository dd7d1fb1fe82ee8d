"""Conversions between floats and integers, as text."""

from typing import Any

from straightway.report.quantity import plural, size


def border_lines(found: Any) -> list[str]:
    """Each conversion between floats and integers that the TFLite file has, and why."""
    if not found:
        return []
    left = plural(len(found), "QUANTIZE or DEQUANTIZE", "QUANTIZE and DEQUANTIZE")
    told = (f"{b.op} {size(b.moved_bytes)} between {b.between}: {b.cause}" for b in found)
    return [f"{left} in the TFLite file:", *(f"  {line}" for line in told)]
