"""Remarks: the only log that tools read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """What one step did, could not do, or measured, and to which node.

    `kind` is "done", "missed" (refused or left undone: `text` says why) or "measured". `step` is
    the module that speaks, `node` the name of the node in the user's model ("" for the whole
    model), `op` its operator, `source` where it stands, `remedy` what the user can do about it.
    """

    kind: Literal["done", "missed", "measured"]
    step: str
    text: str
    node: str = ""
    op: str = ""
    source: str = ""
    remedy: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
