"""`--io nhwc` turns what is an image in the model, and nothing else."""

import numpy as np
import pytest

import straightway
from onnx_io.small_models import model, node, save, tensor, weights


def conv(x, w, y, **attributes):
    return node("Conv", f"{x} {w}", y, **attributes)


def image(*more, shape=(2, 3, 10, 12), kernel=(5, 3, 3, 3), before=(), y="c"):
    """A convolution of `h`, with nodes before and behind it."""
    nodes = [*before, conv("h" if before else "x", "w", "c"), *more]
    return model(nodes, [tensor("x", shape)], [tensor(y, None)], {"w": weights(*kernel)})


def shapes(*sizes):
    return np.array(sizes, np.int64)


def with_constants(proto, **constants):
    from onnx import numpy_helper

    proto.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    return proto


def normalised():
    return with_constants(
        image(before=[node("Sub", "x m", "d"), node("Div", "d s", "h")]),
        m=weights(1, 3, 1, 1),
        s=np.abs(weights(1, 3, 1, 1, seed=1)) + 1,
    )


def sound():
    return image(shape=(2, 3, 50), kernel=(5, 3, 7))


def residual():
    proto = with_constants(image(node("Add", "c z", "y"), y="y"))
    proto.graph.input.append(tensor("z", [2, 5, 8, 10]))
    return proto


def channels_last_model():
    nodes = [
        node("Transpose", "x", "t", perm=[0, 3, 1, 2]),
        conv("t", "w", "c"),
        node("Transpose", "c", "y", perm=[0, 2, 3, 1]),
    ]
    inputs, constants = [tensor("x", [2, 10, 12, 3])], {"w": weights(5, 3, 3, 3)}
    return model(nodes, inputs, [tensor("y", None)], constants)


def text():
    nodes = [node("MatMul", "x w", "h"), node("Softmax", "h", "y", axis=-1)]
    return model(nodes, [tensor("x", [2, 7, 5])], [tensor("y", None)], {"w": weights(5, 6)})


def similarity():
    """An attention reads a text in both matrix orders; no window does."""
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t", "y")]
    return model(nodes, [tensor("x", [2, 7, 5])], [tensor("y", None)])


def text_with_convolution():
    return image(
        before=[node("Transpose", "x", "h", perm=[0, 2, 1])], shape=(2, 9, 4), kernel=(5, 4, 3)
    )


def sound_that_is_framed():
    proto = image(before=[node("Unsqueeze", "x a", "h")], shape=(2, 20, 9), kernel=(5, 1, 3, 3))
    return with_constants(proto, a=shapes(1))


def detector():
    """Boxes in a row are no image any more."""
    proto = image(node("Reshape", "c r", "y"), y="y")
    return with_constants(proto, r=shapes(2, 5, -1))


def image_and_state():
    nodes = [conv("x", "w", "c"), node("Tanh", "s", "t")]
    inputs = [tensor("x", [2, 3, 10, 12]), tensor("s", [2, 4, 6])]
    return model(nodes, inputs, [tensor("c", None), tensor("t", None)], {"w": weights(5, 3, 3, 3)})


@pytest.mark.parametrize(
    ("proto", "turned", "left"),
    [
        (image(), {"x", "c"}, set()),
        (normalised(), {"x", "c"}, set()),
        (sound(), {"x", "c"}, set()),
        (residual(), {"x", "z", "y"}, set()),
        (image(shape=(1, 1, 10, 12), kernel=(1, 1, 3, 3)), {"x", "c"}, set()),
        (image(node("GlobalAveragePool", "c", "y"), y="y"), {"x", "y"}, set()),
        (channels_last_model(), set(), {"x", "y"}),
        (text(), set(), {"x", "y"}),
        (similarity(), set(), {"x", "y"}),
        (text_with_convolution(), {"c"}, {"x"}),
        (sound_that_is_framed(), {"c"}, {"x"}),
        (detector(), {"x"}, {"y"}),
        (image_and_state(), {"x", "c"}, {"s", "t"}),
    ],
    ids=[
        "image", "normalised", "sound", "residual", "grey", "average", "channels_last_model", "text",
        "similarity", "text_with_convolution", "framed", "detector", "image_and_state",
    ],
)  # fmt: skip
def test_images_are_turned_and_all_else_is_left(proto, turned, left, tmp_path, child):
    path = save(proto, tmp_path / "m.onnx")
    made = straightway.convert(path, io="nhwc", seeds=[0], child=child)
    assert made.verification.equal
    told = [remark for remark in made.remarks if remark.step == "domains.images"]
    assert {remark.node for remark in told if remark.kind == "done"} == turned
    assert {remark.node for remark in told if remark.kind == "missed"} == left
    kept = straightway.convert(path, verify=False)
    graphs = kept.translation.layout.graph, made.translation.layout.graph
    sizes = [{v.name: v.shape for v in (*g.inputs, *g.outputs)} for g in graphs]
    for name, shape in sizes[0].items():
        wanted = (shape[0], *shape[2:], shape[1]) if name in turned else shape
        assert sizes[1][name] == wanted


def test_without_the_option_nothing_is_said(tmp_path):
    made = straightway.convert(save(image(), tmp_path / "m.onnx"), verify=False)
    assert not [remark for remark in made.remarks if remark.step == "domains.images"]
