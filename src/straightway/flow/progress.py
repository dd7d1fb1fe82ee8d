"""How the verbs tell what they are at."""

from collections.abc import Callable

Step = Callable[[str], None]


def quiet(_: str) -> None:
    """Tell nobody."""
