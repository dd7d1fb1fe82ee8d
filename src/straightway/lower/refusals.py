"""What is said of a node that can't be lowered: why, and what works instead."""

from straightway.errors import Impossible, NotYet, Unsupported
from straightway.ir import Node, Source
from straightway.onnx_io.schema import history, schema
from straightway.remark import Remark

STEP = "lower"
# BuiltinOperator: all that LiteRT has a kernel for
OPERATORS = "converter/schema/schema.fbs:302"
TENSORS = "export with tensors in their place: stack, slice and index them"
TEXTS = "work on texts outside of the model, and feed it numbers"
MAPS = "export scores as a tensor (skl2onnx: options={'zipmap': False})"
# What none of TFLite's ops does, nor any composition of them, and what works instead.
WITHOUT_KERNEL = {
    "decodes images": (("ImageDecoder",), "leave it to what feeds the model"),
    "holds sequences": (
        ("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
         "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence"),
        TENSORS,
    ),
    "holds optional values": (("Optional", "OptionalGetElement", "OptionalHasElement"), TENSORS),
    "changes texts": (
        ("CategoryMapper", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
        TEXTS,
    ),
    "holds maps": (("CastMap", "DictVectorizer", "ZipMap"), MAPS),
}  # fmt: skip
RANDOM = frozenset(
    {"Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
# domains of layouts that ONNX Runtime optimises a model to
LAYOUTS = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
RUNTIME = "com.microsoft"
# what always works, where the model is a valid one
SPLIT = "split the model there (onnx.utils.extract_model), and compute it outside of the file"
VALID = "correct it in the exporter: ONNX gives it no meaning"


def no_lowering(node: Node) -> Unsupported:
    """Say that an operator is unknown to ONNX, that the target lacks it, or that we don't lower it."""
    if schema(node.op) is None:
        return unknown(node)
    for what, (names, remedy) in WITHOUT_KERNEL.items():
        if node.op.name in names:
            return Impossible(f"LiteRT has no kernel that {what}", kernel=OPERATORS, remedy=remedy)
    if node.op.name in RANDOM:
        return NotYet(
            f"no lowering for {node.op} so far: its numbers are random",
            remedy="give the numbers as an input of the model",
        )
    return NotYet(f"no lowering for {node.op} so far", remedy=SPLIT)


def unknown(node: Node) -> NotYet:
    """Say whose operator it is, where ONNX has none of its name in the model's opset."""
    op = node.op
    first = min((one.since for one in history(op)), default=0)
    if first > op.version:
        return NotYet(
            f"ONNX has {op.name} since opset {first} of its domain; the model's is {op.version}",
            remedy=f"export with opset {first} or later",
        )
    if op.dialect in LAYOUTS:
        return NotYet(
            f"{op.dialect} has a layout for one CPU, to which ONNX Runtime optimised the model",
            remedy="convert the model as it was before, or optimise it at level 'extended' at most",
        )
    if op.dialect == RUNTIME:
        return NotYet(
            f"no lowering for {op} so far, an operator of ONNX Runtime's own",
            remedy="convert the model as it was before ONNX Runtime optimised or quantized it",
        )
    return NotYet(
        f"{op} is no operator of ONNX's, and the model has no function of that name",
        remedy="export it as ONNX's operators, or with a function that defines it",
    )


def refusal(node: Node, error: Unsupported) -> Remark:
    """Put a refusal into a remark: what, where, why, and what would work."""
    source = min(node.origins, default=Source())
    kernel = error.kernel if isinstance(error, Impossible) else ""
    instead = VALID if kernel.startswith("onnx/") else SPLIT
    return Remark(
        kind="missed",
        step=STEP,
        node=node.name,
        op=str(node.op),
        text=f"{error} ({kernel})" if kernel else str(error),
        source=str(source),
        remedy=getattr(error, "remedy", "") or instead,
    )
