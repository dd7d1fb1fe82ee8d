"""Which category of work an operator belongs to: one table for TFLite, ONNX and XNNPACK names.

Decisions that are not obvious: softmax and the other divisions by a statistic are normalisation;
reductions and resampling count as pooling (a window, or the whole axis, without weights); the
recurrent ops are matrix products; a fused op goes where its costliest part goes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Category = Literal[
    "convolution",
    "matrix",
    "elementwise",
    "normalisation",
    "pooling",
    "data movement",
    "type conversion",
    "other",
    "unaccounted",
]
Traffic = Literal["all", "written", "none"]
Helper = Literal["", "before", "after"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
UNACCOUNTED: Literal["unaccounted"] = "unaccounted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Operators of one sort under their three names.

    `xnnpack` are the beginnings of the operator names that XNNPACK reports (`src/operator-utils.c`,
    `xnn_operator_type_to_string`, without the layout and types in parentheses), `tflite` the
    built-in ops whose main work they do, `also` further built-in ops that may be lowered to them.
    `helper` operators may stand beside the main one of any op: before it, rarely after (reshapes,
    conversions of an operand), or only after it (fused activations). `elided`: XNNPACK may run nothing at all for it, because it fuses
    clamps and constant padding into a neighbour (`src/subgraph.c`) and unpacks constants once.
    `traffic` says which bytes an op touches: all operands, as much as it writes, or none.
    """

    category: Category
    xnnpack: tuple[str, ...] = ()
    tflite: frozenset[str]
    onnx: frozenset[str]
    also: frozenset[str]
    helper: Helper
    elided: bool
    traffic: Traffic


def _family(
    category: Category,
    *xnnpack: str,
    tflite: str = "",
    onnx: str = "",
    also: str = "",
    helper: Helper = "",
    elided: bool = False,
    traffic: Traffic = "all",
) -> Family:
    return Family(
        category=category,
        xnnpack=xnnpack,
        tflite=frozenset(tflite.split()),
        onnx=frozenset(onnx.split()),
        also=frozenset(also.split()),
        helper=helper,
        elided=elided,
        traffic=traffic,
    )


_COMPARISONS = "EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL"

