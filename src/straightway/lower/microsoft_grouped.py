"""GroupQueryAttention of com.microsoft, as language models are exported for generation.

Source: onnxruntime/docs/ContribOperators.md; contrib_ops/cpu/bert/gqa_attention_base.h.

    prompt          present = new keys, zeros up to the size of the past
    a word (S = 1)  present = past up to its length, the new key, zeros
    a few (B = 1)   present = past up to its length, the new keys, zeros
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.attention import grouped, heads, rotated, turns
from straightway.lower.builder import Builder
from straightway.lower.declare import ABSENT, Ints, case, lower, need, run
from straightway.lower.integers import INT32
from straightway.lower.selection import join, part
from straightway.lower.softmax import soft
from straightway.lower.tables import MOST_MASKED, refuse_large_table

DOMAIN = "com.microsoft"
BATCH, NEW, WIDTH = 2, 3, 16
ANGLES = np.linspace(0, 3, 72, dtype=np.float32).reshape(9, 8)
STATES: dict[str, Any] = {
    "query": (BATCH, NEW, 4 * WIDTH),
    "key": (BATCH, NEW, 2 * WIDTH),
    "value": (BATCH, NEW, 2 * WIDTH),
    "num_heads": 4,
    "kv_num_heads": 2,
    "outputs": 3,
}
PROMPT: dict[str, Any] = {
    **STATES,
    "past_key": None,
    "past_value": None,
    "seqlens_k": run([2, 2], np.int32),
    "total_sequence_length": np.array([3], np.int32),
}
WORD: dict[str, Any] = {
    **STATES,
    "query": (BATCH, 1, 4 * WIDTH),
    "key": (BATCH, 1, 2 * WIDTH),
    "value": (BATCH, 1, 2 * WIDTH),
    "past_key": (BATCH, 2, 5, WIDTH),
    "past_value": (BATCH, 2, 5, WIDTH),
    "seqlens_k": run([5, 3], np.int32),
    "total_sequence_length": np.array([6], np.int32),
}
FEW: dict[str, Any] = {
    **STATES,
    "query": (1, NEW, 4 * WIDTH),
    "key": (1, NEW, 2 * WIDTH),
    "value": (1, NEW, 2 * WIDTH),
    "past_key": (1, 2, 4, WIDTH),
    "past_value": (1, 2, 4, WIDTH),
    "seqlens_k": run([6], np.int32),
    "total_sequence_length": np.array([7], np.int32),
}
TURNED: dict[str, Any] = {"cosine": np.cos(ANGLES), "sine": np.sin(ANGLES), "do_rotary": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """How many keys count with the new ones, [batch, 1, 1, 1], and how many there are room for.

    Before a prompt, where `is_first`, no past keys do; what is behind its end is padding.
    """

    ends: Value
    size: int
    is_first: bool

    def places(self, g: Builder, new: int) -> Value:
        """Where the new keys lie, [batch, 1, new, 1]."""
        rows = np.arange(new).reshape(1, 1, new, 1)
        if self.is_first:
            return g.ADD(g.MUL(self.ends, 0), g.const(rows, INT32))
        return g.ADD(self.ends, g.const(rows - new, INT32))

    def joined(self, g: Builder, past: Value | None, new: Value) -> Value:
        """Past keys and new ones, [batch, heads, length, size], and zeros behind them."""
        length = new.shape[2]
        if self.is_first or past is None:
            return _stretched(g, new, self.size - length)
        older = g.SUB(self.ends, length)
        places = g.const(np.arange(self.size).reshape(1, 1, self.size, 1), INT32)
        if length == 1:
            wide = _stretched(g, past, self.size - past.shape[2])
            kept = g.SELECT_V2(g.LESS(places, older), wide, g.const(0, new.dtype))
            return g.SELECT_V2(g.EQUAL(places, older), new, kept)
        every = _stretched(g, join(g, [past, new], 2), 1)
        first, behind = g.reshape(older, (1,)), past.shape[2]
        line = g.reshape(places, (self.size,))
        away = g.SUB(line, first)
        none = g.const(behind + length, INT32)
        fresh = g.SELECT_V2(g.LESS(away, length), g.ADD(away, behind), none)
        return g.GATHER(every, g.SELECT_V2(g.LESS(line, first), line, fresh), axis=2)

    def seen(self, g: Builder, queries: int, window: int, *, ends: bool) -> Value:
        """Which keys each query sees: its own, those before it, and no more than a window's.

        With `ends`, queries of the padding see what the last word sees.
        """
        refuse_large_table("which key each query sees", queries, self.size, MOST_MASKED)
        columns = g.const(np.arange(self.size).reshape(1, 1, 1, self.size), INT32)
        places = self.places(g, queries)
        if ends and self.is_first:
            places = g.MINIMUM(places, g.SUB(self.ends, 1))
        behind = g.SUB(places, columns)
        seen = g.GREATER_EQUAL(behind, 0)
        if window > 0:
            seen = g.LOGICAL_AND(seen, g.LESS(behind, window))
        return g.LOGICAL_AND(seen, g.LESS(columns, self.ends)) if self.is_first else seen


def _stretched(g: Builder, x: Value, count: int) -> Value:
    """So many zeros behind the keys."""
    if count <= 0:
        return x
    batch, heads_, _, width = x.shape
    return join(g, [x, g.const(np.zeros((batch, heads_, count, width), x.dtype))], 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What becomes of the products of queries and keys."""

    scale: float = 0.0
    softcap: float = 0.0
    smooth_softmax: int = -1
    local_window_size: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What newer versions added, at its defaults."""

    causal: int = 1
    qk_output: int = 0
    sliding_window_cache: int = 0
    k_quant_type: str = "NONE"
    v_quant_type: str = "NONE"
    qk_norm_epsilon: float = 1e-6  # of weights that are refused

    @property
    def used(self) -> list[str]:
        """The names of those that are used."""
        given = {
            "causal=0": self.causal != 1,
            "qk_output": self.qk_output != 0,
            "sliding_window_cache": self.sliding_window_cache != 0,
            "k_quant_type": self.k_quant_type != "NONE",
            "v_quant_type": self.v_quant_type != "NONE",
        }
        return [name for name, is_used in given.items() if is_used]


@lower(
    "GroupQueryAttention",
    domain=DOMAIN,
    needs=[
        need(
            lambda out: len(out) <= 3,
            "there must be at most three results, not the scores as well; got {out}",
            possible=True,
        ),
        need(
            lambda extras: not extras.used,
            "it must be causal, with whole keys and values in floats as its memory; got {extras.used}",
            remedy="export without these (onnxruntime-genai: the memory as floats, no sliding window cache)",
            possible=True,
        ),
        need(
            lambda do_rotary, cosine, sine: not do_rotary or None not in (cosine, sine),
            "do_rotary must come with tables of cosines and sines; got {cosine} {sine}",
            kernel="onnxruntime/contrib_ops/cpu/bert/group_query_attention.cc",
        ),
    ],
    samples=[
        case(**PROMPT),
        case(**{**PROMPT, "seqlens_k": run([2, 1], np.int32)}, **TURNED),
        case(**{**PROMPT, "seqlens_k": run([0, 2], np.int32)}, **TURNED, local_window_size=2),
        case(**PROMPT, **TURNED, scale=0.5, softcap=2.0),
        case(**{**PROMPT, "query": (BATCH, NEW, 8 * WIDTH), "key": None, "value": None}, **TURNED),
        *(
            case(**{**PROMPT, "seqlens_k": run([0, 1], np.int32)}, local_window_size=2, **options)
            for options in ({}, {"smooth_softmax": 1}, {"softcap": 2.0})
        ),
        case(
            **{**PROMPT, "past_key": (BATCH, 2, 5, WIDTH), "past_value": (BATCH, 2, 5, WIDTH)},
            **TURNED,
            rotary_interleaved=1,
        ),
        case(**WORD),
        case(**WORD, **TURNED, local_window_size=2, softcap=2.0),
        case(**{**WORD, "past_key": (BATCH, 2, 8, WIDTH), "past_value": (BATCH, 2, 8, WIDTH)}),
        case(**WORD, attention_bias=(BATCH, 4, 1, 6), softcap=2.0),
        case(**WORD, head_sink=np.array([0.5, -1.0, 2.0, 0.25], np.float32)),
        case(**WORD, **TURNED, position_ids=run([[4], [1]], np.int64)),
        case(**{**WORD, "seqlens_k": np.array([5, 5], np.int32)}),
        case(**FEW),
        case(**FEW, **TURNED, local_window_size=3),
        case(
            **{**FEW, "past_key": (1, 2, 9, WIDTH), "past_value": (1, 2, 9, WIDTH)},
        ),
    ],
    refuses=[
        case(**{**PROMPT, "outputs": 4}),
        case(**PROMPT, do_rotary=1),
        case(**WORD, k_quant_type="PER_TENSOR"),
    ],
)
def group_query_attention(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    seqlens_k: Value | None = None,
    total_sequence_length: Ints = ABSENT,
    cosine: Value | None = None,
    sine: Value | None = None,
    position_ids: Value | None = None,
    attention_bias: Value | None = None,
    head_sink: Value | None = None,
    /,
    *,
    num_heads: int,
    kv_num_heads: int,
    scoring: Scoring,
    extras: Extras,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    out: list[TensorType],
) -> list[Value]:
    """Queries of several heads share keys and values, which are kept for the next run."""
    states = _apart(g, (query, key, value), (num_heads, kv_num_heads))
    if seqlens_k is None:
        raise InvalidModel("GroupQueryAttention lacks seqlens_k")
    memory = _memory(g, states[0], past_key, seqlens_k, total_sequence_length)
    if do_rotary and cosine is not None and sine is not None:
        length = states[0].shape[2]
        if position_ids is None:
            places = memory.places(g, length)
            position_ids = g.reshape(places, (places.shape[0], length))
        width = 2 * cosine.shape[-1]
        tables = turns(g, (cosine, sine), position_ids, width)
        states[:2] = [
            rotated(g, x, tables, width, interleaved=bool(rotary_interleaved)) for x in states[:2]
        ]
    present = [memory.joined(g, past_key, states[1]), memory.joined(g, past_value, states[2])]
    scores = _scores(g, states[0], present[0], scoring)
    keys = scores.shape[3]
    if attention_bias is not None:
        missing = keys - attention_bias.shape[3]
        bias = attention_bias
        if missing > 0:
            bias = join(g, [bias, g.const(np.zeros((*bias.shape[:3], missing), bias.dtype))], 3)
        scores = g.ADD(scores, bias)
    smooth = scoring.smooth_softmax == 1
    # onnxruntime computes these without its flash attention, whose windows end elsewhere in padding
    plain = smooth or head_sink is not None or scoring.softcap > 0
    seen = memory.seen(g, scores.shape[2], scoring.local_window_size, ends=plain)
    with np.errstate(invalid="ignore"):  # `ops` asks of every type, integers too
        unseen = g.const(np.array(-np.inf), scores.dtype)
    scores = g.SELECT_V2(seen, scores, unseen)
    weights = _weights(g, scores, head_sink, smooth=smooth)
    if memory.is_first and scoring.local_window_size > 0:  # of padding a window may hold none
        sees = g.REDUCE_ANY(seen, axes=(3,), keep_dims=True)
        weights = g.SELECT_V2(sees, weights, g.const(0, weights.dtype))
    result = grouped(g, weights, present[1])
    batch, count, length, width = result.shape
    flat = g.reshape(g.transpose(result, (0, 2, 1, 3)), (batch, length, count * width))
    return [flat, *present][: len(out)]


def _apart(
    g: Builder, given: tuple[Value, Value | None, Value | None], counts: tuple[int, int]
) -> list[Value]:
    """Queries, keys and values, [batch, heads, length, size], which may come as one tensor."""
    query, key, value = given
    own, shared = counts
    if own < 1 or shared < 1 or own % shared or query.rank != 3:
        raise InvalidModel(f"{own} heads of {query.type} do not share {shared} of keys")
    if key is not None and value is not None:
        return [heads(g, query, own), heads(g, key, shared), heads(g, value, shared)]
    if key is not None or value is not None:
        raise InvalidModel("GroupQueryAttention has both key and value, or neither")
    every = heads(g, query, own + 2 * shared)
    starts = ((0, own), (own, shared), (own + shared, shared))
    return [part(g, every, 1, start, count) for start, count in starts]


def _memory(g: Builder, query: Value, past: Value | None, lengths: Value, total: Ints) -> Memory:
    """How many past keys count: none before a prompt, else all but the new ones."""
    batch, _, new, _ = query.shape
    if len(total) != 1 or lengths.known_type.size != batch:
        raise InvalidModel(f"total_sequence_length is one number, seqlens_k has {batch}")
    size = max(total[0], past.shape[2] if past is not None else 0)
    if new > total[0] or (new < total[0] and (past is None or (new > 1 and batch > 1))):
        raise InvalidModel(f"{new} new keys of {batch} examples are not the last of {total[0]}")
    ends = g.ADD(g.reshape(g.cast(lengths, INT32), (batch, 1, 1, 1)), 1)
    return Memory(ends=ends, size=size, is_first=new == total[0])


def _scores(g: Builder, query: Value, key: Value, scoring: Scoring) -> Value:
    """Products of queries and keys, scaled, and held below a limit."""
    factor = scoring.scale or 1 / math.sqrt(query.shape[-1])
    scores = grouped(g, g.MUL(query, factor), g.transpose(key, (0, 1, 3, 2)))
    if scoring.softcap > 0:
        return g.MUL(g.TANH(g.MUL(scores, 1 / scoring.softcap)), scoring.softcap)
    return scores


def _weights(g: Builder, scores: Value, sink: Value | None, *, smooth: bool) -> Value:
    """Shares of the keys; a sink, of score zero where it is not given, takes some and counts for nothing."""
    if sink is None and not smooth:
        return soft(g, scores, 3)
    batch, count, queries, keys = scores.shape
    rest = g.const(np.zeros((1, count, 1, 1)), scores.dtype)
    rest = rest if sink is None else g.reshape(sink, (1, count, 1, 1))
    column = g.ADD(rest, g.const(np.zeros((batch, 1, queries, 1)), scores.dtype))
    return part(g, soft(g, join(g, [scores, column], 3), 3), 3, 0, keys)
