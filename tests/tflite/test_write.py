"""Writing: once a file is written, its constants are views of it."""

import numpy as np

from straightway.domains.layout import lay_out
from straightway.ir import Graph, Value, edit, tensor_type
from straightway.lower.builder import Builder
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


def test_constants_are_views_of_the_file_and_stay_what_they_were():
    arrays = [np.random.default_rng(k).standard_normal((2, 300), np.float32) for k in range(3)]
    arrays.append(np.broadcast_to(np.float32(0.5), (2, 300)))
    arrays.append(arrays[0].copy())
    graph = added(arrays)
    written = write(graph)
    whole = np.frombuffer(written.data, np.uint8)
    made = [node.inputs[1] for node in graph.nodes]
    assert len(made) == len(arrays)
    for value, array in zip(made, arrays, strict=True):
        np.testing.assert_array_equal(value.const, array)
        assert np.shares_memory(value.const, whole)
        assert not value.const.flags.writeable
    assert np.shares_memory(made[0].const, made[-1].const)
    assert bytes(write(graph).data) == bytes(written.data)
