"""Scaled dot-product attention and rotary position embedding."""

import math
from dataclasses import dataclass

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import TensorType, Value
from straightway.lower.broadcast import fits
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.integers import INT32, is_integer, non_negative
from straightway.lower.matrix import product
from straightway.lower.selection import join, part
from straightway.lower.softmax import soft
from straightway.lower.tables import MOST_MASKED, refuse_large_table

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

    def limits(self) -> list[tuple[bool, int]]:
        """How far a query may be behind a key (True: at least so far; False: at most)."""
        found = [(True, 0)] if self.is_causal else []
        found += [(False, self.left_window_size)] if self.left_window_size >= 0 else []
        return found + ([(True, -self.right_window_size)] if self.right_window_size >= 0 else [])

    def allows(self, g: Builder, away: Value) -> Value | None:
        """Where a query may see a key, by how far it is behind; None where it sees all."""
        allowed = None
        for least, limit in self.limits():
            fits = g.GREATER_EQUAL(away, limit) if least else g.LESS_EQUAL(away, limit)
            allowed = both(g, allowed, fits)
        if allowed is not None and allowed.const is not None and allowed.const.all():
            return None
        return allowed


def both(g: Builder, a: Value | None, b: Value | None) -> Value | None:
    """Where both hold; what is absent holds everywhere."""
    if a is None or b is None:
        return b if a is None else a
    return g.LOGICAL_AND(a, b)


