"""Calibration data: samples of a model's inputs from files, pictures, or a function of the user's."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from straightway.errors import InvalidRequest, ToolFailed
from straightway.flow.inputs import Arrays, make_inputs, read_arrays
from straightway.ir import Graph, Value

ARRAY_FILES = (".npy", ".npz")
PICTURE_FILES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm")
CHANNELS = ("rgb", "bgr", "gray")
LAYOUTS = ("nchw", "nhwc")
INSTALL = "Pictures need pillow: pip install 'straightway[images]'"
EXAMPLE = (
    "Give 100 to 500 typical inputs: --calibration FOLDER (of .npy or .npz, or of pictures with "
    "--mean and --std), --calibration DATA.npz, --calibration MODULE:FUNCTION or FILE.py:FUNCTION (a "
    "generator of dictionaries of arrays); or --random, for a trial without data"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """How a picture becomes an input: scaled to the input's size, (pixel / 255 - mean) / std.

    `mean` and `std` have one number, or one for each channel in the order of `channels` ("rgb",
    "bgr", "gray"). Where the channels stand follows from the input's shape, unless `layout` says it
    ("nchw" or "nhwc"); `size` is height and width, which the input's shape says unless it is open.
    """

    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    channels: str = "rgb"
    size: tuple[int, int] | None = None
    layout: str = ""

    def __post_init__(self) -> None:
        """Check what can be checked without a picture."""
        if self.channels not in CHANNELS:
            raise InvalidRequest(f"channels are {', '.join(CHANNELS)}; got {self.channels!r}")
        if self.layout not in ("", *LAYOUTS):
            raise InvalidRequest(f"layouts are {', '.join(LAYOUTS)}; got {self.layout!r}")
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            count = 1 if self.channels == "gray" else 3
            if len(numbers) not in (1, count) or not np.isfinite(numbers).all():
                raise InvalidRequest(
                    f"{name} is one number, or one for each of {count} channels; got {numbers}"
                )
        if 0 in self.std:
            raise InvalidRequest("std divides, so it can't be 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One set of inputs, and where it is from."""

    label: str
    inputs: Arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Calibration data, read as it is used. `count` is 0 where only reading tells it.

    `is_random`: made up, so that ranges and accuracy say little.
    """

    description: str
    count: int
    is_random: bool
    samples: Callable[[], Iterator[Sample]]

    def __iter__(self) -> Iterator[Sample]:
        """Read the samples from the first one on; raises InvalidRequest for one that doesn't fit."""
        return self.samples()


def open_data(
    data: "str | Path | Callable[[], Iterable[object]] | None",
    graph: Graph,
    *,
    pictures: Pictures | None = None,
    random: int = 0,
) -> Samples:
    """Find the samples for the inputs of an ingested graph of known shapes.

    `data` is a folder, an .npz file, "module:function", "file.py:function", or a function; None with
    `random` makes so many seeded inputs. Raises InvalidRequest where there is nothing, with an example of what to give.
    """
    check_data(data, random=random)
    if data is None:
        return _random(graph, random)
    if callable(data):
        return _generated(data, getattr(data, "__name__", "a function"), graph)
    path = Path(data)
    if path.is_dir():
        return _folder(path, graph, pictures)
    if path.is_file():
        return _archive(path, graph)
    return _generated(_function(str(data)), str(data), graph)


def check_data(
    data: "str | Path | Callable[[], Iterable[object]] | None", *, random: int = 0
) -> None:
    """Raise InvalidRequest where there is no such data, before anything slow begins."""
    if data is None and random < 1:
        raise InvalidRequest(f"there is no calibration data. {EXAMPLE}")
    if data is None or callable(data) or Path(data).exists():
        return
    module, colon, _ = str(data).rpartition(":")
    is_function = colon and (Path(module).is_file() if _is_file(module) else not Path(data).suffix)
    if not is_function:
        raise InvalidRequest(f"{data}: there is no such file or folder. {EXAMPLE}")


