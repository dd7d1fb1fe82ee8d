"""ONNX ops as TFLite ops: one declaration an op, a file per family."""
