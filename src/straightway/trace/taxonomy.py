"""Which category of work an operator belongs to, and its one name, whatever runtime names it."""

from collections.abc import Iterable

from straightway.trace.aten import onnx_kind
from straightway.trace.families import CATEGORIES, FAMILIES, UNACCOUNTED, Category, Family

__all__ = [
    "CATEGORIES",
    "FAMILIES",
    "UNACCOUNTED",
    "Category",
    "Family",
    "category",
    "family",
    "operator_name",
    "xnnpack_family",
    "xnnpack_operator",
]


def _index(names: Iterable[tuple[str, Family]]) -> dict[str, Family]:
    table: dict[str, Family] = {}
    for name, its_family in names:
        if name in table:
            raise ValueError(f"{name} stands in two families of the taxonomy")
        table[name] = its_family
    return table


_BY_XNNPACK = _index((name, one) for one in FAMILIES for name in one.xnnpack)
_BY_TFLITE = _index((name, one) for one in FAMILIES for name in one.tflite)
_BY_ONNX = _index((name, one) for one in FAMILIES for name in one.onnx)


def xnnpack_operator(event: str) -> tuple[str, str]:
    """Split an XNNPACK event name, "Convolution (NHWC, F32) IGEMM #2", into operator and kernel.

    The kernel is what follows the parentheses without the running number: "IGEMM", or "".
    """
    operator, _, rest = event.partition(" (")
    kernel = rest.rpartition(")")[2].partition("#")[0]
    return operator.strip(), kernel.strip()


def xnnpack_family(event: str) -> Family | None:
    """The family of an XNNPACK event name; None if the table has no such operator."""
    operator = xnnpack_operator(event)[0]
    while operator:
        if operator in _BY_XNNPACK:
            return _BY_XNNPACK[operator]
        operator = operator.rpartition(" ")[0]
    return None


def family(kind: str) -> Family | None:
    """The family of an op kind of TFLite, ONNX or ATen ("aten.add.Tensor"); None if unknown."""
    return _BY_TFLITE.get(kind) or _BY_ONNX.get(kind) or _BY_ONNX.get(onnx_kind(kind))


def operator_name(kind: str, event: str = "") -> str:
    """One name for an operator whose runtimes call it otherwise: "CONV_2D", "Conv", "aten.conv2d.default".

    `event` is the XNNPACK operator that ran for it, whose own name is the most exact; but a product
    stays what the model has, whichever of them computes it. What no family knows keeps its name.
    """
    ran, meant = xnnpack_family(event), family(kind)
    keeps = meant is not None and meant.category in {"convolution", "matrix"}
    one = meant if ran is None or (keeps and not ran.helper) else ran
    if one is None or one.category == "other":
        return kind or event
    return one.title


def category(kind: str, event: str = "") -> Category:
    """The category of an op kind of TFLite ("CONV_2D") or ONNX ("Conv").

    `event` is the XNNPACK operator that ran for it. A helper is counted by what it does itself (the
    Convert before a dynamically quantized product), and so is one whose op is unknown or "other"; a
    1×1 convolution that XNNPACK runs as Fully Connected stays a convolution.
    """
    if kind == UNACCOUNTED:
        return UNACCOUNTED
    ran, meant = xnnpack_family(event), family(kind)
    if ran and (ran.helper or meant is None or meant.category == "other"):
        return ran.category
    return meant.category if meant else "other"
