"""Attention and rotary embedding as onnxruntime's optimiser writes them, com.microsoft.

Source: onnxruntime/docs/ContribOperators.md; masks as core of contrib_ops/cpu/bert/attention_helper.h.
"""

import math
from collections.abc import Sequence

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.attention import heads, rotated, turns
from straightway.lower.builder import Builder
from straightway.lower.declare import ABSENT, Ints, case, lower, need, run
from straightway.lower.integers import INT32
from straightway.lower.matrix import product
from straightway.lower.selection import join, part
from straightway.lower.softmax import soft
from straightway.lower.tables import MOST_MASKED, refuse_large_table

DOMAIN = "com.microsoft"
# what a masked key's score is lowered by (contrib_ops/cpu/bert/attention_base.h)
FILTER = -10000.0
PARTS = np.linspace(-1, 1, 6 * 12, dtype=np.float32).reshape(6, 12)
BIAS = np.linspace(-1, 1, 12, dtype=np.float32)
SEQUENCE, HEADS = (2, 3, 4), (2, 2, 5, 2)
TURNS = np.linspace(0, 2, 12, dtype=np.float32).reshape(6, 2)


def attended(
    g: Builder,
    states: Sequence[Value],
    *,
    biases: Sequence[Value | None],
    scale: float,
    causal: bool,
) -> Value:
    """Query, key and value, [batch, heads, length, size] each; `biases` are added to the scores. Heads joined at the end."""
    query, key, value = states
    factor = scale or 1 / math.sqrt(query.shape[-1])
    scores = product(g, g.MUL(query, factor), g.transpose(key, (0, 1, 3, 2)))
    for bias in biases:
        scores = scores if bias is None else g.ADD(scores, bias)
    queries, keys = scores.shape[2:]
    if causal and queries > 1:
        refuse_large_table("which key each query sees", queries, keys, MOST_MASKED)
        seen = np.tri(queries, keys, keys - queries, dtype=bool)
        with np.errstate(invalid="ignore"):  # `ops` asks of every type, integers too
            unseen = g.const(np.where(seen, 0, -np.inf), scores.dtype)
        scores = g.ADD(scores, unseen)
    result = product(g, soft(g, scores, 3), value)
    batch, count, length, size = result.shape
    return g.reshape(g.transpose(result, (0, 2, 1, 3)), (batch, length, count * size))