def shapes_of(
    data: "str | Path | Callable[[], Iterable[object]] | None",
    declared: Graph,
    pictures: Pictures | None = None,
) -> dict[str, tuple[int, ...]]:
    """The shapes that the first sample gives to inputs with open dimensions.

    Raises InvalidRequest where there is no sample, or none whose size is its own (a picture).
    """
    arrays, many = _first_arrays(data, declared, pictures)
    return {
        value.name: _shape_of(arrays[value.name], value, many=many)
        for value in declared.inputs
        if not value.known_type.is_static and value.name in arrays
    }


def _first_arrays(
    data: "str | Path | Callable[[], Iterable[object]] | None",
    declared: Graph,
    pictures: Pictures | None,
) -> tuple[Mapping[str, np.ndarray], bool]:
    """The arrays of one sample, or of many behind each other."""
    if data is None:
        raise InvalidRequest(f"there is no calibration data. {EXAMPLE}")
    path = None if callable(data) else Path(data)
    if path is not None and path.is_file():
        return _named(read_arrays(path), declared, str(path)), True
    if path is not None and path.is_dir():
        there = sorted(f for f in path.iterdir() if f.suffix.lower() in ARRAY_FILES)
        if there:
            return _array_file(there[0], declared), False
        if pictures is not None and pictures.size is not None:
            return {
                v.name: _picture_like(v, pictures, pictures.size) for v in declared.inputs
            }, False
        inputs = {v.name: list(v.known_type.shape) for v in declared.inputs}
        raise InvalidRequest(
            f"{path}: pictures take the size of the model's input, which is open: {inputs}; "
            "say which: --size 224x224"
        )
    function = data if callable(data) else _function(str(data))
    name = getattr(function, "__name__", str(data))
    for one in _items(function, name):
        return _yielded(one, declared, f"{name}[0]"), False
    raise InvalidRequest(f"{name}: there is no sample in it")


def _picture_like(value: Value, pictures: Pictures, size: tuple[int, int]) -> np.ndarray:
    """An array of the shape that a picture becomes."""
    dims = value.known_type.shape
    count = 1 if pictures.channels == "gray" else 3
    first = pictures.layout == "nchw" or (not pictures.layout and count in dims[:2])
    return np.zeros((1, count, *size) if first else (1, *size, count), np.int8)


def _shape_of(array: np.ndarray, value: Value, *, many: bool) -> tuple[int, ...]:
    """The shape of one sample: `many` may stand along a batch that is open or one, or before it."""
    dims = value.known_type.shape
    if array.ndim == len(dims) + 1 and many:
        return array.shape[1:]
    if array.ndim == len(dims) - 1:
        return (1, *array.shape)
    if array.ndim == len(dims) and many and (isinstance(dims[0], str) or dims[0] == 1):
        return (1, *array.shape[1:])
    return array.shape


def _random(graph: Graph, count: int) -> Samples:
    def samples() -> Iterator[Sample]:
        for seed in range(count):
            yield Sample(label=f"seed {seed}", inputs=make_inputs(graph, seed))

    return Samples(
        description=f"{count} random inputs", count=count, is_random=True, samples=samples
    )


def _archive(path: Path, graph: Graph) -> Samples:
    """One .npz: an array for each input, of one sample or of many along a first dimension."""
    arrays = _named(read_arrays(path), graph, str(path))
    counts = {v.name: _count(arrays[v.name], v) for v in graph.inputs}
    if len(set(counts.values())) != 1:
        raise InvalidRequest(f"{path}: its arrays have different numbers of samples: {counts}")
    count = counts[graph.inputs[0].name]

    def samples() -> Iterator[Sample]:
        for k in range(count):
            label = f"{path.name}[{k}]"
            yield _sample(label, {n: _kth(arrays[n], k, count) for n in arrays}, graph)

    return Samples(
        description=f"{count} samples of {path.name}", count=count, is_random=False, samples=samples
    )


def _count(array: np.ndarray, value: Value) -> int:
    """How many samples an array holds: it may have a dimension before, or as, the batch of one."""
    if array.shape == value.shape:
        return 1
    before = array.ndim == value.rank + 1 and array.shape[1:] == value.shape
    batch = value.rank > 0 and value.shape[0] == 1 and array.shape[1:] == value.shape[1:]
    return len(array) if before or batch else 1


def _kth(array: np.ndarray, k: int, count: int) -> np.ndarray:
    return array if count == 1 else array[k]


