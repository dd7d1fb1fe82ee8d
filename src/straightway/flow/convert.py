"""`convert`: ONNX to TFLite, verified."""

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Literal

import numpy as np

from straightway.errors import InvalidRequest, ToolFailed
from straightway.flow import files, limits
from straightway.flow.accepted import accepted
from straightway.flow.blame import blamed
from straightway.flow.borders import Border, borders
from straightway.flow.hybrid import products
from straightway.flow.inputs import Arrays, load_inputs, make_inputs, pinned_inputs
from straightway.flow.open import (
    Opened,
    Options,
    translate_open,
    with_usual_sizes,
)
from straightway.flow.progress import Step, quiet
from straightway.flow.reference import Oracle
from straightway.flow.respelled import answered, asked_again
from straightway.flow.rounded import roundings, verify_rounded
from straightway.flow.stored_weights import check_kind, shrunk
from straightway.flow.translate import Form, Translation, form_for, read, translate
from straightway.flow.twin import needs_twin, with_twin
from straightway.flow.verify import Feed, Verification, mismatch, verify_file
from straightway.ingest.shapes import ShapeRequest, open_dims
from straightway.ir import Graph, Value
from straightway.quant import ends, narrowing
from straightway.quant.scheme import scheme_of
from straightway.remark import Remark
from straightway.run.process import Child
from straightway.targets import known

