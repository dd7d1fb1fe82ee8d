"""Two checked-in lists of refused cases: what LiteRT can't, and what is not lowered yet."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

FOLDER = Path(__file__).parent
# The suite changes from version to version; the lists are those of this one.
ONNX_VERSION = "1.23"
HEADER = {
    "impossible": "Refused, since LiteRT can't: files and lines of kernels are those of LiteRT v2.2.0.",
    "not_yet": "Refused, though LiteRT could: not lowered yet.",
}
# A kernel's or a specification's file, with a line where the text has lines.
PLACE = re.compile(r"\([\w/.]*\w\.(cc|h|md|py|fbs)\b[^()]*\)$")
Key = tuple[str, str]
Refusals = dict[Key, str]


def is_impossible(reason: str) -> bool:
    """Whether a kernel or a specification says so, as opposed to us."""
    return PLACE.search(reason) is not None


def read(name: str) -> Refusals:
    """Reasons by case and mode."""
    found: Refusals = {}
    reason = ""
    for line in (FOLDER / f"{name}.txt").read_text().splitlines()[1:]:
        if line.startswith("  "):
            case, *modes = line.split()
            found |= {(case, mode): reason for mode in modes}
        elif line:
            reason = line
    return found


def write(name: str, refusals: Mapping[Key, str]) -> None:
    """Cases and modes below their reasons."""
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    for (case, mode), reason in sorted(refusals.items(), reverse=True):  # frozen before as-is
        groups[reason][case] = f"{groups[reason].get(case, f'  {case}')} {mode}"
    blocks = [
        "\n".join([reason, *sorted(cases.values())]) for reason, cases in sorted(groups.items())
    ]
    (FOLDER / f"{name}.txt").write_text("\n\n".join([HEADER[name], *blocks]) + "\n")


def complaints(found: Mapping[Key, str], ran: Iterable[Key]) -> list[str]:
    """What differs between the lists and the refusals among the cases that ran."""
    listed = {name: read(name) for name in HEADER}
    lines = []
    for key in ran:
        case, mode = key
        reason = found.get(key, "")
        right = "impossible" if is_impossible(reason) else "not_yet"
        known = [name for name in HEADER if key in listed[name]]
        if reason and known != [right]:
            lines.append(f"{case}, {mode}: refused, which {right}.txt does not list: {reason}")
        elif reason and listed[right][key] != reason:
            lines.append(f"{case}, {mode}: {right}.txt gives another reason than: {reason}")
        elif not reason and known:
            lines.append(f"{case}, {mode}: not refused any more, but {known[0]}.txt lists it")
    return lines
