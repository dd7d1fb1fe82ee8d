"""Sequences that are known become their tensors, and compute what onnxruntime computes."""

from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.parser
import pytest

from straightway.errors import InvalidModel
from straightway.flow.convert import convert
from straightway.run.process import Child

HEAD = '<ir_version: 8, opset_import: ["":17]>\n'
SPLITS = """g (float[N,6,4] x) => (float[N,4] y, float[N,2,4] z, int64 n, float[N,4,4] c)
<int64 one = {1}, int64 size = {2}>
{
  s = SplitToSequence<axis=1>(x, size)
  a = SequenceAt(s, one)
  b = ReduceMax<axes=[1], keepdims=0>(a)
  y = Relu(b)
  t = SequenceErase(s, one)
  first = Constant<value_int=0>()
  u = SequenceInsert(t, a, first)
  l = SequenceLength(u)
  n = Add(l, one)
  e = SequenceErase(u)
  c = ConcatFromSequence<axis=1>(e)
  last = Constant<value_int=-1>()
  z = SequenceAt(u, last)
}"""
UNBOUND = """g (float[2,3,4] x) => (float[2,4,3] y, float[2,8] z)
{
  s = SplitToSequence<axis=1, keepdims=0>(x)
  y = ConcatFromSequence<axis=-1, new_axis=1>(s)
  first = Constant<value_int=0>()
  a = SequenceAt(s, first)
  e = SequenceEmpty()
  f = SequenceInsert(e, a)
  b = Relu(a)
  g = SequenceInsert(f, b)
  z = ConcatFromSequence<axis=1>(g)
}"""
UNEVEN = """g (float[2,7] x) => (float[2,7] y)
<int64[3] sizes = {1, 4, 2}>
{
  s = SplitToSequence<axis=-1>(x, sizes)
  first = Constant<value_int=0>()
  z = Constant<value_int=2>()
  a = SequenceAt(s, z)
  b = SequenceErase(s, z)
  c = SequenceInsert(b, a, first)
  y = ConcatFromSequence<axis=1>(c)
}"""
LAST_SMALLER = """g (float[7,2] x) => (float[1,2] y)
<int64 size = {3}, int64 place = {2}>
{
  s = SplitToSequence(x, size)
  y = SequenceAt(s, place)
}"""


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


@pytest.mark.parametrize("text", [SPLITS, UNBOUND, UNEVEN, LAST_SMALLER])
def test_known_sequences(child: Child, tmp_path: Path, text: str) -> None:
    onnx.save(onnx.parser.parse_model(HEAD + text), tmp_path / "m.onnx")
    assert convert(tmp_path / "m.onnx", child=child).verification is not None


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [("place = {2}", "place = {3}", "no place 3 among 3"), ("size = {3}", "size = {0}", "split 7")],
)
def test_places_and_sizes_that_there_are_not(
    tmp_path: Path, old: str, new: str, found: str
) -> None:
    onnx.save(onnx.parser.parse_model(HEAD + LAST_SMALLER.replace(old, new)), tmp_path / "m.onnx")
    with pytest.raises(InvalidModel, match=found):
        convert(tmp_path / "m.onnx", verify=False)