def masking(g: Builder, mask: Value | None, shape: Sequence[int], value: float) -> Value | None:
    """What is added to scores [batch, heads, queries, keys] where keys are masked.

    A mask has a truth value a key, for all queries or for each; or the number of keys of each example.
    """
    if mask is None:
        return None
    batch, _, queries, keys = shape
    mask = g.cast(mask, INT32)
    if mask.shape == (batch,):
        places = g.const(np.arange(keys).reshape(1, 1, 1, keys), INT32)
        seen = g.LESS(places, g.reshape(mask, (batch, 1, 1, 1)))
    elif mask.shape in ((batch, keys), (batch, queries, keys)):
        seen = g.GREATER(
            g.reshape(mask, (batch, 1, mask.known_type.size // batch // keys, keys)), 0
        )
    else:
        raise InvalidModel(
            f"a mask is [batch], [batch, keys] or [batch, queries, keys]; got {mask.type}"
        )
    zero = g.const(0, np.float32)
    return g.SELECT_V2(seen, zero, g.const(value, np.float32))


@lower(
    "Attention",
    domain=DOMAIN,
    needs=[
        need(
            lambda mask: mask is None or mask.rank < 4,
            "a mask must have at most three dimensions; got {mask.type}",
            possible=True,
        ),
        need(
            lambda do_rotary: not do_rotary,
            "do_rotary must be 0; got {do_rotary}",
            remedy="export with RotaryEmbedding as a node of its own",
            possible=True,
        ),
    ],
    samples=[
        case(x=(2, 3, 6), weights=PARTS, bias=BIAS, num_heads=2),
        case(x=(2, 3, 6), weights=PARTS, num_heads=2, unidirectional=1, scale=0.25),
        case(
            x=(2, 3, 6),
            weights=PARTS,
            bias=BIAS,
            mask=run([[1, 1, 0], [1, 0, 0]], np.int32),
            attention_bias=(1, 2, 3, 3),
            num_heads=2,
        ),
        case(x=(2, 3, 6), weights=PARTS, bias=BIAS, mask=run([2, 3], np.int32), num_heads=2),
        case(
            x=(2, 3, 6),
            weights=PARTS,
            bias=BIAS,
            past=(2, 2, 2, 4, 2),
            num_heads=2,
            unidirectional=1,
            outputs=2,
        ),
        case(x=(2, 3, 6), weights=PARTS, bias=BIAS, num_heads=2, qkv_hidden_sizes=(2, 2, 8)),
    ],
    refuses=[
        case(x=(2, 3, 6), weights=PARTS, mask=run(np.ones((2, 1, 3, 3)), np.int32), num_heads=2),
        case(x=(2, 3, 6), weights=PARTS, num_heads=2, do_rotary=1),
    ],
)
def attention(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    /,
    *,
    num_heads: int,
    unidirectional: int = 0,
    scale: float = 0.0,
    mask_filter_value: float = FILTER,
    qkv_hidden_sizes: Ints = ABSENT,
    do_rotary: int = 0,
    out: list[TensorType],
) -> list[Value]:
    """A product gives query, key and value; two more around a softmax."""
    if x.rank != 3 or weights.rank != 2 or (past is not None and past.rank != 5):
        given = [str(v.type) for v in (x, weights, past) if v is not None]
        raise InvalidModel(f"input, weights and past have 3, 2 and 5 dimensions; got {given}")
    sizes = qkv_hidden_sizes or (weights.shape[1] // 3,) * 3
    packed = product(g, x, weights)
    packed = packed if bias is None else g.ADD(packed, bias)
    starts = [0, sizes[0], sizes[0] + sizes[1]]
    query, key, value = (
        heads(g, part(g, packed, 2, start, size), num_heads)
        for start, size in zip(starts, sizes, strict=True)
    )
    if past is not None:
        older = [g.reshape(part(g, past, 0, k, 1), past.shape[1:]) for k in (0, 1)]
        key, value = join(g, [older[0], key], 2), join(g, [older[1], value], 2)
    shape = (*query.shape[:3], key.shape[2])
    result = attended(
        g,
        (query, key, value),
        biases=(masking(g, mask, shape, mask_filter_value), attention_bias),
        scale=scale,
        causal=bool(unidirectional),
    )
    if len(out) == 1:
        return [result]
    both = [g.reshape(v, (1, *v.shape)) for v in (key, value)]
    return [result, g.CONCATENATION(*both, axis=0)]


@lower(
    "MultiHeadAttention",
    domain=DOMAIN,
    needs=[
        need(
            lambda query, key, value: query.rank == 3 and key is not None and value is not None,
            "query, key and value must be operands of their own; got {query.type}, {key}, {value}",
            remedy="optimise the model without packing query, key and value",
            possible=True,
        ),
        need(
            lambda out: len(out) <= 3,
            "there must be at most three results, not the scores as well; got {out}",
            possible=True,
        ),
    ],
    samples=[
        case(query=SEQUENCE, key=(2, 5, 4), value=(2, 5, 6), num_heads=2),
        case(
            query=SEQUENCE, key=SEQUENCE, value=SEQUENCE, bias=BIAS, num_heads=2, unidirectional=1
        ),
        case(
            query=SEQUENCE,
            key=(2, 5, 4),
            value=(2, 5, 4),
            mask=run([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], np.int32),
            attention_bias=(2, 2, 3, 5),
            num_heads=2,
            scale=0.5,
        ),
        case(query=SEQUENCE, key=HEADS, value=HEADS, num_heads=2),
        case(
            query=SEQUENCE,
            key=SEQUENCE,
            value=SEQUENCE,
            past_key=HEADS,
            past_value=HEADS,
            num_heads=2,
            outputs=3,
        ),
    ],
    refuses=[
        case(query=(2, 3, 2, 3, 2), num_heads=2),
        case(query=SEQUENCE, key=SEQUENCE, value=SEQUENCE, num_heads=2, outputs=4),
    ],
)
def multi_head_attention(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    bias: Value | None = None,
    mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    /,
    *,
    num_heads: int,
    unidirectional: int = 0,
    scale: float = 0.0,
    mask_filter_value: float = FILTER,
    out: list[TensorType],
) -> list[Value]:
    """Two products around a softmax, of heads that lie side by side or apart."""
    found, start = [], 0
    for given in (query, key, value):
        if given is None:
            raise InvalidModel("MultiHeadAttention lacks its key or its value")
        x = given
        if bias is not None and x.rank == 3:
            x = g.ADD(x, part(g, bias, 0, start, x.shape[-1]))
            start += x.shape[-1]
        found.append(heads(g, x, num_heads))
    query, key, value = found
    if past_key is not None and past_value is not None:
        key, value = join(g, [past_key, key], 2), join(g, [past_value, value], 2)
    shape = (*query.shape[:3], key.shape[2])
    result = attended(
        g,
        (query, key, value),
        biases=(masking(g, mask, shape, mask_filter_value), attention_bias),
        scale=scale,
        causal=bool(unidirectional),
    )
    return [result, key, value][: len(out)]


@lower(
    "RotaryEmbedding",
    domain=DOMAIN,
    needs=[
        need(
            lambda scale: scale in (0.0, 1.0),
            "scale must be 1; got {scale}",
            possible=True,
        )
    ],
    samples=[
        case(
            x=(2, 3, 8),
            positions=run([[0, 4, 2], [1, 1, 3]], np.int64),
            cosine=np.cos(TURNS),
            sine=np.sin(TURNS),
        ),
        case(
            x=(2, 2, 3, 4),
            positions=run([2], np.int64),
            cosine=np.cos(TURNS),
            sine=np.sin(TURNS),
            interleaved=1,
        ),
        case(
            x=(2, 3, 12),
            positions=run([1], np.int64),
            cosine=np.cos(TURNS),
            sine=np.sin(TURNS),
            num_heads=2,
            rotary_embedding_dim=4,
        ),
    ],
    refuses=[
        case(
            x=(2, 3, 8),
            positions=run([0], np.int64),
            cosine=np.cos(TURNS),
            sine=np.sin(TURNS),
            scale=2.0,
        )
    ],
)
def rotary_embedding(
    g: Builder,
    x: Value,
    positions: Value,
    cosine: Value,
    sine: Value,
    /,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """As ONNX's; one position is that of the first of a sequence."""
    pairs = cosine.shape[-1] if cosine.rank else 0
    count = num_heads or x.shape[-1] // max(2 * pairs, 1)
    states = heads(g, x, count)
    length = states.shape[2]
    if positions.known_type.size == 1:
        row = g.const(np.arange(length).reshape(1, length), positions.dtype)
        positions = g.ADD(g.reshape(positions, (1, 1)), row)
    width = rotary_embedding_dim or states.shape[-1]
    tables = turns(g, (cosine, sine), positions, width)
    result = rotated(g, states, tables, width, interleaved=bool(interleaved))
    return result if x.rank == 4 else g.reshape(g.transpose(result, (0, 2, 1, 3)), x.shape)
