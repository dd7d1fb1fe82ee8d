"""ONNX files and schemas in and out; nothing else reads or writes ONNX."""
