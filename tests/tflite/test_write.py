"""Writing: constants follow the tables, once each, in the flatbuffer or behind it."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from straightway.domains.layout import lay_out
from straightway.ir import Graph, Value, edit, tensor_type
from straightway.lower.builder import Builder
from straightway.tflite import write as module
from straightway.tflite.read import describe
from straightway.tflite.write import write


def added(constants):
    """x + each of the constants."""
    graph = Graph(name="sum")
    g = Builder(graph)
    y = edit.add_input(graph, Value("x", tensor_type(np.float32, (2, 300))))
    for array in constants:
        y = g.ADD(y, g.const(array))
    edit.set_outputs(graph, [y])
    return lay_out(graph, ["y"]).graph


@pytest.fixture
def arrays():
    """Of the last two, the first repeats one element, and the second another array."""
    found = [np.random.default_rng(k).standard_normal((2, 300), np.float32) for k in range(3)]
    found[1] = np.asfortranarray(found[1])
    return [*found, np.broadcast_to(np.float32(0.5), (2, 300)), found[0].copy()]


@pytest.fixture(params=[False, True], ids=["inside", "behind"])
def outside(request, monkeypatch):
    """Whether no flatbuffer holds the constants."""
    if request.param:
        monkeypatch.setattr(module, "LARGEST_FLATBUFFER_BYTES", 8000)
    return request.param


def stored(data):
    """Where the elements of each constant start, and the elements."""
    model = schema.Model.GetRootAs(data, 0)
    whole = np.frombuffer(data, np.uint8)
    found = []
    for buffer in map(model.Buffers, range(1, model.BuffersLength())):
        start, size = buffer.Offset(), buffer.Size()
        if not buffer.DataIsNone():
            vector = buffer.DataAsNumpy()
            start, size = vector.ctypes.data - whole.ctypes.data, vector.size
        found.append((start, whole[start : start + size]))
    return found


def test_each_constant_stands_once_at_a_multiple_of_16_bytes(arrays, outside):
    graph = added(arrays)
    written = write(graph)
    data = bytes(written.data)
    assert len(data) == written.size_bytes
    found = stored(data)[: len(arrays) - 1]
    for (start, raw), array in zip(found, arrays, strict=False):
        assert start % 16 == 0
        np.testing.assert_array_equal(raw.view(np.float32).reshape(2, 300), array)
    assert len(stored(data)) == len(arrays) - 1 + outside
    sizes = {tensor.name: tensor.constant_bytes for tensor in describe(data).main.tensors}
    assert sorted(sizes.values())[-len(arrays) :] == [2400] * len(arrays)
    assert bytes(write(graph).data) == data


@pytest.mark.usefixtures("outside")
def test_no_constant_is_copied_before_it_is_written(arrays):
    graph = added(arrays)
    parts = [part for part in write(graph).behind if isinstance(part, np.ndarray)]
    made = [node.inputs[1].const for node in graph.nodes]
    assert len(parts) == 4
    assert all(any(np.shares_memory(part, one) for one in made) for part in parts)


def test_what_only_reads_the_flatbuffer_is_told_that_constants_are_missing(arrays, outside):
    model = schema.Model.GetRootAs(bytes(write(added(arrays)).data), 0)
    marks = [model.Metadata(k) for k in range(model.MetadataLength())]
    texts = {m.Name(): model.Buffers(m.Buffer()).DataAsNumpy().tobytes() for m in marks}
    assert texts == ({b"buffer_location": b"outside flatbuffers"} if outside else {})


def test_constants_that_fit_only_without_the_tables_stand_behind(arrays, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_FLATBUFFER_BYTES", 4 * 2400 + 100)
    written = write(added(arrays))
    assert all(not part.strip(b"\0") for part in written.behind if isinstance(part, bytes))
    assert schema.Model.GetRootAs(bytes(written.data), 0).Buffers(1).Offset()
