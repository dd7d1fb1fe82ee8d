"""A graph of ONNX nodes as a file."""

from collections import Counter
from collections.abc import Mapping

import onnx

from straightway.ir import Graph
from straightway.onnx_io.schema import graph_proto

# the first that has every operator and type written here
IR_VERSION = 10
PRODUCER = "straightway"


def to_bytes(graph: Graph, opset: int, notes: Mapping[str, str]) -> bytes:
    """Serialise the graph at an opset; `notes` become the file's metadata."""
    body = graph_proto(graph)
    for info, name in zip(body.output, graph.output_names, strict=True):
        info.name = name
    taken: Counter[str] = Counter()
    for node in body.node:
        taken[node.name] += 1
        if taken[node.name] > 1:  # onnxruntime refuses two nodes of one name
            node.name = f"{node.name}/{taken[node.name]}"
    domains = {node.domain for node in body.node} - {"", "ai.onnx"}
    opsets = [onnx.helper.make_opsetid("", opset)]
    opsets += [onnx.helper.make_opsetid(domain, 1) for domain in sorted(domains)]
    model = onnx.helper.make_model(
        body, opset_imports=opsets, ir_version=IR_VERSION, producer_name=PRODUCER
    )
    for key, text in notes.items():
        model.metadata_props.add(key=key, value=text)
    data: bytes = model.SerializeToString()
    return data