SEEDS = (0, 1, 2)
ENGINES = ("litert", "onnxruntime")
InputOutput = Literal["keep", "nhwc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asks of a conversion.

    `dims` fixes symbols by name, `shapes` whole inputs. `io`: "nhwc" gives those inputs and outputs
    that are images in the model (N, channels, spatial) the order N, spatial, channels. `inputs`: an
    .npz to compare on instead of seeded arrays. Dimensions that `dims` and `shapes` don't fix stay
    open. `target` is a name of `targets.known`, by default what the model says that it was quantized for;
    `io_type` what inputs and outputs that the model
    rounds are ("float", "integer", "int8", "uint8", "int16"), by default as the target has them.
    `weights`: "float16", "int8" or "int4" stores those of ops that compute with floats in fewer bits; of
    int4, `block` weights of a row share a scale, all where it is 0.
    `step` is told what is being done.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    io: InputOutput = "keep"
    inputs: str | Path | None = None
    seeds: Sequence[int] = SEEDS
    target: str = ""
    io_type: str = ""
    weights: str = "float32"
    block: int = 0
    step: Step = quiet

    def __post_init__(self) -> None:
        """Check what can be checked without the model."""
        check_kind(self.weights, self.block)
        ShapeRequest(dims=self.dims, shapes=self.shapes)  # checks them
        if self.io not in ("keep", "nhwc"):
            raise InvalidRequest(f"io is 'keep' or 'nhwc'; got {self.io!r}")
        ends.check(self.form.io_type)
        if not isinstance(self.inputs, (str, os.PathLike, NoneType)):
            raise InvalidRequest(f"inputs is the path of an .npz file; got {self.inputs!r}")
        seeds = self.seeds if isinstance(self.seeds, Sequence) else ()
        if not seeds or not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
            raise InvalidRequest(f"seeds are whole numbers, one or more; got {self.seeds!r}")

    @property
    def form(self) -> Form:
        """What is asked of the file besides its numbers."""
        last = self.io == "nhwc"
        device = known.find(self.target or known.DEFAULT)
        return form_for(device, channels_last_io=last, io_type=self.io_type)

    def of(self, source: Graph) -> "Request":
        """The same; a model that says for which target it was quantized is meant for that one."""
        told = source.notes.get(known.NOTE, "")
        return self if self.target or told not in known.TARGETS else replace(self, target=told)

    @property
    def fixed(self) -> ShapeRequest:
        """The shapes that are asked for."""
        return ShapeRequest(dims=self.dims, shapes=self.shapes)

    @property
    def declared(self) -> ShapeRequest:
        """The same; what else is open stays so."""
        return replace(self.fixed, keep_open=True)

    @property
    def opening(self) -> Options:
        """How to translate open dimensions."""
        inputs = None if self.inputs is None else Path(self.inputs)
        return Options(form=self.form, inputs=inputs, seeds=self.seeds)

    @property
    def sources(self) -> tuple[Path, ...]:
        """Files beside the model that are read."""
        return () if self.inputs is None else (Path(self.inputs),)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Conversion:
    """A TFLite file, what was done to make it, and the proof that it computes the same.

    `path` is None where the file was only made in memory; `verification` None with `verify=False`.
    `arrays` are inputs to measure on; `sizes` those of the dimensions that stay open, in them.
    """

    model: Path
    path: Path | None
    translation: Translation
    verification: Verification | None
    arrays: Arrays
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """What was made of what, and whether it is equal; not the graphs in it."""
        made = self.path or "in memory"
        proof = "not verified" if self.verification is None else "compared"
        return f"<Conversion {self.model} -> {made}: {self.size_bytes:,} bytes, {proof}>"

    @property
    def data(self) -> bytes:
        """The bytes of the TFLite file."""
        return bytes(self.translation.written.data)

    @property
    def size_bytes(self) -> int:
        """The size of the TFLite file."""
        return self.translation.written.size_bytes

    @property
    def borders(self) -> tuple[Border, ...]:
        """Each QUANTIZE and DEQUANTIZE of the file, and its cause."""
        return borders(self.translation)

    def at(self, path: Path) -> "Conversion":
        """The same, once the file stands somewhere."""
        return replace(self, path=path)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What each step did, could not do, or measured."""
        found = self.verification
        return (*self.translation.remarks, *(() if found is None else found.remarks))


def convert(
    model: str | Path,
    output: str | Path | None = None,
    *,
    verify: bool | None = None,
    request: Request | None = None,
    child: Child | None = None,
    **options: object,
) -> Conversion:
    """Convert an ONNX model to a TFLite file, and prove that it computes the same numbers.

    `options` are the fields of `Request` (`dims`, `shapes`, `io`, `inputs`, `seeds`, `target`,
    `io_type`, `weights`, `block`, `step`).
    A file too large for a flatbuffer is compared if `verify` says so, any other unless it is False:
    the engines hold its weights several times. Raises InvalidModel, Unsupported (all refused nodes together), Mismatch (the file is kept under
    another name), ToolFailed, InvalidRequest. Nothing is written unless all is well.
    """
    asked = request or request_of(options)
    path, target = Path(model), Path(output) if output is not None else None
    if target is not None:
        files.check_model_output(target, path, *asked.sources)
    with within_memory(path), blamed(path, asked.fixed):
        asked.step("reading")
        source = read(path, asked.declared)
        asked = asked.of(source)
        asked.step("converting")
        if verify is False:
            return _stored_as(asked, path, target, translated(path, source, asked), None)
        with ExitStack() as stack:
            # it starts while the model is converted
            engines = child or stack.enter_context(Child(engines=ENGINES))
            made = _opened(path, source, asked)
            if verify is None:
                told = limits.unverified(made.translation.written, path, target)
                if told:
                    return _stored_as(asked, path, target, made.translation.telling(told), None)
            made, proof = _proof(path, source, asked, made, engines)
            return _stored_as(asked, path, target, made.translation, proof)


@contextmanager
def within_memory(model: Path) -> Iterator[None]:
    """Say so where a model, or what is computed from it, does not fit in memory.

    Nothing looks for cycles meanwhile: a graph is millions of objects that live to the end, and going
    through them again and again takes half of the time at 20,000 nodes.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    except MemoryError as error:
        raise ToolFailed(f"{model}: does not fit in the memory of this machine: {error}") from error
    finally:
        if collects:
            gc.enable()


def attempt(model: Path, request: Request) -> Conversion:
    """Convert in memory and compare; the result may differ: see `verification`."""
    with (
        within_memory(model),
        blamed(model, request.fixed),
        Child(engines=ENGINES) as child,
    ):
        request.step("reading")
        source = read(model, request.declared)
        request = request.of(source)
        request.step("converting")
        made = _opened(model, source, request)
        made, proof = _proof(model, source, request, made, child)
        with files.scratch("draft.tflite", made.translation.written) as draft:
            found = prove(model, draft, made.translation, proof)
        return _conversion(model, None, made.translation, found, proof)


def request_of(options: Mapping[str, object]) -> Request:
    """Read the options of `convert`; raises InvalidRequest for one that it does not have."""
    try:
        return Request(**options)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidRequest(f"convert: {error}") from error


def translated(path: Path, source: Graph, request: Request) -> Translation:
    """Translate an ingested graph, at every size of the dimensions that it leaves open."""
    if open_dims(source):
        return translate_open(path, source, replace(request.opening, compares=False)).translation
    return translate(source, request.form)


def _opened(path: Path, source: Graph, request: Request) -> Opened:
    """Translate an ingested graph, and make the inputs to compare on."""
    if open_dims(source):
        return translate_open(path, source, request.opening)
    pinned = pinned_inputs(source)
    translation = translate(source, request.form)
    # by now the graph tells which tables its integers index
    sets = input_sets(source, request, pinned)
    return Opened(translation=translation, sets=sets, pinned=bool(pinned))


def _proof(
    path: Path, source: Graph, request: Request, made: Opened, child: Child
) -> tuple[Opened, "Proof"]:
    """What to compare on: where only the model tells what its inputs mean, such as it takes."""
    source = made.declared or source
    if request.inputs is None:
        oracle = Oracle(child, path)
        if made.symbols:
            made = with_usual_sizes(oracle, source, made)
        else:
            made = replace(made, sets=accepted(oracle, source, made.sets, likely=made.pinned))
    return made, Proof(child=child, sets=made.sets, sizes=made.sizes, step=request.step)


def input_sets(source: Graph, request: Request, pinned: Arrays | None = None) -> list[Arrays]:
    """The inputs to compare on: the user's, or one set for each seed."""
    if request.inputs is not None:
        return [load_inputs(Path(request.inputs), source)]
    return [make_inputs(source, seed, pinned) for seed in request.seeds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a verification needs; `sizes` are those of open dimensions in the last set."""

    child: Child
    sets: list[Arrays]
    sizes: Mapping[str, int] = field(default_factory=dict)
    step: Step

    @property
    def measured(self) -> Arrays:
        """The inputs to measure on: where sizes are open, those that no sample had."""
        return self.sets[-1 if self.sizes else 0]


def _stored_as(
    asked: Request, path: Path, target: Path | None, translation: Translation, proof: Proof | None
) -> Conversion:
    """Write and verify; with other weights than float32, the file of those is verified first."""
    if asked.weights == "float32":
        return _finish(path, target, translation, proof)
    plain = _finish(path, None, translation, proof)
    feeds = [] if proof is None else [stored_inputs(translation, a) for a in proof.sets]
    child = None if proof is None else proof.child
    made = shrunk(translation, asked.weights, child, feeds, asked.block)
    found = made.told(plain.verification)
    if found is not None and not found.equal:
        raise mismatch(path, None, found)
    if target is not None:
        with files.written(target, made.translation.written):
            pass
    return replace(plain, path=target, translation=made.translation, verification=found)


def _finish(
    path: Path, target: Path | None, translation: Translation, proof: Proof | None
) -> Conversion:
    """Write, verify, and only then put the file in its place."""
    data = translation.written
    found = None
    if target is None:
        if proof is not None:
            with files.scratch("draft.tflite", data) as draft:
                found = prove(path, draft, translation, proof)
            if not found.equal:
                raise mismatch(path, None, found)
        return _conversion(path, None, translation, found, proof)
    with files.written(target, data) as draft:
        if proof is not None:
            found = prove(path, draft, translation, proof)
            if not found.equal:
                kept = target.with_suffix(".mismatch.tflite")
                files.move(draft, kept)
                raise mismatch(path, kept, found)
    return _conversion(path, target, translation, found, proof)


def prove(path: Path, draft: Path, translation: Translation, proof: Proof) -> Verification:
    """Compare a file of this translation with the model, by all means that there are."""
    proof.step("comparing with onnxruntime")
    feeds = [Feed(inputs=a, stored=stored_inputs(translation, a)) for a in proof.sets]

    rounds = roundings(translation) or products(translation)
    check = verify_rounded if rounds else verify_file

    def verify(oracle: Oracle) -> Verification:
        return check(oracle, draft, translation, feeds)

    oracle = Oracle(proof.child, path)
    if needs_twin(translation) and check is verify_file:
        found = verify_file(oracle, draft, translation, feeds, search=False)
        proof.step("comparing with varied weights")
        found = with_twin(found, oracle, translation, feeds)
        return found if found.equal or found.difference else verify(oracle)
    found = answered(oracle, verify)
    if not found.equal:
        proof.step("asking another reference")
        found = asked_again(found, oracle, verify)
    return with_twin(found, oracle, translation, feeds) if needs_twin(translation) else found


def stored_inputs(translation: Translation, arrays: Arrays) -> Arrays:
    """Inputs in the order of dimensions that the file takes, and as the integers that it takes."""
    values = {v.name: v for v in translation.lowered.graph.inputs}
    return {
        name: _stored(values[name], array).transpose(translation.layout.io_dims(values[name]))
        for name, array in arrays.items()
    }


def _stored(value: Value, array: np.ndarray) -> np.ndarray:
    if value.dtype == array.dtype:
        return array
    if value.quant is None:
        return narrowing.stored(value.name, value.dtype, array)
    return scheme_of(value).stored(array)


def _conversion(
    path: Path,
    target: Path | None,
    translation: Translation,
    found: Verification | None,
    proof: Proof | None,
) -> Conversion:
    return Conversion(
        model=path,
        path=target,
        translation=translation,
        verification=found,
        arrays=proof.measured if proof is not None else {},
        sizes=proof.sizes if proof is not None else {},
    )
