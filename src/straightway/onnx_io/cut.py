"""A model cut at interior values: what follows each is computed from given numbers.

So every stretch between two cuts can be checked by itself, without what the stretches before it
left of rounding.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from straightway.onnx_io.check import graphs

GIVEN = "/given"


def cut(
    path: Path, values: Mapping[str, tuple[np.dtype, tuple[int, ...]]]
) -> tuple[bytes, tuple[str, ...]]:
    """The model with an input beside each value, of its type and shape, which all its users read.

    Returns the names too of those that a node of the main graph makes; others are left as they are.
    They are outputs now, computed as before; the inputs' names end in GIVEN.
    """
    model = onnx.load(str(path))
    main = model.graph
    made = {name for node in main.node for name in node.output}
    names = tuple(name for name in values if name in made)
    chosen = set(names)
    for graph in graphs(main):
        for node in graph.node:
            for place, name in enumerate(node.input):
                if name in chosen:
                    node.input[place] = name + GIVEN
    known = {output.name for output in main.output}
    for name in names:
        dtype, shape = values[name]
        kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
        main.input.append(onnx.helper.make_tensor_value_info(name + GIVEN, kind, shape))
        if name not in known:
            main.output.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    return model.SerializeToString(), names