FAMILIES: tuple[Family, ...] = (
    _family(
        "convolution",
        "Convolution",
        tflite="CONV_2D DEPTHWISE_CONV_2D",
        onnx="Conv ConvInteger QLinearConv FusedConv NhwcConv NhwcFusedConv DeformConv",
    ),
    _family(
        "convolution",
        "Deconvolution",
        # The custom ops are MediaPipe's, which XNNPACK runs too (xnnpack_delegate.cc).
        tflite="TRANSPOSE_CONV Convolution2DTransposeBias",
        onnx="ConvTranspose ConvTransposeWithDynamicPads QLinearConvTranspose",
    ),
    _family("convolution", tflite="CONV_3D CONV_3D_TRANSPOSE STABLEHLO_CONVOLUTION"),
    _family(
        "matrix",
        "Fully Connected",
        "Dynamic Fully Connected",
        tflite="FULLY_CONNECTED",
        onnx="Gemm FusedGemm QGemm",
        also="CONV_2D BATCH_MATMUL STABLEHLO_COMPOSITE",
    ),
    _family(
        "matrix",
        "Batch Matrix Multiply",
        tflite="BATCH_MATMUL",
        onnx="MatMul FusedMatMul TransposeMatMul MatMulInteger QLinearMatMul Einsum MatMulNBits "
        "MatMulIntegerToFloat DynamicQuantizeMatMul MatMulInteger16 MatMulBnb4 FusedMatMulActivation",
        also="FULLY_CONNECTED STABLEHLO_COMPOSITE",
    ),
    _family(
        "matrix",
        tflite="RNN LSTM SVDF UNIDIRECTIONAL_SEQUENCE_RNN UNIDIRECTIONAL_SEQUENCE_LSTM "
        "BIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_LSTM STABLEHLO_DOT_GENERAL",
        onnx="RNN GRU LSTM DynamicQuantizeLSTM Attention QAttention MultiHeadAttention "
        "GroupQueryAttention FlexAttention LinearAttention PackedAttention CausalConvWithState DecoderAttention",
    ),
    _family("elementwise", "Add", tflite="ADD ADD_N STABLEHLO_ADD", onnx="Add Sum QLinearAdd"),
    _family("elementwise", "Subtract", tflite="SUB STABLEHLO_SUBTRACT", onnx="Sub"),
    _family(
        "elementwise",
        "Multiply",
        tflite="MUL STABLEHLO_MULTIPLY",
        onnx="Mul QLinearMul",
        also="STABLEHLO_COMPOSITE",
    ),
    _family(
        "elementwise", "Divide", tflite="DIV FLOOR_DIV STABLEHLO_DIVIDE", onnx="Div Reciprocal"
    ),
    _family("elementwise", "Modulus", tflite="FLOOR_MOD STABLEHLO_REMAINDER", onnx="Mod"),
    _family("elementwise", "Power", tflite="POW STABLEHLO_POWER", onnx="Pow"),
    _family("elementwise", "Maximum", tflite="MAXIMUM STABLEHLO_MAXIMUM", onnx="Max", also="RELU"),
    _family("elementwise", "Minimum", tflite="MINIMUM STABLEHLO_MINIMUM", onnx="Min"),
    _family("elementwise", "Squared Difference", tflite="SQUARED_DIFFERENCE"),
    _family("elementwise", "ATan2", tflite="ATAN2"),
    _family("elementwise", "Copy Sign"),
    _family(
        "elementwise",
        "Clamp",
        tflite="RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 STABLEHLO_CLAMP",
        onnx="Relu Clip ThresholdedRelu",
        also="MAXIMUM MINIMUM",
        helper="after",
        elided=True,
    ),
    _family("elementwise", "LeakyReLU", tflite="LEAKY_RELU", onnx="LeakyRelu QLinearLeakyRelu"),
    _family("elementwise", "PReLU", tflite="PRELU", onnx="PRelu"),
    _family("elementwise", "ELU", tflite="ELU", onnx="Elu Celu Selu"),
    _family(
        "elementwise",
        "GELU",
        "ApproxGELU",
        tflite="GELU",
        onnx="Gelu FastGelu QuickGelu BiasGelu BiasSplitGelu Erf",
    ),
    _family("elementwise", "HardSwish", tflite="HARD_SWISH", onnx="HardSwish HardSigmoid"),
    _family(
        "elementwise",
        "Sigmoid",
        tflite="LOGISTIC STABLEHLO_LOGISTIC",
        onnx="Sigmoid QLinearSigmoid Swish SwiGLU",
    ),
    _family("elementwise", "TanH", tflite="TANH STABLEHLO_TANH", onnx="Tanh"),
    _family("elementwise", "Abs", tflite="ABS STABLEHLO_ABS", onnx="Abs"),
    _family("elementwise", "Negate", tflite="NEG STABLEHLO_NEGATE", onnx="Neg"),
    _family("elementwise", "Floor", tflite="FLOOR STABLEHLO_FLOOR", onnx="Floor"),
    _family("elementwise", "Ceiling", tflite="CEIL", onnx="Ceil"),
    # "Bankders" is XNNPACK's own spelling.
    _family("elementwise", "Bankders Rounding", "Bankers Rounding", tflite="ROUND", onnx="Round"),
    _family("elementwise", "Exp", tflite="EXP STABLEHLO_EXPONENTIAL", onnx="Exp"),
    _family("elementwise", "Log", tflite="LOG STABLEHLO_LOG", onnx="Log"),
    _family("elementwise", "Sine", tflite="SIN", onnx="Sin"),
    _family("elementwise", "Cosine", tflite="COS STABLEHLO_COSINE", onnx="Cos"),
    _family("elementwise", "Sign", tflite="SIGN", onnx="Sign"),
    _family("elementwise", "Square", tflite="SQUARE", also="MUL"),
    _family("elementwise", "Square Root", tflite="SQRT", onnx="Sqrt"),
    _family("elementwise", "Cube Root", tflite="STABLEHLO_CBRT"),
    _family(
        "elementwise", "Reciprocal Square Root", tflite="RSQRT STABLEHLO_RSQRT", also="SQRT DIV"
    ),
    _family(
        "elementwise",
        "Unary Elementwise",
        "Binary Elementwise",
        "Bitwise",
        "Shift",
        "Count Leading Zeros",
        "Population Count",
        tflite="BITWISE_XOR RIGHT_SHIFT STABLEHLO_SHIFT_LEFT STABLEHLO_AND STABLEHLO_OR",
        onnx="BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor",
    ),
    _family(
        "elementwise",
        tflite=f"{_COMPARISONS} LOGICAL_AND LOGICAL_OR LOGICAL_NOT SELECT SELECT_V2 "
        "STABLEHLO_COMPARE STABLEHLO_SELECT COMPLEX_ABS",
        onnx="Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor Not Where IsNaN IsInf "
        "Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan Mish Shrink Softplus Softsign Binarizer",
    ),
    _family("elementwise", "RoPE", onnx="RotaryEmbedding", also="STABLEHLO_COMPOSITE"),
    _family(
        "normalisation",
        "Softmax",
        tflite="SOFTMAX LOG_SOFTMAX",
        onnx="Softmax LogSoftmax Hardmax QLinearSoftmax BiasSoftmax",
        also="STABLEHLO_COMPOSITE",
    ),
    _family(
        "normalisation",
        tflite="L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION",
        onnx="BatchNormalization InstanceNormalization GroupNormalization GroupNorm "
        "LayerNormalization SkipLayerNormalization SimplifiedLayerNormalization RMSNormalization "
        "SkipSimplifiedLayerNormalization EmbedLayerNormalization LpNormalization LRN Normalizer "
        "MeanVarianceNormalization Scaler",
    ),
    _family(
        "pooling",
        "Average Pooling",
        tflite="AVERAGE_POOL_2D L2_POOL_2D",
        onnx="AveragePool GlobalAveragePool LpPool GlobalLpPool QLinearAveragePool "
        "QLinearGlobalAveragePool",
        also="MEAN",
    ),
    _family(
        "pooling",
        "Max Pooling",
        "ArgMax Pooling",
        "Unpooling",
        tflite="MAX_POOL_2D REDUCE_WINDOW STABLEHLO_REDUCE_WINDOW MaxPoolingWithArgmax2D "
        "MaxUnpooling2D",
        onnx="MaxPool GlobalMaxPool MaxUnpool NhwcMaxPool MaxRoiPool RoiAlign",
    ),
    _family(
        "pooling",
        "Mean",
        tflite="MEAN",
        onnx="ReduceMean QLinearReduceMean Mean",
        also="AVERAGE_POOL_2D STABLEHLO_COMPOSITE",
    ),
    _family(
        "pooling",
        "Mean Squared",
        "Sum Squared",
        "Normalize",  # what XNNPACK calls a sum of squares, MUL(x, x) and SUM in one
        also="MEAN SUM STABLEHLO_COMPOSITE",
    ),
    _family("pooling", "Sum", tflite="SUM", onnx="ReduceSum", also="MEAN AVERAGE_POOL_2D"),
    _family("pooling", "Reduce Max", tflite="REDUCE_MAX", onnx="ReduceMax"),
    _family("pooling", "Reduce Min", tflite="REDUCE_MIN", onnx="ReduceMin"),
    _family(
        "pooling",
        tflite="REDUCE_PROD REDUCE_ANY REDUCE_ALL STABLEHLO_REDUCE",
        onnx="ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare",
    ),
    _family(
        "pooling",
        "Resize Bilinear",
        tflite="RESIZE_BILINEAR",
        onnx="Resize Upsample GridSample AffineGrid Col2Im",
    ),
    _family("pooling", tflite="RESIZE_NEAREST_NEIGHBOR"),
    _family(
        "data movement",
        "Transpose",
        tflite="TRANSPOSE STABLEHLO_TRANSPOSE",
        onnx="Transpose ReorderInput ReorderOutput",
        also="BATCH_MATMUL STABLEHLO_COMPOSITE",
        helper="before",
    ),
    _family(
        "data movement",
        "Static Reshape",
        "Static Expand Dims",
        "Fuse Dims",
        "Split Dims",
        tflite="RESHAPE SQUEEZE EXPAND_DIMS STABLEHLO_RESHAPE BITCAST",
        onnx="Reshape Squeeze Unsqueeze Flatten Identity Dropout",
        helper="before",
        elided=True,
        traffic="none",
    ),
    _family(
        "data movement",
        "Copy",
        tflite="CONCATENATION STABLEHLO_CONCATENATE BROADCAST_TO TILE",
        onnx="Concat Expand Tile MemcpyFromHost MemcpyToHost QLinearConcat",
        also="RESHAPE EXPAND_DIMS SQUEEZE SPLIT SPLIT_V PACK READ_VARIABLE ASSIGN_VARIABLE",
        helper="before",
    ),
    _family(
        "data movement",
        "Slice",
        tflite="SLICE STRIDED_SLICE SPLIT SPLIT_V UNPACK STABLEHLO_SLICE STABLEHLO_DYNAMIC_SLICE",
        onnx="Slice Split",
        helper="before",
        traffic="written",
    ),
    _family(
        "data movement",
        "Constant Pad",
        tflite="PAD PADV2 STABLEHLO_PAD",
        onnx="Pad",
        also="CONCATENATION",
        elided=True,
    ),
    _family("data movement", "Depth To Space", tflite="DEPTH_TO_SPACE", onnx="DepthToSpace"),
    _family("data movement", "Space To Depth", tflite="SPACE_TO_DEPTH", onnx="SpaceToDepth"),
    _family(
        "data movement",
        tflite="GATHER GATHER_ND EMBEDDING_LOOKUP STABLEHLO_GATHER",
        onnx="Gather GatherElements GatherND GatherBlockQuantized Compress",
        traffic="written",
    ),
    _family(
        "data movement",
        tflite="VAR_HANDLE SHAPE RANK",
        onnx="Constant Shape Size SequenceLength",
        traffic="none",
    ),
    _family(
        "data movement",
        tflite="SCATTER_ND PACK REVERSE_V2 REVERSE_SEQUENCE MIRROR_PAD FILL ZEROS_LIKE RANGE "
        "ONE_HOT EMBEDDING_LOOKUP_SPARSE HASHTABLE_LOOKUP SPARSE_TO_DENSE BATCH_TO_SPACE_ND "
        "SPACE_TO_BATCH_ND DYNAMIC_UPDATE_SLICE MATRIX_DIAG MATRIX_SET_DIAG DILATE READ_VARIABLE "
        "ASSIGN_VARIABLE CONCAT_EMBEDDINGS BROADCAST_ARGS STABLEHLO_SCATTER STABLEHLO_IOTA "
        "STABLEHLO_BROADCAST_IN_DIM STABLEHLO_DYNAMIC_UPDATE_SLICE",
        onnx="Scatter ScatterElements ScatterND ReverseSequence ConstantOfShape EyeLike OneHot "
        "Range Trilu CenterCropPad TensorScatter SplitToSequence ConcatFromSequence SequenceAt "
        "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert",
    ),
    _family(
        "type conversion",
        "Convert",
        tflite="QUANTIZE DEQUANTIZE CAST FAKE_QUANT DENSIFY STABLEHLO_CONVERT",
        onnx="QuantizeLinear DequantizeLinear DynamicQuantizeLinear Cast CastLike BitCast",
        helper="before",
        elided=True,
    ),
    _family(
        "other",
        tflite="ARG_MAX ARG_MIN TOPK_V2 CUMSUM UNIQUE WHERE SEGMENT_SUM RFFT2D IMAG REAL "
        "NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 IF WHILE CALL CALL_ONCE CUSTOM DELEGATE "
        "HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE LSH_PROJECTION SKIP_GRAM "
        "BUCKETIZE MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM UNSORTED_SEGMENT_MAX "
        "UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM STABLEHLO_CUSTOM_CALL "
        "STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_CASE STABLEHLO_RNG_BIT_GENERATOR "
        "STABLEHLO_COMPOSITE PLACEHOLDER_FOR_GREATER_OP_CODES",
        onnx="ArgMax ArgMin TopK CumSum CumProd Unique NonZero NonMaxSuppression If Loop Scan "
        "DFT STFT MelWeightMatrix HannWindow HammingWindow BlackmanWindow Det Bernoulli "
        "Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike ImageDecoder "
        "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer SequenceMap "
        "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss Optional OptionalGetElement "
        "OptionalHasElement TreeEnsembleClassifier TreeEnsembleRegressor TreeEnsemble ZipMap "
        "LinearClassifier LinearRegressor SVMClassifier SVMRegressor ArrayFeatureExtractor "
        "CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder OneHotEncoder",
    ),
)