def _folder(path: Path, graph: Graph, pictures: Pictures | None) -> Samples:
    there = sorted(file for file in path.iterdir() if file.is_file())
    files = [file for file in there if file.suffix.lower() in ARRAY_FILES]
    images = [file for file in there if file.suffix.lower() in PICTURE_FILES]
    if files and images:
        raise InvalidRequest(f"{path}: holds arrays and pictures; give a folder of one kind")
    if not files and not images:
        raise InvalidRequest(f"{path}: holds no .npy, no .npz and no pictures. {EXAMPLE}")
    if images and pictures is None:
        raise InvalidRequest(
            f"{path}: pictures need their preprocessing: --mean, --std and --channels, as the model "
            "was trained; --mean 0 --std 1 leaves them from 0 to 1"
        )
    chosen = pictures or Pictures()

    def samples() -> Iterator[Sample]:
        for file in files or images:
            read = _array_file(file, graph) if files else _picture(file, graph, chosen)
            yield _sample(file.name, read, graph)

    kind = "arrays" if files else "pictures"
    count = len(files or images)
    return Samples(
        description=f"{count} {kind} of {path.name}", count=count, is_random=False, samples=samples
    )


def _array_file(file: Path, graph: Graph) -> Mapping[str, np.ndarray]:
    if file.suffix.lower() == ".npz":
        return _named(read_arrays(file), graph, str(file))
    if len(graph.inputs) != 1:
        names = [v.name for v in graph.inputs]
        raise InvalidRequest(f"{file}: the model has inputs {names}; give an .npz of each")
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise InvalidRequest(f"{file}: is no array, or is damaged: {error}") from error
    return {graph.inputs[0].name: array}


def _named(arrays: Mapping[str, np.ndarray], graph: Graph, where: str) -> dict[str, np.ndarray]:
    """The arrays of the inputs; of a model with one input, the only array whatever its name."""
    names = [value.name for value in graph.inputs]
    if len(names) == 1 and len(arrays) == 1:
        return dict(zip(names, arrays.values(), strict=True))
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InvalidRequest(f"{where}: lacks {missing}; it holds {sorted(arrays)}")
    return {name: arrays[name] for name in names}


def _sample(label: str, arrays: Mapping[str, np.ndarray], graph: Graph) -> Sample:
    inputs = {v.name: _fitted(arrays[v.name], v, label) for v in graph.inputs}
    return Sample(label=label, inputs=inputs)


def _fitted(array: np.ndarray, value: Value, label: str) -> np.ndarray:
    """An input's array: of its shape, save for a batch of one, and of a type that it can hold."""
    made = array[None] if (1, *array.shape) == value.shape else array
    numbers = np.issubdtype(made.dtype, np.floating) == np.issubdtype(value.dtype, np.floating)
    if made.shape != value.shape or not numbers:
        hint = ""
        if np.issubdtype(value.dtype, np.floating) and not numbers:
            hint = ". Convert it as the model's preprocessing does"
        raise InvalidRequest(
            f"{label}: '{value.name}' is {array.dtype}{list(array.shape)}; the model takes "
            f"{value.dtype}{list(value.shape)}{hint}"
        )
    stored = np.ascontiguousarray(made, value.dtype)
    if stored.dtype.kind == "f" and not np.isfinite(stored).all():
        raise InvalidRequest(
            f"{label}: '{value.name}' holds numbers that are not finite, of which no range can be "
            "taken; leave the sample out"
        )
    return stored


