"""Scaled dot-product attention and rotary position embedding."""

import math
from dataclasses import dataclass

import numpy as np

from straightway.errors import NotYet
from straightway.ir import TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.integers import non_negative
from straightway.lower.matrix import product
from straightway.lower.selection import join, part
from straightway.lower.softmax import soft

NEWEST = 23
QUERY, KEY = (2, 4, 3, 8), (2, 4, 5, 8)
MASK = np.where(np.tri(3, 5, 2, dtype=bool), np.float32(0), np.float32(-3))
# qk_matmul_output_mode: after the product, the soft cap, the mask, the softmax
PRODUCT, CAPPED, MASKED, WEIGHTS = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which keys a query may see: up to its own place, and so many to the left and right."""

    is_causal: int = 0
    left_window_size: int = -1
    right_window_size: int = -1

    def allows(self, queries: int, keys: int, offset: int) -> np.ndarray | None:
        """Truth values [queries, keys], `offset` keys being older; None where all are seen."""
        away = np.arange(queries)[:, None] + offset - np.arange(keys)
        allowed = np.ones(away.shape, bool)
        if self.is_causal:
            allowed &= away >= 0
        if self.left_window_size >= 0:
            allowed &= away <= self.left_window_size
        if self.right_window_size >= 0:
            allowed &= -away <= self.right_window_size
        return None if allowed.all() else allowed


@lower(
    "Attention",
    needs=[
        need(
            lambda nonpad_kv_seqlen: nonpad_kv_seqlen is None,
            "Attention is lowered without nonpad_kv_seqlen; got {nonpad_kv_seqlen.type}",
            possible=True,
        )
    ],
    samples=[
        case(q=QUERY, k=KEY, v=(2, 4, 5, 6), opset=NEWEST),
        case(q=QUERY, k=KEY, v=KEY, scale=0.25, softcap=2.0, opset=NEWEST),
        case(q=(2, 6, 3, 8), k=(2, 2, 3, 8), v=(2, 2, 3, 8), is_causal=1, opset=NEWEST),
        case(q=QUERY, k=KEY, v=KEY, attn_mask=MASK, opset=NEWEST),
        case(q=QUERY, k=KEY, v=KEY, attn_mask=run(MASK == 0, bool), opset=NEWEST),
        case(
            q=(2, 3, 12),
            k=(2, 5, 6),
            v=(2, 5, 4),
            q_num_heads=4,
            kv_num_heads=2,
            opset=NEWEST,
        ),
        case(
            q=QUERY,
            k=QUERY,
            v=QUERY,
            past_key=KEY,
            past_value=KEY,
            is_causal=1,
            outputs=3,
            opset=NEWEST,
        ),
        *(
            case(
                q=QUERY,
                k=QUERY,
                v=QUERY,
                attn_mask=MASK,
                past_key=(2, 4, 2, 8),
                past_value=(2, 4, 2, 8),
                softcap=2.0,
                qk_matmul_output_mode=mode,
                outputs=4,
                opset=NEWEST,
            )
            for mode in (PRODUCT, CAPPED, MASKED, WEIGHTS)
        ),
    ],
    refuses=[case(q=QUERY, k=KEY, v=KEY, nonpad_kv_seqlen=np.array([5, 3]), opset=24)],
)
def attention(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    /,
    *,
    nonpad_kv_seqlen: Value | None = None,
    window: Window,
    scale: float | None = None,
    softcap: float = 0.0,
    q_num_heads: int = 0,
    kv_num_heads: int = 0,
    qk_matmul_output_mode: int = PRODUCT,
    softmax_precision: int | None = None,
    out: list[TensorType],
) -> list[Value]:
    """Two products around a softmax.

    Several query heads that share a key head are rows of one product. A query that a run-time float
    mask keeps from every key gives NaN, not zero.
    """
    query = heads(g, q, q_num_heads)
    key, value = (heads(g, x, kv_num_heads) for x in (k, v))
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        key, value = join(g, [past_key, key], 2), join(g, [past_value, value], 2)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = grouped(g, g.MUL(query, scale), g.transpose(key, (0, 1, 3, 2)))
    stages = [scores]
    if softcap:
        scores = g.MUL(g.TANH(g.MUL(scores, 1 / softcap)), softcap)
    stages.append(scores)
    scores, seen = masked(g, scores, mask, window.allows(query.shape[2], key.shape[2], past))
    stages.append(scores)
    weights = soft(g, scores, 3)
    weights = weights if seen is None else g.SELECT_V2(seen, weights, g.const(0, weights.dtype))
    stages.append(weights)
    result = grouped(g, weights, value)
    if q.rank == 3:
        result = g.reshape(g.transpose(result, (0, 2, 1, 3)), out[0].dims)
    return [result, key, value, stages[qk_matmul_output_mode]][: len(out)]


def heads(g: Builder, x: Value, count: int) -> Value:
    """[batch, length, heads · size] as [batch, heads, length, size]."""
    if x.rank == 4:
        return x
    batch, length, width = x.shape
    return g.transpose(g.reshape(x, (batch, length, count, width // count)), (0, 2, 1, 3))


def grouped(g: Builder, a: Value, b: Value) -> Value:
    """Multiply [batch, heads, M, K] with [batch, fewer heads, K, N], each for several heads."""
    batch, count, rows, inner = a.shape
    shared = b.shape[1]
    flat = g.reshape(a, (batch, shared, count // shared * rows, inner))
    return g.reshape(product(g, flat, b), (batch, count, rows, b.shape[-1]))


def masked(
    g: Builder, scores: Value, mask: Value | None, allowed: np.ndarray | None
) -> tuple[Value, Value | None]:
    """Add the masks, and say which queries see a key at all, where some may not."""
    if mask is not None and mask.shape[-1] != scores.shape[-1]:
        raise NotYet(f"a mask of {scores.shape[-1]} keys is lowered; got {mask.type}")
    if mask is not None and mask.dtype != np.bool_:
        scores = g.ADD(scores, mask)
        mask = None
    if allowed is not None:
        chosen = g.const(allowed)
        mask = chosen if mask is None else g.LOGICAL_AND(mask, chosen)
    if mask is None:
        return scores, None
    if mask.const is not None:
        bias = g.const(np.where(mask.const, 0, -np.inf), scores.dtype)
        sees = mask.const.any(-1, keepdims=True)
        return g.ADD(scores, bias), None if sees.all() else g.const(sees)
    blocked = g.const(-np.inf, scores.dtype)
    seen = g.REDUCE_ANY(mask, axes=(mask.rank - 1,), keep_dims=True)
    return g.SELECT_V2(mask, scores, blocked), seen


ANGLES = np.linspace(0, 3, 20, dtype=np.float32).reshape(5, 4)
COSINE, SINE = np.cos(ANGLES), np.sin(ANGLES)
POSITIONS = run([[0, 4, 2], [1, 1, 3]], np.int64)


@lower(
    "RotaryEmbedding",
    samples=[
        case(x=(2, 3, 3, 8), cos_cache=COSINE, sin_cache=SINE, position_ids=POSITIONS, opset=23),
        case(
            x=(2, 3, 3, 10),
            cos_cache=COSINE,
            sin_cache=SINE,
            position_ids=POSITIONS,
            rotary_embedding_dim=8,
            interleaved=1,
            opset=23,
        ),
        case(
            x=(2, 5, 24),
            cos_cache=np.stack([COSINE, SINE]),
            sin_cache=np.stack([SINE, COSINE]),
            num_heads=3,
            opset=23,
        ),
    ],
)
def rotary_embedding(
    g: Builder,
    x: Value,
    cosine: Value,
    sine: Value,
    positions: Value | None = None,
    /,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    """Pairs of features turned by angles that depend on the place: two products and a sum each."""
    states = heads(g, x, num_heads)
    width = rotary_embedding_dim or states.shape[-1]
    cos, sin = (angles(g, table, positions) for table in (cosine, sine))
    turned = part(g, states, 3, 0, width)
    shape = (
        (*states.shape[:3], width // 2, 2) if interleaved else (*states.shape[:3], 2, width // 2)
    )
    axis = 4 if interleaved else 3
    pairs = g.reshape(turned, shape)
    half = (*states.shape[:3], width // 2)
    first, second = (g.reshape(part(g, pairs, axis, k, 1), half) for k in range(2))
    real = g.SUB(g.MUL(cos, first), g.MUL(sin, second))
    imaginary = g.ADD(g.MUL(sin, first), g.MUL(cos, second))
    unit = (*half, 1) if interleaved else (*states.shape[:3], 1, width // 2)
    both = g.CONCATENATION(g.reshape(real, unit), g.reshape(imaginary, unit), axis=axis)
    rest = part(g, states, 3, width, states.shape[-1] - width)
    result = join(g, [g.reshape(both, turned.shape), rest], 3)
    return result if x.rank == 4 else g.reshape(g.transpose(result, (0, 2, 1, 3)), x.shape)


def angles(g: Builder, table: Value, positions: Value | None) -> Value:
    """Cosines or sines as [batch, 1, length, pairs]."""
    if positions is not None:
        table = g.GATHER(table, non_negative(g, positions, table.shape[0]), axis=0)
    return g.reshape(table, (table.shape[0], 1, *table.shape[1:]))
