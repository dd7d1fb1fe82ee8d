"""What a composite becomes: a pattern, and the function that says which node stands for a match."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from straightway.ir import Op, Value
from straightway.ir.match import Match, Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """One node; arrays among its inputs become constants."""

    op: Op
    inputs: Sequence[Value | np.ndarray]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pattern and its rewrite, which returns why a match does not fit where it doesn't."""

    pattern: Pattern
    rewrite: Callable[[Match], Replacement | str]