def _picture(file: Path, graph: Graph, pictures: Pictures) -> Mapping[str, np.ndarray]:
    """One picture as the only input."""
    try:
        from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ToolFailed(INSTALL) from error
    if len(graph.inputs) != 1 or graph.inputs[0].rank not in (3, 4):
        shapes = {v.name: list(v.shape) for v in graph.inputs}
        raise InvalidRequest(f"{file}: pictures need one input of 3 or 4 dimensions; got {shapes}")
    (value,) = graph.inputs
    last, height, width = _place(value, pictures, file)
    try:
        with Image.open(file) as opened:
            mode = "L" if pictures.channels == "gray" else "RGB"
            pixels = np.asarray(opened.convert(mode).resize((width, height)), np.float32)
    except (OSError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InvalidRequest(f"{file}: is no picture that pillow reads: {error}") from error
    pixels = pixels.reshape(height, width, -1)
    if pictures.channels == "bgr":
        pixels = pixels[:, :, ::-1]
    mean, std = (np.asarray(one, np.float32) for one in (pictures.mean, pictures.std))
    made = (pixels / np.float32(255) - mean) / std
    made = made if last else made.transpose(2, 0, 1)
    return {value.name: made.reshape(value.shape).astype(value.dtype)}


def _place(value: Value, pictures: Pictures, file: Path) -> tuple[bool, int, int]:
    """Whether an input's channels stand last, its height and its width."""
    count = 1 if pictures.channels == "gray" else 3
    sizes = value.shape[-3:]
    one = value.shape[:-3] in ((), (1,))
    found = None
    if one and sizes[0] == count and pictures.layout != "nhwc":
        found = False, sizes[1], sizes[2]
    elif one and sizes[2] == count and pictures.layout != "nchw":
        found = True, sizes[0], sizes[1]
    if found is not None:
        if pictures.size not in (None, found[1:]):
            raise InvalidRequest(
                f"'{value.name}' is {list(value.shape)}; got a size of {pictures.size}"
            )
        return found
    raise InvalidRequest(
        f"{file}: '{value.name}' is {list(value.shape)}, which is no picture of {count} "
        f"channel{'s' * (count > 1)}"
    )


def _is_file(module: str) -> bool:
    return Path(module).suffix == ".py"


def _function(name: str) -> Callable[[], Iterable[object]]:
    """The user's function: of a module, also in the working directory, or of a file and its like."""
    module, _, attribute = name.rpartition(":")
    place = Path(module).resolve().parent if _is_file(module) else Path.cwd()
    sys.path.insert(0, str(place))
    try:
        loaded = _of_file(Path(module)) if _is_file(module) else importlib.import_module(module)
        found: object = getattr(loaded, attribute)
    except (Exception, SystemExit) as error:
        raise InvalidRequest(f"{name}: can't be imported: {error}") from error
    finally:
        sys.path.pop(0)
    if not callable(found):
        raise InvalidRequest(f"{name}: is no function, but {type(found).__name__}")
    return found


def _of_file(file: Path) -> ModuleType:
    """A file as a module of its own, whatever other module has its name."""
    spec = importlib.util.spec_from_file_location(f"straightway_data_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python module")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _generated(function: Callable[[], Iterable[object]], name: str, graph: Graph) -> Samples:
    """What a function yields: a dictionary, a sequence in the inputs' order, or one array."""

    def samples() -> Iterator[Sample]:
        for number, one in enumerate(_items(function, name)):
            label = f"{name}[{number}]"
            yield _sample(label, _yielded(one, graph, label), graph)

    if isinstance(function, type) or inspect.isgenerator(function):
        raise InvalidRequest(f"{name}: give the function that makes a generator")
    return Samples(description=f"what {name} yields", count=0, is_random=False, samples=samples)


def _items(function: Callable[[], Iterable[object]], name: str) -> Iterator[object]:
    """What a function of the user's yields; raises InvalidRequest for what it raises."""
    try:
        made = function()
    except (Exception, SystemExit) as error:
        raise InvalidRequest(f"{name}: raises {type(error).__name__}: {error}") from error
    if not isinstance(made, Iterable):
        raise InvalidRequest(f"{name}: gives {type(made).__name__}, not a series of inputs")
    iterator = iter(made)
    while True:
        try:
            one = next(iterator)
        except StopIteration:
            return
        except (Exception, SystemExit) as error:
            raise InvalidRequest(f"{name}: raises {type(error).__name__}: {error}") from error
        yield one


def _yielded(one: object, graph: Graph, label: str) -> Mapping[str, np.ndarray]:
    if isinstance(one, Mapping):
        return _named({str(k): np.asarray(v) for k, v in one.items()}, graph, label)
    several = list(one) if isinstance(one, (tuple, list)) else [one]
    if len(several) != len(graph.inputs):
        raise InvalidRequest(f"{label}: {len(several)} arrays; the model has {len(graph.inputs)}")
    return {v.name: np.asarray(a) for v, a in zip(graph.inputs, several, strict=True)}
