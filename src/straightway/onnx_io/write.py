"""A graph of ONNX nodes as a file."""

from collections import Counter
from collections.abc import Mapping

import onnx

from straightway.ir import Graph
from straightway.ir.source import is_kept_in_floats
from straightway.onnx_io.schema import graph_proto

# the first that has every operator and type written here
IR_VERSION = 10
PRODUCER = "straightway"
# says of a node among integers that it is none of them
COMPUTES, FLOATS = "straightway.computes", "float"


def to_bytes(graph: Graph, opset: int, notes: Mapping[str, str]) -> bytes:
    """Serialise the graph at an opset; `notes` become the file's metadata."""
    body = graph_proto(graph)
    for info, name in zip(body.output, graph.output_names, strict=True):
        info.name = name
    for node, made in zip(graph.nodes, body.node, strict=True):
        if is_kept_in_floats(node.origins):
            made.metadata_props.add(key=COMPUTES, value=FLOATS)
    taken: Counter[str] = Counter()
    for made in body.node:
        taken[made.name] += 1
        if taken[made.name] > 1:  # onnxruntime refuses two nodes of one name
            made.name = f"{made.name}/{taken[made.name]}"
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
