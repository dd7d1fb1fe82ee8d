"""The kernels of TensorFlow Lite Micro: reference kernels, whose types CMSIS-NN's share.

Files and lines are those of tensorflow/tflite-micro 90b983c2; tests run every op in every type on the
package tflite-micro.
"""

from straightway.targets.engine import Engine, table

ANY = "f16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool"
# op | element types | types with a scale and a zero point | file and line | limits
KERNELS = f"""
ABS | f32 i16 | i8 i16 | elementwise.cc:299
ADD | f32 i32 | i8 i16 | add.cc:181
ARG_MAX | f32 i8 | i8 | arg_min_max.cc:70 | results=i32
ARG_MIN | f32 i8 | i8 | arg_min_max.cc:70 | results=i32
AVERAGE_POOL_2D | f32 | i8 i16 | pooling.cc:41
BATCH_MATMUL | f32 | i8 i16 | batch_matmul.cc:191 | rank=5
BATCH_TO_SPACE_ND | f32 i8 | i8 | batch_to_space_nd.cc:75 | rank=4
BROADCAST_TO | {ANY} | i8 u8 i16 | broadcast_to.cc:87 | rank=5 constant=1
CAST | f32 i8 i16 i32 u32 bool | i8 i16 | cast.cc:89 | results=f32,i8,i16,i32,u32
CEIL | f32 | | ceil.cc:41
CONCATENATION | f32 i8 i16 i32 i64 bool | i8 i16 | concatenation.cc:149
CONV_2D | f32 | i8 i16 | conv.cc:59
COS | f32 | | elementwise.cc:387
CUMSUM | f32 | | cumsum.cc:59
DEPTHWISE_CONV_2D | f32 | i8 i16 | depthwise_conv.cc:67
DEPTH_TO_SPACE | f32 i8 | i8 | depth_to_space.cc:57
DEQUANTIZE | | i8 u8 i16 | dequantize_common.cc:43
DIV | f32 i32 | i8 | div.cc:195
DYNAMIC_UPDATE_SLICE | f32 i8 i16 i32 | i8 i16 | dynamic_update_slice.cc:200
ELU | f32 | i8 | elu.cc:125
EMBEDDING_LOOKUP | f32 i8 | i8 | embedding_lookup.cc:85 | places=i32
EQUAL | f32 i32 i64 bool | i8 | comparisons.cc:53
EXP | f32 | | exp.cc:41
FILL | f32 i8 i32 | | fill.cc:114 | constant=0
FLOOR | f32 | | floor.cc:32
FLOOR_DIV | f32 | | floor_div.cc:112
FLOOR_MOD | f32 | | floor_mod.cc:109
FULLY_CONNECTED | f32 | i8 i16 | fully_connected.cc:139
GATHER | f32 i8 | i8 | gather.cc:202 | places=i32
GATHER_ND | f32 i8 | i8 | gather_nd.cc:170 | places=i32
GREATER | f32 i32 i64 | i8 | comparisons.cc:236
GREATER_EQUAL | f32 i32 i64 | i8 | comparisons.cc:327
HARD_SWISH | f32 | i8 | hard_swish_common.cc:48
IF | {ANY} | i8 u8 i16 | if.cc:61
L2_NORMALIZATION | f32 | i8 | l2norm.cc:58 | rank=4
L2_POOL_2D | f32 | | l2_pool_2d.cc:71
LEAKY_RELU | f32 | i8 i16 | leaky_relu.cc:60
LESS | f32 i32 i64 | i8 | comparisons.cc:405
LESS_EQUAL | f32 i32 i64 | i8 | comparisons.cc:483
LOG | f32 | | elementwise.cc:392
LOGICAL_AND | bool | | logical_common.cc:41
LOGICAL_NOT | bool | | elementwise.cc:413
LOGICAL_OR | bool | | logical_common.cc:41
LOGISTIC | f32 | i8 i16 | logistic.cc:47
LOG_SOFTMAX | f32 | i8 | log_softmax.cc:112
MAXIMUM | f32 i8 i16 i32 i64 | i8 i16 | maximum_minimum.cc:38
MAX_POOL_2D | f32 i8 i16 | i8 i16 | pooling.cc:74
MEAN | f32 | i8 i16 | reduce_common.cc:304
MINIMUM | f32 i8 i16 i32 i64 | i8 i16 | maximum_minimum.cc:38
MIRROR_PAD | f32 i8 | i8 | mirror_pad.cc:137
MUL | f32 i32 | i8 i16 | mul.cc:45
NEG | f32 | | neg.cc:35
NOT_EQUAL | f32 i32 i64 bool | i8 | comparisons.cc:145
PACK | f32 i8 i16 i32 i64 | i8 i16 | pack.cc:79
PAD | f32 i8 i16 i32 | i8 i16 | pad.cc:41 | rank=5
PADV2 | f32 i8 i16 i32 | i8 i16 | pad.cc:41 | rank=5
PRELU | f32 | i8 | prelu.cc:44 | rank=4
QUANTIZE | f32 | i8 u8 i16 | quantize_common.cc:57 | results=i8,u8,i16
REDUCE_ALL | bool | | reduce_common.cc:268
REDUCE_MAX | f32 i8 | i8 | reduce_common.cc:159
REDUCE_MIN | f32 i8 | i8 | reduce_common.cc:159
RELU | f32 | i8 i16 | activations.cc:47
RELU6 | f32 | i8 i16 | activations.cc:95 | scale=same
RESHAPE | {ANY} | i8 u8 i16 | reshape.cc:56
RESIZE_BILINEAR | f32 | i8 | resize_bilinear.cc:80
RESIZE_NEAREST_NEIGHBOR | f32 i8 i16 | i8 i16 | resize_nearest_neighbor.cc:83
REVERSE_V2 | f32 i8 u8 i16 i32 i64 bool | i8 u8 i16 | reverse.cc:64
ROUND | f32 | | round.cc:40
RSQRT | f32 | i8 i16 | elementwise.cc:345
SELECT_V2 | f32 i8 i16 | i8 i16 | select.cc:162 | broadcast=5
SHAPE | {ANY} | i8 u8 i16 | shape.cc:50 | results=i32
SIN | f32 | | elementwise.cc:382
SLICE | f32 i8 i16 i32 bool | i8 i16 | slice.cc:114 | rank=5
SOFTMAX | f32 | i8 i16 | softmax.cc:64
SPACE_TO_BATCH_ND | f32 i8 | i8 | space_to_batch_nd.cc:85 | rank=4
SPACE_TO_DEPTH | f32 i8 | i8 | space_to_depth.cc:56
SPLIT | f32 i8 i16 i32 | i8 i16 | split.cc:97
SPLIT_V | f32 i8 i16 i32 | i8 i16 | split_v.cc:100
SQRT | f32 | | elementwise.cc:397
SQUARE | f32 | | elementwise.cc:408
SQUARED_DIFFERENCE | f32 i32 | i8 i16 | squared_difference.cc:243
STRIDED_SLICE | f32 i8 i16 i32 bool | i8 i16 | strided_slice.cc:41 | rank=4
SUB | f32 i32 | i8 i16 | sub.cc:187
SUM | f32 | i8 i16 | reduce_common.cc:379
TANH | f32 | i8 i16 | tanh.cc:159
TRANSPOSE | f32 i8 i16 | i8 i16 | transpose.cc:44 | rank=5
TRANSPOSE_CONV | f32 | i8 i16 | transpose_conv.cc:289 | data=2
UNIDIRECTIONAL_SEQUENCE_LSTM | f32 | | unidirectional_sequence_lstm.cc:69
UNPACK | f32 i8 i16 i32 | i8 i16 | unpack.cc:82
WHILE | {ANY} | i8 u8 i16 | while.cc:77
"""
ENGINE = Engine(
    name="TensorFlow Lite Micro",
    folder="tensorflow/lite/micro/kernels",
    registered="python/tflite_micro/python_ops_resolver.cc",
    kernels=table(KERNELS),
)
