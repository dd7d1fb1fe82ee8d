"""Where a node comes from: the user's own model."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Source:
    """One place of the user's model: a node of the file and, where known, the line that made it.

    `node` is the node's name in the model and `op` its operator; `file`, `line` and `code` come
    from the exporter's stack trace (PyTorch writes it to `metadata_props`), `module` is the path of
    the module that owns the node ("encoder.0.attention"). `in_floats`: whoever rounded the model keeps
    the node in floats, whatever is rounded beside it (`quantize` writes it to `metadata_props`).
    """

    node: str = ""
    op: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    module: str = ""
    in_floats: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else self.module
        return " ".join(part for part in (place, self.code) if part)


Origins = frozenset[Source]


def merge(*origins: Origins) -> Origins:
    """Everything that the new node stands for."""
    return frozenset().union(*origins)


def kept_in_floats(origins: Origins) -> Origins:
    """The same, of a node that is kept in floats."""
    return frozenset(replace(one, in_floats=True) for one in origins or {Source()})


def is_kept_in_floats(origins: Origins) -> bool:
    """Whether a node that these stand for is."""
    return any(one.in_floats for one in origins)
