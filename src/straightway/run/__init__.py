"""A model and inputs in, outputs and measurements out: onnxruntime and LiteRT in a child process."""
