"""The rows of the operator table as compact JSON that is safe inside a script element."""

import json
from collections.abc import Iterable
from typing import Any

from straightway.report.quantity import dimensions, printable
from straightway.report.view import CATEGORIES, UNACCOUNTED, Machine, OperatorRow, View

_KIND, _SOURCE = 60, 200
_REMARK = 300


class Strings:
    """Texts that occur once each, and their numbers: kernels and sources repeat by the hundred."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str, longest: int = _SOURCE) -> int:
        """The number of `text`, made printable."""
        shown = printable(text, longest)
        if shown not in self._numbers:
            self._numbers[shown] = len(self.texts)
            self.texts.append(shown)
        return self._numbers[shown]


def category_class(name: str) -> str:
    """The CSS class that colours a category; one that the report doesn't know is "other"."""
    return f"cat-{name.replace(' ', '-')}" if name in CATEGORIES else "cat-other"


def page_data(view: View) -> str:
    """All that the page's script needs: categories, operators by column, conversions, limits."""
    strings = Strings()
    names = list(dict.fromkeys([item.name for item in view.categories]))
    names += sorted({row.category for row in view.operators} - set(names))
    data = {
        "categories": [[printable(name, 40), category_class(name)] for name in names],
        "operators": [_operator(row, names, strings) for row in view.operators],
        "rest": next(
            (
                [_short(i.time_ns), _short(i.share)]
                for i in view.categories
                if i.name == UNACCOUNTED
            ),
            None,
        ),
        "conversions": _conversions(view, strings),
        "peaks": _peaks(view.machine),
        "strings": strings.texts,
    }
    return script_safe(data)


def script_safe(data: Any) -> str:
    """JSON that no HTML parser can take for markup, and no JavaScript parser for code.

    HTML ends a script element at "</script" and changes its state at "<!--" (HTML Standard,
    "Restrictions for contents of script elements"), so that no "<" may be left.
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _operator(row: OperatorRow, categories: list[str], strings: Strings) -> list[Any]:
    rated = row.roofline
    return [
        row.index,
        strings.number(row.kind, _KIND),
        strings.number(row.kernel),
        categories.index(row.category),
        _short(row.time_ns),
        _short(row.spread_ns),
        _short(row.share),
        _short(rated.gmacs) if rated else None,
        _short(rated.gbs) if rated else None,
        _short(rated.limit_gbs) if rated else None,
        _short(rated.percent_of_peak) if rated else None,
        0 if rated is None or rated.bound == "compute" else 1,
        strings.number(row.place, _KIND),
        row.partition,
        _numbers(row.origins, strings),
        _numbers(row.op_types, strings),
        strings.number(row.source),
        strings.number(f"{row.dtype} {dimensions(row.output_shape)}" if row.dtype else ""),
        _numbers(row.remarks, strings, _REMARK),
    ]


def _peaks(machine: Machine | None) -> list[Any]:
    if machine is None:
        return [None, []]
    return [
        _short(machine.peak_gmacs),
        [[one.bytes, _short(one.gbs)] for one in machine.bandwidths],
    ]


def _numbers(texts: Iterable[str], strings: Strings, longest: int = _SOURCE) -> list[int]:
    return [strings.number(text, longest) for text in list(texts)[:20]]


def _conversions(view: View, strings: Strings) -> list[list[int]]:
    if view.plan is None:
        return []
    return [
        [item.operator, strings.number(f"{item.from_order} to {item.to_order}")]
        for item in view.plan.conversions
        if item.operator is not None
    ]


def _short(number: float | None) -> float | None:
    """Five significant digits: more than a measurement has, and a third of the bytes."""
    if number is None:
        return None
    rounded = float(f"{number:.5g}")
    return int(rounded) if rounded.is_integer() else rounded