@lower(
    "Attention",
    needs=[
        need(
            lambda qk_matmul_output_mode: PRODUCT <= qk_matmul_output_mode <= WEIGHTS,
            "qk_matmul_output_mode must be 0, 1, 2 or 3; got {qk_matmul_output_mode}",
            kernel="onnx/docs/Operators.md#Attention",
        ),
        need(
            lambda softcap: softcap >= 0,
            "softcap must be 0, for none, or positive; got {softcap}",
            kernel="onnx/docs/Operators.md#Attention",
        ),
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
        case(q=QUERY, k=KEY, v=KEY, attn_mask=run(MASK), opset=NEWEST),
        case(q=QUERY, k=KEY, v=KEY, attn_mask=run(np.where(MASK < 0, -np.inf, 0)), opset=NEWEST),
        case(q=QUERY, k=KEY, v=KEY, nonpad_kv_seqlen=run([5, 3], np.int64), opset=24),
        case(
            q=QUERY,
            k=KEY,
            v=KEY,
            nonpad_kv_seqlen=run([5, 2], np.int64),
            is_causal=1,
            attn_mask=(3, 4),
            opset=24,
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
    refuses=[
        case(q=QUERY, k=KEY, v=KEY, qk_matmul_output_mode=-1, opset=NEWEST),
        case(q=QUERY, k=KEY, v=KEY, softcap=-1.0, opset=NEWEST),
    ],
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

    Several query heads that share a key head are rows of one product.
    """
    if nonpad_kv_seqlen is not None and nonpad_kv_seqlen.shape != q.shape[:1]:
        raise InvalidModel(
            f"nonpad_kv_seqlen has a number for each example of {q.type}; got {nonpad_kv_seqlen.type}"
        )
    query = heads(g, q, q_num_heads)
    key, value = (heads(g, x, kv_num_heads) for x in (k, v))
    _check_alike(query, key, value)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        key, value = _behind(g, past_key, key), _behind(g, past_value, value)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = grouped(g, g.MUL(query, scale), g.transpose(key, (0, 1, 3, 2)))
    stages = [scores]
    if softcap > 0:
        scores = g.MUL(g.TANH(g.MUL(scores, 1 / softcap)), softcap)
    stages.append(scores)
    allowed = seen_keys(g, scores, window, past if nonpad_kv_seqlen is None else nonpad_kv_seqlen)
    if mask is not None and is_integer(mask) and nonpad_kv_seqlen is not None:
        raise NotYet(
            "what a mask of whole numbers is beside nonpad_kv_seqlen, ONNX's reference and ONNX Runtime "
            "disagree on",
            remedy="cast the mask to float32",
        )
    if mask is not None and mask.dtype != np.bool_:
        mask = g.cast(mask, scores.dtype)
    scores = masked(g, scores, mask, allowed)
    stages.append(scores)
    weights = soft(g, scores, 3)
    if mask is not None or allowed is not None:
        weights = blinded(g, scores, weights, (mask, allowed))
    stages.append(weights)
    result = grouped(g, weights, value)
    if q.rank == 3:
        result = g.reshape(g.transpose(result, (0, 2, 1, 3)), out[0].dims)
    return [result, key, value, stages[qk_matmul_output_mode]][: len(out)]


def _behind(g: Builder, older: Value, newer: Value) -> Value:
    """What was kept of earlier runs, and what came now. Raises InvalidModel where they don't fit."""
    if (*older.shape[:2], *older.shape[3:]) != (*newer.shape[:2], *newer.shape[3:]):
        raise InvalidModel(f"{older.type} can't come before {newer.type}")
    return join(g, [older, newer], 2)


def _check_alike(query: Value, key: Value, value: Value) -> None:
    """Raise InvalidModel where sizes that ONNX's shape function does not compare differ."""
    batch, count = query.shape[:2]
    shared = max(key.shape[1], 1)
    fits = key.shape[:3] == value.shape[:3] and key.shape[0] == batch and not count % shared
    if not fits or key.shape[3] != query.shape[3]:
        kinds = ", ".join(str(x.type) for x in (query, key, value))
        raise InvalidModel(f"queries, keys and values do not fit together; got {kinds}")


def heads(g: Builder, x: Value, count: int) -> Value:
    """[batch, length, heads · size] as [batch, heads, length, size]."""
    if x.rank == 4:
        return x
    batch, length, width = x.shape
    if count < 1 or width < count or width % count:
        raise InvalidModel(f"{x.type} does not hold {count} heads of equal size")
    return g.transpose(g.reshape(x, (batch, length, count, width // count)), (0, 2, 1, 3))


def grouped(g: Builder, a: Value, b: Value) -> Value:
    """Multiply [batch, heads, M, K] with [batch, fewer heads, K, N], each for several heads."""
    batch, count, rows, inner = a.shape
    shared = b.shape[1]
    flat = g.reshape(a, (batch, shared, count // shared * rows, inner))
    return g.reshape(product(g, flat, b), (batch, count, rows, b.shape[-1]))


def seen_keys(g: Builder, scores: Value, window: Window, offset: Value | int) -> Value | None:
    """Where queries may see keys; `offset`: how many keys are older than the queries.

    Or, for each example, how many keys there are at all: then the queries are the last of them.
    """
    queries, keys = scores.shape[2:]
    refuse_large_table("which key each query sees", queries, keys, MOST_MASKED)
    away = np.arange(queries)[:, None] - np.arange(keys)
    if not isinstance(offset, Value):
        return window.allows(g, g.const(away + offset, INT32))
    count = g.reshape(g.cast(offset, INT32), (offset.shape[0], 1, 1, 1))
    there = g.LESS(g.const(np.arange(keys).reshape(1, 1, 1, keys), INT32), count)
    moved = g.ADD(g.SUB(count, queries), g.const(away, INT32))
    return both(g, there, window.allows(g, moved))


def masked(g: Builder, scores: Value, mask: Value | None, allowed: Value | None) -> Value:
    """Add the masks; keys that a narrower mask does not reach are not seen."""
    if mask is not None and mask.rank and mask.shape[-1] < scores.shape[-1]:
        missing = [(0, 0)] * (mask.rank - 1) + [(0, scores.shape[-1] - mask.shape[-1])]
        shape = (*mask.shape[:-1], missing[-1][1])
        fill = np.full(shape, False if mask.dtype == np.bool_ else -np.inf, mask.dtype)
        mask = g.CONCATENATION(mask, g.const(fill), axis=mask.rank - 1)
    if mask is not None and not fits(mask, scores):
        raise InvalidModel(f"a mask broadcasts to {scores.type}; got {mask.type}")
    if mask is not None and mask.dtype != np.bool_:
        scores = g.ADD(scores, mask)
        mask = None
    seen = both(g, mask, allowed)
    if seen is None:
        return scores
    if seen.const is not None:
        return g.ADD(scores, g.const(np.where(seen.const, 0, -np.inf), scores.dtype))
    return g.SELECT_V2(seen, scores, g.const(-np.inf, scores.dtype))


def blinded(
    g: Builder, scores: Value, weights: Value, masks: tuple[Value | None, Value | None]
) -> Value:
    """Give zeros to queries that see no key, if there may be such."""
    none = g.const(0, weights.dtype)
    given = [m for m in masks if m is not None]
    if all(m.const is not None for m in given):
        sees = _sees([np.asarray(m.const) for m in given], scores.shape[-1])
        return weights if sees.all() else g.SELECT_V2(g.const(sees), weights, none)
    most = g.REDUCE_MAX(scores, axes=(scores.rank - 1,), keep_dims=True)
    return g.SELECT_V2(g.GREATER(most, -np.inf), weights, none)


def _sees(masks: list[np.ndarray], keys: int) -> np.ndarray:
    """Which queries see a key, [..., 1]; what a narrower mask does not reach is not seen."""
    found = np.ones(keys, bool)
    for mask in masks:
        seen = mask if mask.dtype == np.bool_ else mask > -np.inf
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
        found = found & np.pad(seen, missing)
    return np.asarray(found.any(-1, keepdims=True))


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
    tables = turns(g, (cosine, sine), positions, width)
    result = rotated(g, states, tables, width, interleaved=bool(interleaved))
    return result if x.rank == 4 else g.reshape(g.transpose(result, (0, 2, 1, 3)), x.shape)


def rotated(
    g: Builder, states: Value, tables: list[Value], width: int, *, interleaved: bool
) -> Value:
    """Turn the first `width` features of [batch, heads, length, size] by cosines and sines."""
    cos, sin = tables
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
    return join(g, [g.reshape(both, turned.shape), rest], 3)


def turns(
    g: Builder, tables: tuple[Value, Value], positions: Value | None, width: int
) -> list[Value]:
    """Cosines and sines, each as [batch, 1, length, pairs]."""
    for table in tables:
        if table.rank != (3 if positions is None else 2) or table.shape[-1] != width // 2:
            raise InvalidModel(
                f"{width} features are turned by tables of {width // 2} columns, [batch, length, columns] or "
                f"[positions, columns]; got {table.type}"
            )
    return [_angles(g, table, positions) for table in tables]


def _angles(g: Builder, table: Value, positions: Value | None) -> Value:
    if positions is not None:
        table = g.GATHER(table, non_negative(g, positions, table.shape[0]), axis=0)
    return g.reshape(table, (table.shape[0], 1, *table.shape[1:]))
