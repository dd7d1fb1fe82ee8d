"""Boxes: those that overlap a better one are left out."""

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import Ints, case, lower, need, run
from straightway.lower.integers import INT32, INT64
from straightway.lower.looked_up import Given, known_ints
from straightway.lower.selection import join, part
from straightway.lower.sets import positions

CORNERS = np.array(
    [
        [[0, 0, 4, 4], [0, 1, 4, 5], [4, 5, 0, 1], [9, 9, 5, 5], [5, 5, 9, 9], [20, 0, 21, 0]],
        [[0, 0, 4, 4], [0, 2, 4, 6], [0, 4, 4, 8], [0, 6, 4, 10], [0, 0, 4, 4], [7, 7, 8, 8]],
    ],
    np.float32,
)
CENTERS = np.array([[[2, 2, 4, 4], [3, 2, 4, 4], [2, 3, 4, 3], [7, 7, -2, 2], [7, 7, 2, 2]]])
SCORES = np.array(
    [
        [[0.5, 0.5, 0.75, 0.5, 0.5, 0.25], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]],
        [[0.5, 0.5, 0.5, 0.5, 0.5, 0.5], [0.6, 0.1, 0.1, 0.5, 0.6, 0.2]],
    ],
    np.float32,
)
NONE = Ints([0])
LARGEST_BELOW_1 = 1 - 2.0**-23


@lower(
    "NonMaxSuppression",
    needs=[
        need(
            lambda boxes, scores: 0 not in (*boxes.shape, *scores.shape),
            "there must be boxes and classes; got {boxes.type}, {scores.type}",
            possible=True,
        ),
        need(
            lambda max_output_boxes_per_class: (
                min(known_ints(max_output_boxes_per_class) or (1,), default=0) > 0
            ),
            "max_output_boxes_per_class must be above 0, which selects nothing; got {max_output_boxes_per_class}",
            possible=True,
        ),
        need(
            lambda iou_threshold: (
                iou_threshold is None
                or iou_threshold.const is None
                or 0 <= float(iou_threshold.const.reshape(-1)[0]) < 1
            ),
            "iou_threshold must be from 0 to below 1; got {iou_threshold}",
            possible=True,
        ),
    ],
    samples=[
        case(
            boxes=run(CORNERS),
            scores=run(SCORES),
            max_output_boxes_per_class=np.array([most]),
            iou_threshold=np.array([overlap], np.float32),
            score_threshold=least,
        )
        for most, overlap, least in (
            (3, 0.5, None),
            (9, 0.3, np.array([0.2], np.float32)),
            # the second box of the second image overlaps the first by exactly a third
            (6, 1 / 3, np.array([0.15], np.float32)),
        )
    ]
    + [
        case(
            boxes=run(CENTERS),
            scores=run(SCORES[:1, :, :5]),
            max_output_boxes_per_class=np.array([5]),
            center_point_box=1,
        )
    ]
    + [
        case(
            boxes=run(CORNERS),
            scores=run(SCORES),
            max_output_boxes_per_class=run([most], np.int64),
            iou_threshold=run([overlap]),
            score_threshold=run([0.12]),
        )
        for most, overlap in ((2, 0.5), (9, 1 / 3), (4, 1.0), (9, 0.0))
    ],
    refuses=[
        case(boxes=run(CORNERS), scores=run(SCORES), max_output_boxes_per_class=np.array([0])),
        case(
            boxes=run(CORNERS),
            scores=run(SCORES[:, :0]),
            max_output_boxes_per_class=np.array([1]),
        ),
        case(
            boxes=run(CORNERS),
            scores=run(SCORES),
            max_output_boxes_per_class=np.array([1]),
            iou_threshold=np.array([1], np.float32),
        ),
    ],
)
def non_max_suppression(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    boxes: Value,
    scores: Value,
    max_output_boxes_per_class: Given = NONE,
    iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    /,
    *,
    center_point_box: int = 0,
    out: list[TensorType],
) -> Value:
    """Boxes of each class, sorted by scores, go through TFLite's suppression by their places.

    So equal scores keep their order, which the kernel does not. What must be more than the threshold
    is not less than the next number. The kernel selects a box again and again until it suppresses
    itself (internal/reference/non_max_suppression.h:178), which an empty one never does.
    """
    limits = (max_output_boxes_per_class, iou_threshold, score_threshold)
    if any(isinstance(limit, Value) and limit.known_type.size != 1 for limit in limits):
        raise InvalidModel(f"limits are one number each; got {limits}")
    if scores.rank != 3 or boxes.shape != (scores.shape[0], scores.shape[2], 4):
        raise InvalidModel(
            f"boxes are [batch, boxes, 4], scores [batch, classes, boxes]; got {boxes}, {scores}"
        )
    batch, classes, count = scores.shape
    known = known_ints(max_output_boxes_per_class)
    most = count if known is None else min(known[0], count)
    corners = _full(g, _corners(g, boxes) if center_point_box else boxes)
    own_limits = (most, iou_threshold, score_threshold)
    rows, valid = [], []
    for image in range(batch):
        own = g.reshape(part(g, corners, 0, image, 1), (count, 4))
        for kind in range(classes):
            score = g.reshape(part(g, part(g, scores, 0, image, 1), 1, kind, 1), (count,))
            places, number = _suppressed(g, own, score, own_limits)
            if known is None and isinstance(max_output_boxes_per_class, Value):
                allowed = g.cast(g.MINIMUM(max_output_boxes_per_class, count), INT32)
                number = g.MINIMUM(number, g.reshape(allowed, ()))
            column = g.reshape(g.cast(places, INT64), (most, 1))
            prefix = np.tile(np.array([image, kind], np.int64), (most, 1))
            rows.append(g.CONCATENATION(g.const(prefix), column, axis=1))
            valid.append(g.LESS(g.const(np.arange(most, dtype=np.int32)), number))
    kept = positions(g, join(g, valid, 0), out[0].dims[0])
    return g.GATHER(join(g, rows, 0), kept, axis=0)


