"""Samples of the ops that move elements."""

import numpy as np

from row_samples.numbers import whole
from row_samples.sample import Sample

X = whole(2, 3, 4, 5)
SAMPLES = [
    Sample(
        op="RESHAPE",
        inputs=(X,),
        attrs={"shape": (6, 20)},
        reference=lambda x: x.reshape(6, 20),
    ),
    Sample(
        op="TRANSPOSE",
        inputs=(X,),
        attrs={"perm": (0, 3, 1, 2)},
        reference=lambda x: x.transpose(0, 3, 1, 2),
    ),
    Sample(
        op="SLICE",
        inputs=(X,),
        attrs={"begin": (0, 1, 0, 2), "size": (2, 2, 4, 3)},
        reference=lambda x: x[:, 1:, :, 2:],
    ),
    Sample(
        op="STRIDED_SLICE",
        inputs=(X,),
        attrs={
            "begin": (0, 1, 0, 2),
            "end": (2, 3, 3, 5),
            "strides": (1, 1, 1, 1),
            "end_mask": (1, 0, 0, 1),
        },
        reference=lambda x: x[:, 1:, :3, 2:],
    ),
    Sample(
        op="PAD",
        inputs=(X,),
        attrs={"paddings": ((0, 0), (1, 2), (3, 0), (0, 1))},
        reference=lambda x: np.pad(x, ((0, 0), (1, 2), (3, 0), (0, 1))),
    ),
    Sample(
        op="PADV2",
        inputs=(X, np.float32(3).reshape(())),
        attrs={"paddings": ((0, 0), (1, 2), (3, 0), (0, 1))},
        reference=lambda x, v: np.pad(x, ((0, 0), (1, 2), (3, 0), (0, 1)), constant_values=v),
        constant=(1,),
    ),
    Sample(
        op="MIRROR_PAD",
        inputs=(X,),
        attrs={"paddings": ((0, 0), (1, 2), (3, 0), (0, 1)), "mode": "REFLECT"},
        reference=lambda x: np.pad(x, ((0, 0), (1, 2), (3, 0), (0, 1)), mode="reflect"),
    ),
    Sample(
        op="TILE",
        inputs=(X,),
        attrs={"multiples": (1, 2, 3, 1)},
        reference=lambda x: np.tile(x, (1, 2, 3, 1)),
    ),
    Sample(
        op="BROADCAST_TO",
        inputs=(whole(3, 1, 5),),
        attrs={"shape": (2, 3, 4, 5)},
        reference=lambda x: np.broadcast_to(x, (2, 3, 4, 5)),
    ),
    Sample(
        op="CONCATENATION",
        inputs=(X, whole(2, 1, 4, 5), whole(2, 2, 4, 5)),
        attrs={"axis": 1},
        reference=lambda *parts: np.concatenate(parts, 1),
    ),
    Sample(
        op="PACK",
        inputs=(whole(2, 3), whole(2, 3) + 1),
        attrs={"axis": 1, "values_count": 2},
        reference=lambda *parts: np.stack(parts, 1),
    ),
    Sample(
        op="UNPACK",
        inputs=(whole(2, 3, 4),),
        attrs={"axis": 1, "num": 3},
        reference=lambda x: [x[:, k] for k in range(3)],
    ),
    Sample(
        op="SPLIT",
        inputs=(whole(2, 6, 4),),
        attrs={"axis": 1, "num_splits": 3},
        reference=lambda x: np.split(x, 3, 1),
    ),
    Sample(
        op="SPLIT_V",
        inputs=(whole(2, 6, 4),),
        attrs={"axis": 1, "num_splits": 3, "sizes": (1, 3, 2)},
        reference=lambda x: np.split(x, (1, 4), 1),
    ),
    Sample(
        op="REVERSE_V2",
        inputs=(X,),
        attrs={"axes": (2,)},
        reference=lambda x: x[:, :, ::-1],
    ),
    Sample(
        op="CUMSUM",
        inputs=(X,),
        attrs={"axis": 2, "exclusive": False, "reverse": False},
        reference=lambda x: np.cumsum(x, 2),
    ),
    Sample(
        op="SHAPE",
        inputs=(X,),
        attrs={"output_type": "INT32"},
        reference=lambda x: np.array(x.shape, np.int32),
    ),
]
