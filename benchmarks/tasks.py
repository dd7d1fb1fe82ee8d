"""Real tasks with known answers: reading rendered words, telling files' types apart, digits.

Each has calibration data that its evaluation never sees. Needs pillow and scikit-learn, and for
words a TrueType font or two.
"""

import keyword
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage

Floats = NDArray[np.float32]
# The outputs of a model on inputs by name.
Runner = Callable[[Mapping[str, np.ndarray]], Sequence[np.ndarray]]
LINE = (48, 320)
PAGE = (640, 640)
FONTS = Path("/usr/share/fonts")
STYLES = ("Oblique", "Italic", "ExtraLight")
BYTES, BLOCK, PADDING = 1024, 4096, 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A rendered word: its text and the picture, float32 [3, 48, 320] from -1 to 1."""

    text: str
    picture: Floats


def vocabulary() -> list[str]:
    """Words that every Python knows, longest and shortest left out."""
    names = {*sys.stdlib_module_names, *keyword.kwlist, *dir(__builtins__), *dir(np)}
    words = sorted(name.strip("_") for name in names)
    return [word for word in dict.fromkeys(words) if 4 <= len(word) <= 14 and "_" not in word]


def fonts() -> list[Path]:
    """Upright TrueType fonts of this machine, a family at most twice."""
    found = sorted(path for path in FONTS.rglob("*.ttf") if "Math" not in path.name)
    return [path for path in found if not any(style in path.name for style in STYLES)]


def words(count: int, *, calibration: bool) -> Iterator[Word]:
    """Words in several fonts, sizes and shades; those for calibration are others."""
    rng = np.random.default_rng(1 if calibration else 2)
    every = vocabulary()
    mine = every[::2] if calibration else every[1::2]
    faces = fonts()
    for text in rng.choice(mine, count, replace=count > len(mine)):
        yield Word(text=str(text), picture=normalized(rendered(str(text), rng, faces)))


def rendered(text: str, rng: np.random.Generator, faces: Sequence[Path]) -> Image.Image:
    """A line of text on a light ground, as high as the model wants it, padded behind."""
    size = int(rng.integers(18, 40))
    face = faces[int(rng.integers(len(faces)))] if faces else None
    font = ImageFont.truetype(str(face), size) if face else ImageFont.load_default(size)
    left, top, right, bottom = font.getbbox(text)
    ground, ink = int(rng.integers(200, 256)), int(rng.integers(0, 90))
    margin = int(rng.integers(3, 8))
    box = (int(right - left) + 2 * margin, int(bottom - top) + 2 * margin)
    picture = Image.new("RGB", box, (ground,) * 3)
    ImageDraw.Draw(picture).text((margin - left, margin - top), text, (ink,) * 3, font)
    noise = rng.normal(0, 4, (box[1], box[0], 3))
    return Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))


def normalized(picture: Image.Image) -> Floats:
    """Scaled to the height of a line, blue first, from -1 to 1, zeros behind."""
    height, width = LINE
    scaled = picture.resize((min(width, max(1, picture.width * height // picture.height)), height))
    made = np.zeros((3, height, width), np.float32)
    made[:, :, : scaled.width] = _signed(np.asarray(scaled))
    return made


def _signed(pixels: np.ndarray) -> Floats:
    return (pixels[:, :, ::-1].transpose(2, 0, 1) / 127.5 - 1).astype(np.float32)


def alphabet(model: Path) -> list[str]:
    """What the recogniser's classes stand for; the first is nothing, the last a space."""
    properties = {p.key: p.value for p in onnx.load(str(model)).metadata_props}
    return ["", *properties["character"].split("\n"), " "]


def decoded(scores: np.ndarray, characters: Sequence[str]) -> str:
    """The text of [time, classes]: repeated classes once, then those that stand for nothing out."""
    best = scores.argmax(-1)
    kept = [k for at, k in enumerate(best) if at == 0 or k != best[at - 1]]
    return "".join(characters[k] for k in kept).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Several words under each other: the picture float32 [3, 640, 640], texts from the top."""

    texts: tuple[str, ...]
    picture: Floats


def pages(count: int, *, calibration: bool) -> Iterator[Page]:
    """Pages of eight words, one below the other."""
    rng = np.random.default_rng(3 if calibration else 4)
    mine = vocabulary()[::2] if calibration else vocabulary()[1::2]
    for _ in range(count):
        sheet = Image.new("RGB", PAGE, (245, 245, 245))
        texts = [str(text) for text in rng.choice(mine, 8, replace=False)]
        for row, text in enumerate(texts):
            word = rendered(text, rng, fonts())
            sheet.paste(
                word, (int(rng.integers(10, PAGE[0] - min(word.width, 600))), 20 + 76 * row)
            )
        yield Page(texts=tuple(texts), picture=_signed(np.asarray(sheet)))


def boxes(heat: np.ndarray, threshold: float = 0.3) -> list[tuple[int, int, int, int]]:
    """Left, top, right, bottom of the detected lines, from the top; grown as DB's shrunk maps ask."""
    labels, _ = ndimage.label(heat > threshold)
    found = []
    for rows, columns in ndimage.find_objects(labels):
        height, width = rows.stop - rows.start, columns.stop - columns.start
        if min(height, width) < 3:
            continue
        grow = int(1.6 * height * width / (2 * (height + width))) + 1
        found.append(
            (columns.start - grow, rows.start - grow, columns.stop + grow, rows.stop + grow)
        )
    return sorted(found, key=lambda box: box[1])


