"""Which op each XNNPACK event worked for: XNNPACK names its operators, not where they come from.

Both lists stand in execution order, so this is an alignment of two sequences by kind, solved by
dynamic programming. An op may have no event (elided, or fused into its neighbour), one, or several
(a fused activation, a conversion of an operand).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from straightway.trace.taxonomy import family, xnnpack_family

_MAIN = 10.0  # the operator does what the op is for
_ALSO = 6.0  # the op may be lowered to this operator
_HELPER = 1.0  # it may stand beside the op's main operator, or be one more of several
_BEFORE = 1.5  # it stands where such helpers usually do, before the main operator
_STRAY = -5.0  # the event belongs to no op
_SKIPPED = -4.0  # the op computes, yet has no main event
_UNFINISHED = -0.25  # it has helpers only: they rather belong to the next one
_NEVER = -1e9

_Scores = NDArray[np.float64]
_States = NDArray[np.intp]


def align(events: Sequence[str], kinds: Sequence[str]) -> tuple[int | None, ...]:
    """The position in `kinds` of the op that each event worked for, None where none fits.

    `events` are XNNPACK operator names, `kinds` TFLite built-in names; positions never decrease.
    Costs one pass of numpy over the ops for each event.
    """
    # Position 0 stands before the first op. Two layers of states: at op j with its main event still
    # to come (state j), or with it done (state n + j).
    skip = np.array([0.0, *(_skip(kind) for kind in kinds)])
    n = len(skip)
    waiting, done = np.full(n, _NEVER), np.full(n, _NEVER)
    done[0] = 0.0
    history: list[_States] = []
    worth = {name: _worth(name, kinds) for name in set(events)}
    for name in events:
        main, before, after = worth[name]
        enter, origin = _enter(waiting, done, skip)
        stay_waiting, stay_done = np.arange(n), np.arange(n, 2 * n)
        next_waiting, from_waiting = _best(
            (enter + before, origin),
            (waiting + before, stay_waiting),
            (waiting + _STRAY, ~stay_waiting),
        )
        next_done, from_done = _best(
            (enter + main, origin),
            (waiting + main, stay_waiting),
            (done + after, stay_done),
            (done + _STRAY, ~stay_done),
        )
        waiting, done = next_waiting, next_done
        history.append(np.concatenate([from_waiting, from_done]))
    leave, state = _leave(waiting, done, skip)
    last = int(leave.argmax())
    return _trace_back(history, int(state[last]), n)


def _skip(kind: str) -> float:
    """What it costs to leave the op without a main event: nothing where XNNPACK may elide it."""
    meant = family(kind)
    return 0.0 if meant is None or meant.elided or not meant.xnnpack else _SKIPPED


def _worth(name: str, kinds: Sequence[str]) -> tuple[_Scores, _Scores, _Scores]:
    """What the event is worth as the main one of each op, and beside it, before or after."""
    main, before, after = (np.full(len(kinds) + 1, _NEVER) for _ in range(3))
    ran = xnnpack_family(name)
    if ran is None:
        return main, before, after
    main[1:] = [
        _MAIN if kind in ran.tflite else _ALSO if kind in ran.also else _NEVER for kind in kinds
    ]
    if ran.helper == "before":
        before[1:] = _BEFORE
    # What an op is only sometimes lowered to, it may be lowered to more than once.
    after[1:] = _HELPER if ran.helper else np.where(main[1:] == _ALSO, _HELPER, _NEVER)
    return main, before, after


def _leave(waiting: _Scores, done: _Scores, skip: _Scores) -> tuple[_Scores, _States]:
    """The best score on leaving each op, less the skips up to it, and the state it is left in."""
    n = len(skip)
    unfinished = waiting + skip + _UNFINISHED
    state = np.where(done >= unfinished, np.arange(n, 2 * n), np.arange(n))
    return np.maximum(done, unfinished) - np.cumsum(skip), state


def _enter(waiting: _Scores, done: _Scores, skip: _Scores) -> tuple[_Scores, _States]:
    """The best score on entering each op from any before it, and the state it comes from."""
    leave, state = _leave(waiting, done, skip)
    best = np.maximum.accumulate(leave)
    first = np.maximum.accumulate(np.where(leave >= best, np.arange(len(skip)), 0))
    score = np.concatenate([[_NEVER], best[:-1] + np.cumsum(skip)[:-1]])
    return score, np.concatenate([[0], state[first[:-1]]])


def _best(*choices: tuple[_Scores, _States]) -> tuple[_Scores, _States]:
    scores = np.stack([score for score, _ in choices])
    states = np.stack([state for _, state in choices])
    pick = scores.argmax(axis=0)
    here = np.arange(scores.shape[1])
    return scores[pick, here], states[pick, here]


def _trace_back(history: Sequence[_States], state: int, n: int) -> tuple[int | None, ...]:
    """Follow the states back; a negated state marks an event that belongs to no op."""
    places: list[int | None] = []
    for states in reversed(history):
        before = int(states[state])
        places.append(None if before < 0 else state % n - 1)
        state = before if before >= 0 else ~before
    return tuple(reversed(places))
