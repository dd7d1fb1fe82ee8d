"""Samples for every row."""

from row_samples import control, elementwise, matrix, reduce, shape, window
from row_samples.sample import Sample

SAMPLES: list[Sample] = [
    *elementwise.SAMPLES,
    *shape.SAMPLES,
    *reduce.SAMPLES,
    *window.SAMPLES,
    *matrix.SAMPLES,
    *control.SAMPLES,
]
