"""All rewrites, each of the module of its name, in their order."""

import importlib
from collections.abc import Sequence

from straightway.executorch.rewrites import order
from straightway.executorch.rewrites.scene import Rewrite


def _of(names: Sequence[str]) -> tuple[Rewrite, ...]:
    return tuple(
        importlib.import_module(f"{__package__}.{name.replace('-', '_')}").REWRITE for name in names
    )


ALWAYS = _of(order.ALWAYS)
INTEGERS = _of(order.INTEGERS)
REWRITES = _of(order.HELPFUL)
INTERFACE = _of(order.INTERFACE)


def named(names: Sequence[str]) -> tuple[Rewrite, ...]:
    """Rewrites by name, in their own order. Raises InvalidRequest for an unknown one."""
    order.check(names)
    return tuple(one for one in (*REWRITES, *INTERFACE) if one.name in names)
