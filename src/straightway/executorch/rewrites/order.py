"""The names of all rewrites in the order in which they are applied: each may make room for the next.

Known without torch, so that a wrong name is told at once.
"""

from collections.abc import Sequence

from straightway.errors import InvalidRequest

# Without these the numbers are wrong, or there is no program.
ALWAYS = ("softmax-axis", "half-layer-norm", "prelu", "unbatched-pool", "greatest")
# Without these programs of 8-bit integers fail.
INTEGERS = ("own-weights",)
HELPFUL = (
    "constants",
    "copies",
    "heads",
    "projections",
    "recurrent",
    "convolution-1d",
    "attention",
    "masked-softmax",
    "selection",
    "rearrangements",
    "group-norm",
    "layer-norm",
    "nearest",
    "bicubic",
    "strided-slice",
    "batch-norm",
    "activations",
    "half-gelu",
    "half-silu",
    "hardsigmoid",
    "softmax-channels",
    "mean",
    "split",
    "squeeze",
    "permutes",
    "expand",
    "matmul",
    "scalar",
)
# What changes a program's interface is applied where it is asked for.
INTERFACE = ("channels-last",)


def check(names: Sequence[str]) -> None:
    """Raise InvalidRequest for a name that is no rewrite's."""
    known = (*HELPFUL, *INTERFACE)
    for name in names:
        if name not in known:
            raise InvalidRequest(f"no rewrite is called '{name}'; there are {', '.join(known)}")
