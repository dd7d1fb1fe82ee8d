"""Passes over a graph of ONNX operators: each `run(graph) -> list[Remark]`, in a file of its own."""
