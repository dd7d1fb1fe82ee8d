"""Window ops by their definition, in numpy, one window at a time: an oracle that shares no code.

Where onnxruntime or ONNX's reference is wrong (auto_pad with strides past the kernel, ceil_mode with
count_include_pad, grouped ConvTranspose), this is what the operators' texts and PyTorch say.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

Pads = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """How a window slides: one entry a spatial dimension."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    ceil: bool = False

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def outs(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Rounded up, the last window must start on the input or on the padding before it."""
        found = []
        for size, extent, s, (before, after) in zip(
            sizes, self.extents, self.strides, self.pads, strict=True
        ):
            free = size + before + after - extent
            out = (math.ceil(free / s) if self.ceil else free // s) + 1
            late = self.ceil and (out - 1) * s >= size + before
            found.append(out - 1 if late else out)
        return tuple(found)

    def windows(
        self, sizes: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], list[tuple[tuple[int, ...], tuple[int, ...]]]]]:
        """Each output position, and the (tap, input position) pairs that lie on the input."""
        for place in product(*map(range, self.outs(sizes))):
            reads = []
            for tap in product(*map(range, self.kernel)):
                at = tuple(
                    p * s - b + t * d
                    for p, s, (b, _), t, d in zip(
                        place, self.strides, self.pads, tap, self.dilations, strict=True
                    )
                )
                if all(0 <= a < size for a, size in zip(at, sizes, strict=True)):
                    reads.append((tap, at))
            yield place, reads


def auto_pads(auto_pad: str, sizes: Sequence[int], slide: Slide) -> tuple[tuple[int, int], ...]:
    """SAME: as many windows as strides fit; the odd element of padding behind or before."""
    found = []
    for size, extent, s in zip(sizes, slide.extents, slide.strides, strict=True):
        total = max((math.ceil(size / s) - 1) * s + extent - size, 0)
        half = total // 2
        found.append((half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half))
    return tuple(found)


def _slow(x: np.ndarray, slide: Slide, each: Callable[..., np.ndarray]) -> np.ndarray:
    sizes = x.shape[2:]
    y = np.zeros((*x.shape[:2], *slide.outs(sizes)))
    for place, reads in slide.windows(sizes):
        taken = np.stack([x[(..., *at)] for _, at in reads], -1) if reads else None
        y[(..., *place)] = each(place, taken)
    return y


def max_pool(x: np.ndarray, slide: Slide) -> np.ndarray:
    return _slow(x, slide, lambda _, taken: taken.max(-1))


def average_pool(x: np.ndarray, slide: Slide, count_include_pad: int) -> np.ndarray:
    """Declared padding may count; what ceil_mode adds behind it never does (PyTorch)."""

    def count(place: tuple[int, ...]) -> int:
        spans = zip(
            place,
            slide.strides,
            slide.pads,
            slide.kernel,
            slide.dilations,
            x.shape[2:],
            strict=True,
        )
        return math.prod(
            sum(-b <= p * s - b + t * d < size + a for t in range(k))
            for p, s, (b, a), k, d, size in spans
        )

    def each(place: tuple[int, ...], taken: np.ndarray) -> np.ndarray:
        if count_include_pad:
            return (0 if taken is None else taken.sum(-1)) / count(place)
        return taken.mean(-1)

    return _slow(x, slide, each)


def lp_pool(x: np.ndarray, slide: Slide, p: int) -> np.ndarray:
    return _slow(x, slide, lambda _, taken: (np.abs(taken.astype(float)) ** p).sum(-1) ** (1 / p))


def conv(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | None, slide: Slide, group: int
) -> np.ndarray:
    n, channels, *sizes = x.shape
    m, width = w.shape[:2]
    y = np.zeros((n, m, *slide.outs(sizes)))
    for place, reads in slide.windows(sizes):
        for out in range(m):
            first = out // (m // group) * width
            for tap, at in reads:
                seen = x[(slice(None), slice(first, first + width), *at)].astype(float)
                y[(slice(None), out, *place)] += seen @ w[(out, slice(None), *tap)]
    assert channels == width * group
    return y if b is None else y + b.reshape(-1, *[1] * len(sizes))


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None,
    slide: Slide,
    *,
    group: int,
    outs: Sequence[int],
) -> np.ndarray:
    """Every input adds its kernel to the result; `pads` crop it, `outs` says where it ends."""
    n, channels, *sizes = x.shape
    width = w.shape[1]
    y = np.zeros((n, width * group, *outs))
    for place in product(*map(range, sizes)):
        for tap in product(*map(range, slide.kernel)):
            at = tuple(
                p * s + t * d - c
                for p, s, t, d, (c, _) in zip(
                    place, slide.strides, tap, slide.dilations, slide.pads, strict=True
                )
            )
            if not all(0 <= a < size for a, size in zip(at, outs, strict=True)):
                continue
            for g in range(group):
                rows = slice(g * channels // group, (g + 1) * channels // group)
                columns = slice(g * width, (g + 1) * width)
                seen = x[(slice(None), rows, *place)].astype(float)
                y[(slice(None), columns, *at)] += seen @ w[(rows, slice(None), *tap)]
    return y if b is None else y + b.reshape(-1, *[1] * len(sizes))
