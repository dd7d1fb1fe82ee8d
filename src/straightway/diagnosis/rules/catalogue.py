"""All rules, the specific ones first: what one of them takes, no later one counts again."""

from collections.abc import Sequence

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.rules import (
    attention,
    batch_norm,
    batch_norm_order,
    bicubic,
    channels_last,
    constant_work,
    convolution_1d,
    dead_output,
    dim_order_copy,
    elu,
    embedding,
    expand,
    group_norm,
    half_gelu,
    half_norm,
    half_silu,
    index_work,
    instance_norm,
    int8_concat,
    int8_float_island,
    island,
    layer_norm,
    layout_ping_pong,
    matmul,
    mean_keepdim,
    mish,
    nearest,
    recurrent,
    rms_norm,
    scalar,
    skip_connection,
    softmax_axis,
    softplus,
    split,
    squeeze,
    strided_slice,
    where,
)
from straightway.errors import InvalidRequest

RULES: tuple[Rule, ...] = (
    # of whole expressions
    attention.RULE,
    bicubic.RULE,
    recurrent.RULE,
    mish.RULE,
    softplus.RULE,
    rms_norm.RULE,
    scalar.RULE,
    dead_output.RULE,
    constant_work.RULE,
    # of single operators
    half_gelu.RULE,
    half_norm.RULE,
    half_silu.RULE,
    layer_norm.RULE,
    group_norm.RULE,
    instance_norm.RULE,
    batch_norm.RULE,
    int8_float_island.RULE,
    int8_concat.RULE,
    batch_norm_order.RULE,
    convolution_1d.RULE,
    mean_keepdim.RULE,
    nearest.RULE,
    split.RULE,
    strided_slice.RULE,
    expand.RULE,
    where.RULE,
    softmax_axis.RULE,
    elu.RULE,
    matmul.RULE,
    embedding.RULE,
    dim_order_copy.RULE,
    index_work.RULE,
    squeeze.RULE,
    # of what is left
    island.RULE,
    skip_connection.RULE,
    layout_ping_pong.RULE,
    channels_last.RULE,
)


def named(names: Sequence[str]) -> tuple[Rule, ...]:
    """Rules by name, in their own order. Raises InvalidRequest for an unknown one."""
    known = [rule.name for rule in RULES]
    for name in names:
        if name not in known:
            raise InvalidRequest(f"no rule is called '{name}'; there are {', '.join(known)}")
    return tuple(rule for rule in RULES if rule.name in names)
