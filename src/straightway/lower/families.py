"""Brings in every family of lowerings, so that the registry is whole."""

import importlib

FAMILIES = (
    "elementwise",
    "activation",
    "arithmetic",
    "compare",
    "bits",
    "shape",
    "pad",
    "index",
    "reduce",
    "softmax",
    "linear",
    "matrix",
    "einsum",
    "norm",
    "attention",
    "microsoft",
    "microsoft_attention",
    "microsoft_grouped",
    "microsoft_weights",
    "ml",
    "ml_encoders",
    "support_vectors",
    "tree_ensembles",
    "window",
    "fused",
    "transposed",
    "pool",
    "resize",
    "blocks",
    "recurrent",
    "control",
    "signal",
    "quantized",
    "dynamic",
    "sampling",
    "detection",
    "sets",
    "ranges",
    "unique",
    "deformable",
    "unpool",
)


def load() -> None:
    """Import the families; each registers its declarations."""
    for name in FAMILIES:
        importlib.import_module(f"straightway.lower.{name}")
