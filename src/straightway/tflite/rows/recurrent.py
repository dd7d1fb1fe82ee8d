"""Recurrent ops. Their states are variable tensors: zeros when allocated, kept from run to run.

So a file with one of them computes what the model does only in its first run, or after
`reset_all_variables`. A graph that must not remember has to write its loop out.
"""

from straightway.ir import Node
from straightway.tflite.rows import shapes
from straightway.tflite.rows.row import ACTIVATION, Row, field_, types
from straightway.tflite.rows.versions import has_option, highest, type_of


def _lstm(node: Node) -> int:
    if type_of(node, 0) == "i16" and type_of(node, 2) == "i8":
        return 5
    if type_of(node, 0) == "f32" and type_of(node, 2) == "i8":
        return 3 if node.attrs.get("asymmetricQuantizeInputs") else 2
    return 1


ROWS = [
    Row(
        name="UNIDIRECTIONAL_SEQUENCE_LSTM",
        layout="fixed",
        infer=shapes.recurrent,
        types=types("f32"),
        kernel="kernels/unidirectional_sequence_lstm.cc:1371",
        # 24 operands: x, 4 input weights, 4 recurrent weights, 3 peepholes, 4 biases (each input,
        # forget, cell, output), projection and its bias, output state, cell state, 4 norms
        options="UnidirectionalSequenceLSTMOptions",
        attrs={
            "activation": ACTIVATION,
            "cell_clip": field_("cellClip"),
            "projection_clip": field_("projClip"),
            "time_major": field_("timeMajor"),
        },
        defaults={"activation": "TANH", "cell_clip": 0.0, "projection_clip": 0.0},
        xnnpack="XNNPACK's delegate takes no UNIDIRECTIONAL_SEQUENCE_LSTM",
        version=highest(_lstm, has_option("diagonalRecurrentTensors", 4)),
        state=(18, 19),
    ),
    Row(
        name="UNIDIRECTIONAL_SEQUENCE_RNN",
        layout="fixed",
        infer=shapes.recurrent,
        types=types("f32"),
        kernel="kernels/unidirectional_sequence_rnn.cc:136",
        # operands: x, input weights, recurrent weights, bias, state
        options="SequenceRNNOptions",
        attrs={"activation": ACTIVATION, "time_major": field_("timeMajor")},
        defaults={"activation": "TANH"},
        xnnpack="XNNPACK's delegate takes no UNIDIRECTIONAL_SEQUENCE_RNN",
        state=(4,),
    ),
]