def _corners(g: Builder, boxes: Value) -> Value:
    """Two corners of boxes given by center and size; a size below zero is an empty box."""
    center, size = part(g, boxes, 2, 0, 2), part(g, boxes, 2, 2, 2)
    half = g.MUL(g.MAXIMUM(size, 0.0), 0.5)
    return g.CONCATENATION(g.SUB(center, half), g.ADD(center, half), axis=2)


def _full(g: Builder, boxes: Value) -> Value:
    """Put a box of some size, far from all others, in the place of each empty one."""
    size = g.ABS(g.SUB(part(g, boxes, 2, 2, 2), part(g, boxes, 2, 0, 2)))
    empty = g.LESS_EQUAL(g.MUL(part(g, size, 2, 0, 1), part(g, size, 2, 1, 1)), 0.0)
    most = g.REDUCE_MAX(g.ABS(boxes), axes=(0, 1, 2), keep_dims=True)
    own = 2 * np.arange(1, boxes.shape[1] + 1)[:, None] + np.array([0, 0, 1, 1])
    away = g.MUL(g.ADD(most, 1.0), g.const(own, np.float32))
    return g.SELECT_V2(empty, away, boxes)


def _suppressed(
    g: Builder, boxes: Value, scores: Value, limits: tuple[int, Value | None, Value | None]
) -> tuple[Value, Value]:
    """Numbers of the boxes that are left, [most], and how many of these count."""
    most, overlap, passed = limits
    count = scores.shape[0]
    ordered, order = g.TOPK_V2(scores, k=count)
    ranks: Value = g.const(np.arange(count, 0, -1), np.float32)
    if passed is not None:
        good = g.GREATER(ordered, g.reshape(passed, (1,)))
        ranks = g.SELECT_V2(good, ranks, g.const(0, np.float32))
    sorted_boxes = g.GATHER(boxes, order, axis=0)
    least, zero = _next_above(g, overlap), g.const(0, np.float32)
    places, number = g.NON_MAX_SUPPRESSION_V4(sorted_boxes, ranks, least, zero, most=most)
    kept = g.GATHER(order, places, axis=0)
    if overlap is None or overlap.const is not None:
        return kept, number
    # no overlap is more than 1: all that pass are left
    none = g.GREATER_EQUAL(g.reshape(overlap, ()), 1.0)
    all_of = g.SUM(g.cast(g.GREATER(ranks, 0.0), INT32), axes=(0,), keep_dims=False)
    passing = g.MINIMUM(all_of, most)
    return g.SELECT_V2(none, part(g, order, 0, 0, most), kept), g.SELECT_V2(none, passing, number)


def _next_above(g: Builder, overlap: Value | None) -> Value:
    """The least number above a limit; at run time, that whose bits count one more, and below 1."""
    given = None if overlap is None else overlap.const
    if overlap is None or given is not None:
        known = np.float32(0 if given is None else given.reshape(-1)[0])
        return g.const(np.nextafter(known, np.float32(np.inf)), np.float32)
    limit = g.reshape(g.MINIMUM(g.MAXIMUM(overlap, 0.0), LARGEST_BELOW_1), ())
    return g.bits(g.ADD(g.bits(limit, INT32), 1), np.dtype(np.float32))