def read_page(
    page: Page, detect: Runner, turn: Runner, recognise: Runner, characters: Sequence[str]
) -> list[str]:
    """All words of a page: found, turned if upside down, read; from the top."""
    (heat,) = detect({"x": page.picture[None]})
    sheet = Image.fromarray(_pixels(page.picture))
    texts = []
    for box in boxes(heat[0, 0]):
        cut = sheet.crop(box)
        small = normalized(cut)[:, :, :192]
        (sides,) = turn({"x": small[None]})
        if sides[0, 1] > 0.9:
            cut = cut.rotate(180)
        (scores,) = recognise({"x": normalized(cut)[None]})
        texts.append(decoded(scores[0], characters))
    return texts


def _pixels(picture: Floats) -> np.ndarray:
    return ((picture.transpose(1, 2, 0)[:, :, ::-1] + 1) * 127.5).round().astype(np.uint8)


def exact_matches(found: Sequence[Sequence[str]], given: Sequence[Page]) -> tuple[int, int]:
    """How many of the pages' words are read exactly, of how many."""
    pairs = zip(found, given, strict=True)
    right = sum(sum(text in read for text in page.texts) for read, page in pairs)
    return right, sum(len(page.texts) for page in given)


def real_files(count: int, *, calibration: bool) -> list[Path]:
    """Files of this Python and its packages, of as many types as there are, in turns."""
    roots = [Path(np.__file__).parents[1], Path(sys.base_prefix) / "lib", Path("/usr/share/doc")]
    kinds: dict[str, list[Path]] = {}
    for root in roots:
        for path in sorted(root.rglob("*")):
            size = path.stat().st_size if path.is_file() and not path.is_symlink() else 0
            if 64 <= size <= 2**20:
                kinds.setdefault(path.suffix.lower() or path.name, []).append(path)
    chosen: list[Path] = []
    for turn in range(max(map(len, kinds.values()))):
        chosen += [paths[turn] for paths in kinds.values() if turn < len(paths)]
        if len(chosen) >= 2 * count:
            break
    return chosen[0 if calibration else 1 :: 2][:count]


def file_bytes(path: Path) -> NDArray[np.int32]:
    """The first and last kilobyte as Magika takes them, int32 [2048]; 256 where there is none."""
    data = path.read_bytes()
    first = data[:BLOCK].lstrip()[:BYTES]
    last = data[-BLOCK:].rstrip()[-BYTES:]
    made = np.full(2 * BYTES, PADDING, np.int32)
    made[: len(first)] = np.frombuffer(first, np.uint8)
    made[2 * BYTES - len(last) :] = np.frombuffer(last, np.uint8)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """A small classifier trained here on scikit-learn's digits, and disjoint data."""

    model: onnx.ModelProto
    calibration: Floats
    pictures: Floats
    labels: NDArray[np.int64]


def digits() -> Digits:
    """Train it: 64 pixels, two hidden layers, ten classes; the same every time."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - slow to import
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415 - slow to import

    data = load_digits()
    pictures = (data.data / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(pictures))
    train, test = order[:1000], order[1000:]
    trained = MLPClassifier((64, 32), max_iter=300, random_state=0)
    trained.fit(pictures[train], data.target[train])
    return Digits(
        model=_perceptron(trained.coefs_, trained.intercepts_),
        calibration=pictures[train[:200]],
        pictures=pictures[test],
        labels=data.target[test].astype(np.int64),
    )


def _perceptron(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray]) -> onnx.ModelProto:
    nodes, constants, name = [], [], "x"
    last = len(weights) - 1
    for k, (w, b) in enumerate(zip(weights, biases, strict=True)):
        constants.append(onnx.numpy_helper.from_array(w.astype(np.float32), f"w{k}"))
        constants.append(onnx.numpy_helper.from_array(b.astype(np.float32), f"b{k}"))
        nodes.append(onnx.helper.make_node("Gemm", [name, f"w{k}", f"b{k}"], [f"h{k}"]))
        name = "y" if k == last else f"a{k}"
        kind = "Softmax" if k == last else "Relu"
        nodes.append(onnx.helper.make_node(kind, [f"h{k}"], [name]))
    ends = [
        onnx.helper.make_tensor_value_info(end, onnx.TensorProto.FLOAT, [1, size])
        for end, size in (("x", len(weights[0])), ("y", len(biases[-1])))
    ]
    graph = onnx.helper.make_graph(nodes, "digits", ends[:1], ends[1:], constants)
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
