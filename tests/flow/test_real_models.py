"""Published models, whole: equal to onnxruntime, in one partition where that can be, few transposes.

The models are those of the benchmark; without a folder of them the tests skip.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

import straightway

FOLDER = os.environ.get("STRAIGHTWAY_CORPUS")
MODELS = {
    model["name"]: model
    for model in json.loads(
        (Path(__file__).parents[2] / "benchmarks" / "models.json").read_text(encoding="utf-8")
    )
}
# The least number of TRANSPOSE ops with the model's own order of inputs and outputs, as an integer
# program proves it; models that are not named need none.
TRANSPOSES = {
    "eeg_spindle_unet1d": 1,
    "light_inception_v2": 1,
    "light_shufflenet": 17,
    "nudenet_yolov8n": 2,
    "ppocr_cls": 1,
    "ppocrv4_det": 1,
    "ppocrv4_rec": 5,
}
# What no spelling of XNNPACK's can do cuts these.
PARTITIONS = {"basic_pitch": 4}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_published_model_is_equal_and_needs_no_more_than_the_least(name):
    path = Path(FOLDER or "") / f"{name}.onnx"
    if not FOLDER or not path.exists():
        pytest.skip("STRAIGHTWAY_CORPUS names no folder with this model")
    done = straightway.convert(path, shapes=MODELS[name]["shapes"])
    assert done.verification is not None
    assert done.verification.equal
    kinds = Counter(node.op.name for node in done.translation.written.operators)
    assert kinds["TRANSPOSE"] <= TRANSPOSES.get(name, 0)
    assert done.translation.layout.plan.minimal
    assert len(done.verification.ran.placement.partitions) <= PARTITIONS.get(name, 1)
    assert len(done.verification.interior) >= min(10, len(done.translation.interior()))
