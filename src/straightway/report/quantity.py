"""Numbers as people read them: units, digits, and names that can't break the page."""

import math
import re
import unicodedata

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
# Control, format (bidirectional overrides among them), surrogate, and line and paragraph
# separators: none has a glyph, and some rearrange their neighbours (Unicode TR 36 and TR 39).
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
_LONGEST_NAME = 160
_LONGEST_WORD = 64


def significant(number: float, digits: int = 3) -> str:
    """At least `digits` significant digits, whole numbers in groups of three."""
    if not math.isfinite(number):
        return str(number)
    if number == 0:
        return "0"
    rounded = float(f"{number:.{digits}g}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{number:,.{places}f}"


def duration(time_ns: float) -> str:
    """A time in its natural unit: "42.2 ms"; negative where more is explained than was spent."""
    if time_ns < 0:
        return f"-{duration(-time_ns)}"
    for unit_ns, unit in _TIMES:
        if time_ns >= unit_ns * 0.9995:
            return f"{significant(time_ns / unit_ns)} {unit}"
    return f"{significant(time_ns, 3 if time_ns >= 1 else 2)} ns"


def size(count_bytes: float) -> str:
    """A number of bytes in its natural decimal unit: "12.2 MB"."""
    for unit_bytes, unit in _SIZES:
        if count_bytes >= unit_bytes:
            return f"{significant(count_bytes / unit_bytes)} {unit}"
    return f"{count_bytes:.0f} B"


def percent(share: float) -> str:
    """A share of 0 to 1 as percent, small ones with a digit more."""
    number = 100 * share
    if number and abs(number) < 0.1:
        return "<0.1 %"
    return f"{number:.0f} %" if abs(number) >= 99.95 else f"{number:.1f} %"


def scientific(number: float) -> str:
    """An error or a bound: two digits and the power of ten."""
    if number == 0 or not math.isfinite(number):
        return "0" if number == 0 else str(number)
    mantissa, exponent = f"{number:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def dimensions(shape: tuple[int, ...]) -> str:
    """A shape as it is spoken: "1×3×320×320"; a scalar has none."""
    return "×".join(str(size) for size in shape) if shape else "scalar"


def plural(count: int, singular: str, several: str = "") -> str:
    """Count and noun: 1 node, 1,234 nodes."""
    return f"{count:,} {singular if count == 1 else several or singular + 's'}"


def figure(name: str, number: float) -> tuple[str, str]:
    """A remark's number as label and text; the unit is the end of its name."""
    label = printable(name.replace("_", " "), 40)
    for unit, show in (("ns", duration), ("bytes", size), ("percent", _percents)):
        if name.endswith(f"_{unit}"):
            return label.removesuffix(f" {unit}"), show(number)
    whole = math.isfinite(number) and float(number).is_integer()
    return label, f"{number:,.0f}" if whole else significant(number)


def _percents(number: float) -> str:
    return percent(number / 100)


def printable(text: str, longest: int = _LONGEST_NAME) -> str:
    """The text with every invisible character spelled out and the middle of a long one left out.

    Names come from the model and may hold anything; both ends of a long name tell it apart.
    """
    if len(text) > longest:
        left_out = f" … {len(text) - longest:,} more … " if longest > 80 else "…"
        kept = (longest - len(left_out)) // 2
        text = f"{text[:kept]}{left_out}{text[-kept:]}"
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def shortened(text: str, longest: int = _LONGEST_WORD) -> str:
    """A sentence whose overlong words, names of a model, lose their middle."""
    return re.sub(rf"\S{{{longest + 1},}}", lambda word: printable(word[0], longest), text)


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _INVISIBLE:
        return character
    return f"\\u{ord(character):04x}"
