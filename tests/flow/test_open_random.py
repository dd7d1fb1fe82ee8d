"""Random models with open dimensions: equal at sizes that no sample had."""

import pytest
from open_models import assert_equal_at, floats, save
from open_random import IMAGE, SEQUENCE, Images, Sequences, random_model

import straightway

SIZES = ({"N": 1, "H": 16, "W": 21, "T": 5}, {"N": 3, "H": 33, "W": 40, "T": 31})


@pytest.mark.parametrize("kind", [Images, Sequences])
@pytest.mark.parametrize("seed", range(16))
def test_random_models_hold_at_any_size(tmp_path, child, kind, seed):
    model = random_model(kind, seed)
    inputs = IMAGE if kind is Images else SEQUENCE
    path = save(tmp_path / "m.onnx", model.nodes, inputs, [model.last], model.constants)
    done = straightway.convert(path, child=child)
    ((name, shape),) = inputs.items()
    feeds = [{name: floats(*(sizes.get(size, size) for size in shape))} for sizes in SIZES]
    assert_equal_at(path, done.data, *feeds)