def _index(names: Iterable[tuple[str, Family]]) -> dict[str, Family]:
    table: dict[str, Family] = {}
    for name, its_family in names:
        if name in table:
            raise ValueError(f"{name} stands in two families of the taxonomy")
        table[name] = its_family
    return table


_BY_XNNPACK = _index((name, one) for one in FAMILIES for name in one.xnnpack)
_BY_TFLITE = _index((name, one) for one in FAMILIES for name in one.tflite)
_BY_ONNX = _index((name, one) for one in FAMILIES for name in one.onnx)


def xnnpack_operator(event: str) -> tuple[str, str]:
    """Split an XNNPACK event name, "Convolution (NHWC, F32) IGEMM #2", into operator and kernel.

    The kernel is what follows the parentheses without the running number: "IGEMM", or "".
    """
    operator, _, rest = event.partition(" (")
    kernel = rest.rpartition(")")[2].partition("#")[0]
    return operator.strip(), kernel.strip()


def xnnpack_family(event: str) -> Family | None:
    """The family of an XNNPACK event name; None if the table has no such operator."""
    operator = xnnpack_operator(event)[0]
    while operator:
        if operator in _BY_XNNPACK:
            return _BY_XNNPACK[operator]
        operator = operator.rpartition(" ")[0]
    return None


def family(kind: str) -> Family | None:
    """The family of an op kind of TFLite ("CONV_2D") or ONNX ("Conv"); None if unknown."""
    return _BY_TFLITE.get(kind) or _BY_ONNX.get(kind)


def category(kind: str, event: str = "") -> Category:
    """The category of an op kind of TFLite ("CONV_2D") or ONNX ("Conv").

    `event` is the XNNPACK operator that ran for it. A helper is counted by what it does itself (the
    Convert before a dynamically quantized product), and so is one whose op is unknown or "other"; a
    1×1 convolution that XNNPACK runs as Fully Connected stays a convolution.
    """
    if kind == UNACCOUNTED:
        return UNACCOUNTED
    ran, meant = xnnpack_family(event), family(kind)
    if ran and (ran.helper or meant is None or meant.category == "other"):
        return ran.category
    return meant.category if meant else "other"
