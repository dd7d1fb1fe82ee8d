"""A view of a model of eight bits, whose names may be hostile."""

import math
import random
from dataclasses import replace

from sample_view import sample_view

from straightway.report.accuracy import (
    AccuracyReport,
    BranchError,
    ChannelError,
    NumberBorder,
    RoundedValue,
)


def value(index, noise, names):
    """One value, with a bell of elements."""
    bell = tuple(round(900 * math.exp(-(((k - 20) / 7) ** 2))) for k in range(48))
    return RoundedValue(
        name=names[index % len(names)],
        node=f"{names[(index + 1) % len(names)]}",
        op="CONV_2D",
        sqnr_db=60 - index / 4 + noise.uniform(-4, 4),
        max_error=0.01 * (index + 1),
        saturated=None if index % 3 else 0.002,
        low=None if index % 3 else -1.5,
        high=None if index % 3 else 2.5,
        bins_low=-2.0,
        bins_high=3.0,
        before=bell,
        after=tuple(n if k % 2 else 2 * n for k, n in enumerate(bell)),
        share=noise.random() / 60,
        channels=(ChannelError(index=index, sqnr_db=12.5),),
        channel_count=32,
    )


def rounded_view(count=120, names=("/model.3/cv1/conv/Conv", "/model.22/dfl/Softmax")):
    """The sample, rounded."""
    noise = random.Random(4)
    inside = tuple(value(k, noise, names) for k in range(count))
    near = AccuracyReport(
        samples=16,
        calibration=names[0],
        outputs=(replace(inside[0], name=names[0], share=None),),
        inside=inside,
        branches=(
            BranchError(first=names[0], last=names[-1], values=12, from_db=40.0, to_db=20.0, share=0.6),
            BranchError(first=names[-1], last=names[-1], values=1, from_db=None, to_db=30.0),
        ),
        borders=(
            NumberBorder(
                op="QUANTIZE", value=names[0], bytes=15360, between=names[0], cause=names[-1],
                operator=0,
            ),
        ),
        inputs={names[0]: 0.01},
        shares=f"shares: {names[0]}",
    )  # fmt: skip
    view = sample_view()
    verdict = replace(view.verdict, accuracy=f"34.2 dB signal to error {names[0]}")
    return replace(view, accuracy=near, verdict=verdict)
