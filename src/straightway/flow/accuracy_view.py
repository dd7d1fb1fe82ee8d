"""What a report shows of a quantization."""

from collections.abc import Sequence

from straightway.flow.accuracy import Row
from straightway.flow.borders import Border
from straightway.flow.quantize import Quantization
from straightway.report.accuracy import (
    AccuracyReport,
    BranchError,
    ChannelError,
    NumberBorder,
    RoundedValue,
)

# of each value, the least accurate
MOST_CHANNELS = 16


def accuracy_report(given: Quantization, left: Sequence[Border]) -> AccuracyReport:
    """Accuracy of a rounded model, and the conversions `left` in the file that was made of it."""
    near = given.accuracy
    return AccuracyReport(
        samples=near.samples,
        calibration=given.calibration,
        outputs=tuple(_value(row) for row in near.outputs),
        inside=tuple(_value(row) for row in near.inside),
        branches=tuple(
            BranchError(
                first=one.first,
                last=one.last,
                values=len(one.values),
                from_db=one.from_db,
                to_db=one.to_db,
                share=one.share,
            )
            for one in near.branches
        ),
        borders=tuple(
            NumberBorder(
                op=one.op,
                value=one.value,
                bytes=one.moved_bytes,
                between=one.between,
                cause=one.cause,
                operator=one.operator,
            )
            for one in left
        ),
        inputs=dict(near.inputs),
        shares=near.shares_note,
    )


def _value(row: Row) -> RoundedValue:
    order = sorted(range(len(row.channels_db)), key=lambda k: row.channels_db[k])
    return RoundedValue(
        name=row.name,
        node=row.node,
        op=row.op,
        sqnr_db=row.sqnr_db,
        max_error=row.max_error,
        saturated=row.saturated,
        low=row.low,
        high=row.high,
        bins_low=row.bins_low,
        bins_high=row.bins_high,
        before=row.before,
        after=row.after,
        share=row.share,
        channels=tuple(
            ChannelError(index=k, sqnr_db=row.channels_db[k]) for k in order[:MOST_CHANNELS]
        ),
        channel_count=len(order),
    )
