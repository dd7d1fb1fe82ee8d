"""All targets by name."""

import difflib

from straightway.errors import InvalidRequest
from straightway.targets import cpu, ethos_u, micro, neutron
from straightway.targets.target import Target

FAMILIES = (cpu, micro, ethos_u, neutron)
TARGETS: dict[str, Target] = {one.name: one for family in FAMILIES for one in family.TARGETS}
DEFAULT = "litert"
# under which a quantized model says what it was made for
NOTE = "straightway.target"


def find(name: str) -> Target:
    """The target of a name; raises InvalidRequest with those that there are."""
    found = TARGETS.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), TARGETS, n=3, cutoff=0.6)
        meant = f"; did you mean {' or '.join(near)}?" if near else f"; there are {_listed()}"
        raise InvalidRequest(f"there is no target '{name}'{meant}")
    return found


def _listed() -> str:
    return ", ".join(TARGETS)
