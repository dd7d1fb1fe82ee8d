"""Numbers of dimensions."""

from straightway.errors import InvalidModel


def counted(axis: int, rank: int) -> int:
    """An axis counted from the first. Raises InvalidModel where there is none."""
    if not -rank <= axis < rank:
        raise InvalidModel(f"axis {axis} is none of {rank} dimensions")
    return axis % rank
