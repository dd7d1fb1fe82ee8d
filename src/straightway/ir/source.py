"""Where a node comes from: the user's own model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Source:
    """One place of the user's model: a node of the file and, where known, the line that made it.

    `node` is the node's name in the model and `op` its operator; `file`, `line` and `code` come
    from the exporter's stack trace (PyTorch writes it to `metadata_props`), `module` is the path of
    the module that owns the node ("encoder.0.attention").
    """

    node: str = ""
    op: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    module: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else self.module
        return " ".join(part for part in (place, self.code) if part)


Origins = frozenset[Source]


def merge(*origins: Origins) -> Origins:
    """Everything that the new node stands for."""
    return frozenset().union(*origins)
