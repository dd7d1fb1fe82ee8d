"""A softmax over the last dimension of an image takes its input through a reshape.

ExecuTorch 1.5.1 keeps an image in NHWC through a softmax without turning its axis, so that it runs
over the channels (backends/xnnpack/_passes/channels_last_tagged_reshape_pass.py treats softmax as
an operator that carries any layout). A reshape demands NCHW. This is no matter of speed: without it
the numbers are wrong, so it is always applied.
"""

from collections.abc import Iterator

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten, together

_NAME = "softmax-axis"
_SOFTMAXES = (aten.softmax.int, aten._softmax.default, aten.log_softmax.int)  # noqa: SLF001 - its name


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_SOFTMAXES):
        shape = scene.sizes(node.args[0])
        if shape is None or len(shape) != 4 or int(node.args[1]) % 4 != 3:
            continue
        yield scene.changed(_NAME, node, "rows apart from the image, since its layout may change")
        write = scene.writer(node)
        rows = write(aten.reshape.default, node.args[0], [together(shape[:3]), shape[3]])
        done = write(node.target, rows, 1, *node.args[2:])
        scene.replace(node, write(aten.reshape.default, done, list(shape)))


REWRITE = Rewrite(
    name=_NAME,
    title="softmax over rows, whatever the layout",
    advice="reshape to two dimensions before a softmax over an image's rows",
    safety="exact",
    apply=_apply,
)
