"""Inputs for the benchmark of quantizers, as the models were trained on them where that can be had."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_sample_images

import tasks

Arrays = Mapping[str, np.ndarray]
Floats = NDArray[np.float32]


def crops(rng: np.random.Generator, height: int, width: int) -> Iterator[Floats]:
    """Parts of two photographs, red first, from 0 to 255: places, scales and sides at random."""
    photographs = load_sample_images().images
    while True:
        photo = photographs[int(rng.integers(len(photographs)))]
        most = min(photo.shape[0] / height, photo.shape[1] / width)
        scale = rng.uniform(min(0.3, most), most)
        rows = np.arange(height) * scale + rng.uniform(0, photo.shape[0] - height * scale)
        columns = np.arange(width) * scale + rng.uniform(0, photo.shape[1] - width * scale)
        made = photo[rows.astype(int)][:, columns.astype(int)]
        if rng.random() < 0.5:
            made = made[:, ::-1]
        yield np.clip(made * rng.uniform(0.6, 1.2), 0, 255).astype(np.float32)


def _photos(name: str, height: int, width: int, change: Callable[[Floats], Floats]) -> "Source":
    def samples(rng: np.random.Generator) -> Iterator[Arrays]:
        for picture in crops(rng, height, width):
            yield {name: np.ascontiguousarray(change(picture)[None])}

    return samples


def _words(name: str, width: int) -> "Source":
    def samples(rng: np.random.Generator) -> Iterator[Arrays]:
        words = tasks.vocabulary()
        faces = tasks.fonts()
        while True:
            text = words[int(rng.integers(len(words)))]
            picture = tasks.normalized(tasks.rendered(text, rng, faces))
            if width < picture.shape[2] and rng.random() < 0.5:
                picture = picture[:, ::-1, :width][
                    :, :, ::-1
                ]  # upside down, as the classifier asks
            yield {name: np.ascontiguousarray(picture[None, :, :, :width])}

    return samples


def _pages(name: str, size: int) -> "Source":
    def samples(rng: np.random.Generator) -> Iterator[Arrays]:
        first = bool(rng.integers(2))
        while True:
            for page in tasks.pages(20, calibration=first):
                top, left = rng.integers(0, 640 - size, 2)
                part = page.picture[:, top : top + size, left : left + size]
                yield {name: np.ascontiguousarray(part[None])}

    return samples


def _files(name: str) -> "Source":
    def samples(rng: np.random.Generator) -> Iterator[Arrays]:
        files = tasks.real_files(600, calibration=bool(rng.integers(2)))
        while True:
            yield {name: tasks.file_bytes(files[int(rng.integers(len(files)))])[None]}

    return samples


def _noise(name: str, shape: tuple[int, ...], mean: float, deviation: float) -> "Source":
    """No recordings can be had: smooth noise of the size that such features have."""

    def samples(rng: np.random.Generator) -> Iterator[Arrays]:
        while True:
            drawn = rng.standard_normal(shape)
            for axis in range(1, len(shape)):
                if shape[axis] > 3:
                    drawn = (drawn + np.roll(drawn, 1, axis) + np.roll(drawn, -1, axis)) / 1.7
            yield {name: (mean + deviation * drawn).astype(np.float32)}

    return samples


def _first(picture: Floats) -> Floats:
    return picture.transpose(2, 0, 1)


Source = Callable[[np.random.Generator], Iterator[Arrays]]
# The preprocessing is that of the packages that ship the models.
SOURCES: Mapping[str, Source] = {
    "mlperf_ad01": _noise("input_1", (1, 640), -20, 12),
    "mlperf_kws": _noise("input_1", (1, 49, 10, 1), 0, 20),
    "mlperf_resnet8": _photos("input_1", 32, 32, lambda p: p),
    "mlperf_vww": _photos("input_1", 96, 96, lambda p: p / 255),
    "ppocr_cls": _words("x", 192),
    "ppocrv4_rec": _words("x", 320),
    "ppocrv4_det": _pages("x", 320),
    "nudenet_yolov8n": _photos("images", 320, 320, lambda p: _first(p) / 255),
    "opennsfw_resnet": _photos("input:0", 224, 224, lambda p: p[:, :, ::-1] - (104, 117, 123)),
    "mtcnn_onet": _photos("input_3", 48, 48, lambda p: (p - 127.5) / 128),
    "magika_v3": _files("bytes"),
    "oww_embedding": _noise("input_1", (1, 76, 32, 1), 5, 2),
}


def drawn(model: str, count: int, *, calibration: bool) -> Iterator[Arrays]:
    """So many inputs of a model; those for calibration are drawn apart from those for evaluation."""
    rng = np.random.default_rng(11 if calibration else 12)
    source = SOURCES[model](rng)
    for _ in range(count):
        yield {
            name: np.asarray(a, a.dtype if a.dtype.kind == "i" else np.float32)
            for name, a in next(source).items()
        }
