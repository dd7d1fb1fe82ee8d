"""Fourier transforms and complex numbers."""

from straightway.ir.types import tensor_type
from straightway.tflite.rows import shapes
from straightway.tflite.rows.row import Row, operand, types

COMPLEX = frozenset({tensor_type("complex64", ()).dtype})

ROWS = [
    Row(
        name="RFFT2D",
        layout="fixed",
        infer=shapes.real_fourier,
        types=types("f32"),
        kernel="kernels/rfft2d.cc:176",
        options="Rfft2dOptions",
        # height and width, powers of two; the last two dimensions are cut or filled up to them
        attrs={"lengths": operand(1)},
        xnnpack="XNNPACK's delegate takes no RFFT2D",
    ),
    *(
        Row(
            name=name,
            layout="elementwise",
            infer=shapes.real_of_complex,
            types=COMPLEX,
            kernel=f"kernels/complex_support.cc:{line}",
            xnnpack=f"XNNPACK's delegate takes no {name}",
        )
        for name, line in (("REAL", 69), ("IMAG", 101), ("COMPLEX_ABS", 132))
    ),
]
