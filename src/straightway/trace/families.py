"""The families of operators: the same work under the names of TFLite, ONNX and XNNPACK.

Decisions that are not obvious: softmax and the other divisions by a statistic are normalisation;
reductions and resampling count as pooling (a window, or the whole axis, without weights); the
recurrent ops are matrix products; a fused op goes where its costliest part goes.
"""

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
    `traffic` says which bytes an op touches: all operands, as much as it writes, or none. `name` is
    what the family is called where that is not its first name of XNNPACK's.
    """

    category: Category
    name: str = ""
    xnnpack: tuple[str, ...] = ()
    tflite: frozenset[str] = frozenset()
    onnx: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    helper: Helper = ""
    elided: bool = False
    traffic: Traffic = "all"

    @property
    def title(self) -> str:
        """One name for all runtimes' operators of the family."""
        return self.name or self.xnnpack[0]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMPARISONS = "EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL"

# Elementwise operators that are the same three times: XNNPACK, TFLite, ONNX.
_ELEMENTWISE = (
    ("Add", "ADD ADD_N STABLEHLO_ADD", "Add Sum QLinearAdd"),
    ("Subtract", "SUB STABLEHLO_SUBTRACT", "Sub"),
    ("Divide", "DIV FLOOR_DIV STABLEHLO_DIVIDE", "Div Reciprocal"),
    ("Modulus", "FLOOR_MOD STABLEHLO_REMAINDER", "Mod"),
    ("Power", "POW STABLEHLO_POWER", "Pow"),
    ("Minimum", "MINIMUM STABLEHLO_MINIMUM", "Min"),
    ("Squared Difference", "SQUARED_DIFFERENCE", ""),
    ("Copy Sign", "", ""),
    ("LeakyReLU", "LEAKY_RELU", "LeakyRelu QLinearLeakyRelu"),
    ("PReLU", "PRELU", "PRelu"),
    ("ELU", "ELU", "Elu Celu Selu"),
    ("HardSwish", "HARD_SWISH", "HardSwish HardSigmoid"),
    ("Sigmoid", "LOGISTIC STABLEHLO_LOGISTIC", "Sigmoid QLinearSigmoid Swish SwiGLU"),
    ("TanH", "TANH STABLEHLO_TANH", "Tanh"),
    ("Abs", "ABS STABLEHLO_ABS", "Abs"),
    ("Negate", "NEG STABLEHLO_NEGATE", "Neg"),
    ("Floor", "FLOOR STABLEHLO_FLOOR", "Floor"),
    ("Ceiling", "CEIL", "Ceil"),
    ("Exp", "EXP STABLEHLO_EXPONENTIAL", "Exp"),
    ("Log", "LOG STABLEHLO_LOG", "Log"),
    ("Cosine", "COS STABLEHLO_COSINE", "Cos"),
    ("Sine", "SIN", "Sin"),
    ("Sign", "SIGN", "Sign"),
    ("ATan2", "ATAN2", ""),
    ("Square Root", "SQRT", "Sqrt"),
    ("Cube Root", "STABLEHLO_CBRT", ""),
)

FAMILIES: tuple[Family, ...] = (
    Family(
        category="convolution",
        xnnpack=("Convolution",),
        tflite=_names("CONV_2D DEPTHWISE_CONV_2D"),
        onnx=_names("Conv ConvInteger QLinearConv FusedConv NhwcConv NhwcFusedConv DeformConv"),
    ),
    Family(
        category="convolution",
        xnnpack=("Deconvolution",),
        # The custom ops are MediaPipe's, which XNNPACK runs too (xnnpack_delegate.cc).
        tflite=_names("TRANSPOSE_CONV Convolution2DTransposeBias"),
        onnx=_names("ConvTranspose ConvTransposeWithDynamicPads QLinearConvTranspose"),
    ),
    Family(
        category="convolution",
        name="Convolution 3D",
        tflite=_names("CONV_3D CONV_3D_TRANSPOSE STABLEHLO_CONVOLUTION"),
    ),
    Family(
        category="matrix",
        xnnpack=("Fully Connected", "Dynamic Fully Connected"),
        tflite=_names("FULLY_CONNECTED"),
        onnx=_names("Gemm FusedGemm QGemm"),
        also=_names("CONV_2D BATCH_MATMUL STABLEHLO_COMPOSITE"),
    ),
    Family(
        category="matrix",
        xnnpack=("Batch Matrix Multiply",),
        tflite=_names("BATCH_MATMUL"),
        onnx=_names(
            "MatMul FusedMatMul TransposeMatMul MatMulInteger QLinearMatMul Einsum MatMulNBits "
            "MatMulIntegerToFloat DynamicQuantizeMatMul MatMulInteger16 MatMulBnb4 FusedMatMulActivation"
        ),
        also=_names("FULLY_CONNECTED STABLEHLO_COMPOSITE"),
    ),
    Family(
        category="matrix",
        name="Recurrent",
        tflite=_names(
            "RNN LSTM SVDF UNIDIRECTIONAL_SEQUENCE_RNN UNIDIRECTIONAL_SEQUENCE_LSTM "
            "BIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_LSTM STABLEHLO_DOT_GENERAL"
        ),
        onnx=_names(
            "RNN GRU LSTM DynamicQuantizeLSTM Attention QAttention MultiHeadAttention "
            "GroupQueryAttention FlexAttention LinearAttention PackedAttention CausalConvWithState DecoderAttention"
        ),
    ),
    Family(
        category="elementwise",
        xnnpack=("Multiply",),
        tflite=_names("MUL STABLEHLO_MULTIPLY"),
        onnx=_names("Mul QLinearMul"),
        also=_names("STABLEHLO_COMPOSITE"),
    ),
    Family(
        category="elementwise",
        xnnpack=("Maximum",),
        tflite=_names("MAXIMUM STABLEHLO_MAXIMUM"),
        onnx=_names("Max"),
        also=_names("RELU"),
    ),
    Family(
        category="elementwise",
        xnnpack=("Clamp",),
        tflite=_names("RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 STABLEHLO_CLAMP"),
        onnx=_names("Relu Clip ThresholdedRelu"),
        also=_names("MAXIMUM MINIMUM"),
        helper="after",
        elided=True,
    ),
    Family(
        category="elementwise",
        xnnpack=(
            "GELU",
            "ApproxGELU",
        ),
        tflite=_names("GELU"),
        onnx=_names("Gelu FastGelu QuickGelu BiasGelu BiasSplitGelu Erf"),
    ),
    Family(
        category="elementwise",
        xnnpack=(
            "Bankders Rounding",
            "Bankers Rounding",
        ),
        tflite=_names("ROUND"),
        onnx=_names("Round"),
    ),
    Family(
        category="elementwise", xnnpack=("Square",), tflite=_names("SQUARE"), also=_names("MUL")
    ),
    Family(
        category="elementwise",
        xnnpack=("Reciprocal Square Root",),
        tflite=_names("RSQRT STABLEHLO_RSQRT"),
        also=_names("SQRT DIV"),
    ),
    Family(
        category="elementwise",
        xnnpack=(
            "Unary Elementwise",
            "Binary Elementwise",
            "Bitwise",
            "Shift",
            "Count Leading Zeros",
            "Population Count",
        ),
        tflite=_names("BITWISE_XOR RIGHT_SHIFT STABLEHLO_SHIFT_LEFT STABLEHLO_AND STABLEHLO_OR"),
        onnx=_names("BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor"),
    ),
    Family(
        category="elementwise",
        name="Comparison, Selection",
        tflite=_names(
            f"{_COMPARISONS} LOGICAL_AND LOGICAL_OR LOGICAL_NOT SELECT SELECT_V2 "
            "STABLEHLO_COMPARE STABLEHLO_SELECT COMPLEX_ABS"
        ),
        onnx=_names(
            "Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor Not Where IsNaN IsInf "
            "Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan Mish Shrink Softplus Softsign Binarizer"
        ),
    ),
    Family(
        category="elementwise",
        xnnpack=("RoPE",),
        onnx=_names("RotaryEmbedding"),
        also=_names("STABLEHLO_COMPOSITE"),
    ),
    Family(
        category="normalisation",
        xnnpack=("Softmax",),
        tflite=_names("SOFTMAX LOG_SOFTMAX"),
        onnx=_names("Softmax LogSoftmax Hardmax QLinearSoftmax BiasSoftmax"),
        also=_names("STABLEHLO_COMPOSITE"),
    ),
    Family(
        category="normalisation",
        name="Normalisation",
        tflite=_names("L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION"),
        onnx=_names(
            "BatchNormalization InstanceNormalization GroupNormalization GroupNorm "
            "LayerNormalization SkipLayerNormalization SimplifiedLayerNormalization RMSNormalization "
            "SkipSimplifiedLayerNormalization EmbedLayerNormalization LpNormalization LRN Normalizer "
            "MeanVarianceNormalization Scaler"
        ),
    ),
    Family(
        category="pooling",
        xnnpack=("Average Pooling",),
        tflite=_names("AVERAGE_POOL_2D L2_POOL_2D"),
        onnx=_names(
            "AveragePool GlobalAveragePool LpPool GlobalLpPool QLinearAveragePool "
            "QLinearGlobalAveragePool"
        ),
        also=_names("MEAN"),
    ),
    Family(
        category="pooling",
        xnnpack=(
            "Max Pooling",
            "ArgMax Pooling",
            "Unpooling",
        ),
        tflite=_names(
            "MAX_POOL_2D REDUCE_WINDOW STABLEHLO_REDUCE_WINDOW MaxPoolingWithArgmax2D "
            "MaxUnpooling2D"
        ),
        onnx=_names("MaxPool GlobalMaxPool MaxUnpool NhwcMaxPool MaxRoiPool RoiAlign"),
    ),
    Family(
        category="pooling",
        xnnpack=("Mean",),
        tflite=_names("MEAN"),
        onnx=_names("ReduceMean QLinearReduceMean Mean"),
        also=_names("AVERAGE_POOL_2D STABLEHLO_COMPOSITE"),
    ),
    Family(
        category="pooling",
        xnnpack=(
            "Mean Squared",
            "Sum Squared",
            "Normalize",  # what XNNPACK calls a sum of squares, MUL(x, x) and SUM in one
        ),
        also=_names("MEAN SUM STABLEHLO_COMPOSITE"),
    ),
    Family(
        category="pooling",
        xnnpack=("Sum",),
        tflite=_names("SUM"),
        onnx=_names("ReduceSum"),
        also=_names("MEAN AVERAGE_POOL_2D"),
    ),
    Family(
        category="pooling",
        xnnpack=("Reduce Max",),
        tflite=_names("REDUCE_MAX"),
        onnx=_names("ReduceMax"),
    ),
    Family(
        category="pooling",
        xnnpack=("Reduce Min",),
        tflite=_names("REDUCE_MIN"),
        onnx=_names("ReduceMin"),
    ),
    Family(
        category="pooling",
        name="Reduction",
        tflite=_names("REDUCE_PROD REDUCE_ANY REDUCE_ALL STABLEHLO_REDUCE"),
        onnx=_names("ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare"),
    ),
    Family(
        category="pooling",
        name="Resize",
        xnnpack=("Resize Bilinear",),
        tflite=_names("RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR"),
        onnx=_names("Resize Upsample GridSample AffineGrid Col2Im"),
    ),
    Family(
        category="data movement",
        xnnpack=("Transpose",),
        tflite=_names("TRANSPOSE STABLEHLO_TRANSPOSE"),
        onnx=_names("Transpose ReorderInput ReorderOutput"),
        also=_names("BATCH_MATMUL STABLEHLO_COMPOSITE"),
        helper="before",
    ),
    Family(
        category="data movement",
        name="Reshape",
        xnnpack=(
            "Static Reshape",
            "Static Expand Dims",
            "Fuse Dims",
            "Split Dims",
        ),
        tflite=_names("RESHAPE SQUEEZE EXPAND_DIMS STABLEHLO_RESHAPE BITCAST"),
        onnx=_names("Reshape Squeeze Unsqueeze Flatten Identity Dropout"),
        helper="before",
        elided=True,
        traffic="none",
    ),
    Family(
        category="data movement",
        xnnpack=("Copy",),
        tflite=_names("CONCATENATION STABLEHLO_CONCATENATE BROADCAST_TO TILE"),
        onnx=_names("Concat Expand Tile MemcpyFromHost MemcpyToHost QLinearConcat"),
        also=_names("RESHAPE EXPAND_DIMS SQUEEZE SPLIT SPLIT_V PACK READ_VARIABLE ASSIGN_VARIABLE"),
        helper="before",
    ),
    Family(
        category="data movement",
        xnnpack=("Slice",),
        tflite=_names(
            "SLICE STRIDED_SLICE SPLIT SPLIT_V UNPACK STABLEHLO_SLICE STABLEHLO_DYNAMIC_SLICE"
        ),
        onnx=_names("Slice Split"),
        helper="before",
        traffic="written",
    ),
    Family(
        category="data movement",
        xnnpack=("Constant Pad",),
        tflite=_names("PAD PADV2 STABLEHLO_PAD"),
        onnx=_names("Pad"),
        also=_names("CONCATENATION"),
        elided=True,
    ),
    Family(
        category="data movement",
        xnnpack=("Depth To Space",),
        tflite=_names("DEPTH_TO_SPACE"),
        onnx=_names("DepthToSpace"),
    ),
    Family(
        category="data movement",
        xnnpack=("Space To Depth",),
        tflite=_names("SPACE_TO_DEPTH"),
        onnx=_names("SpaceToDepth"),
    ),
    Family(
        category="data movement",
        name="Gather",
        tflite=_names("GATHER GATHER_ND EMBEDDING_LOOKUP STABLEHLO_GATHER"),
        onnx=_names("Gather GatherElements GatherND GatherBlockQuantized Compress"),
        traffic="written",
    ),
    Family(
        category="data movement",
        name="Shape",
        tflite=_names("VAR_HANDLE SHAPE RANK"),
        onnx=_names("Constant Shape Size SequenceLength"),
        traffic="none",
    ),
    Family(
        category="data movement",
        name="Scatter, Fill",
        tflite=_names(
            "SCATTER_ND PACK REVERSE_V2 REVERSE_SEQUENCE MIRROR_PAD FILL ZEROS_LIKE RANGE "
            "ONE_HOT EMBEDDING_LOOKUP_SPARSE HASHTABLE_LOOKUP SPARSE_TO_DENSE BATCH_TO_SPACE_ND "
            "SPACE_TO_BATCH_ND DYNAMIC_UPDATE_SLICE MATRIX_DIAG MATRIX_SET_DIAG DILATE READ_VARIABLE "
            "ASSIGN_VARIABLE CONCAT_EMBEDDINGS BROADCAST_ARGS STABLEHLO_SCATTER STABLEHLO_IOTA "
            "STABLEHLO_BROADCAST_IN_DIM STABLEHLO_DYNAMIC_UPDATE_SLICE"
        ),
        onnx=_names(
            "Scatter ScatterElements ScatterND ReverseSequence ConstantOfShape EyeLike OneHot "
            "Range Trilu CenterCropPad TensorScatter SplitToSequence ConcatFromSequence SequenceAt "
            "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert"
        ),
    ),
    Family(
        category="type conversion",
        xnnpack=("Convert",),
        tflite=_names("QUANTIZE DEQUANTIZE CAST FAKE_QUANT DENSIFY STABLEHLO_CONVERT"),
        onnx=_names("QuantizeLinear DequantizeLinear DynamicQuantizeLinear Cast CastLike BitCast"),
        helper="before",
        elided=True,
    ),
    Family(
        category="other",
        name="Other",
        tflite=_names(
            "ARG_MAX ARG_MIN TOPK_V2 CUMSUM UNIQUE WHERE SEGMENT_SUM RFFT2D IMAG REAL "
            "NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 IF WHILE CALL CALL_ONCE CUSTOM DELEGATE "
            "HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE LSH_PROJECTION SKIP_GRAM "
            "BUCKETIZE MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM UNSORTED_SEGMENT_MAX "
            "UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM STABLEHLO_CUSTOM_CALL "
            "STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_CASE STABLEHLO_RNG_BIT_GENERATOR "
            "STABLEHLO_COMPOSITE PLACEHOLDER_FOR_GREATER_OP_CODES"
        ),
        onnx=_names(
            "ArgMax ArgMin TopK CumSum CumProd Unique NonZero NonMaxSuppression If Loop Scan "
            "DFT STFT MelWeightMatrix HannWindow HammingWindow BlackmanWindow Det Bernoulli "
            "Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike ImageDecoder "
            "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer SequenceMap "
            "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss Optional OptionalGetElement "
            "OptionalHasElement TreeEnsembleClassifier TreeEnsembleRegressor TreeEnsemble ZipMap "
            "LinearClassifier LinearRegressor SVMClassifier SVMRegressor ArrayFeatureExtractor "
            "CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder OneHotEncoder"
        ),
    ),
    *(
        Family(
            category="elementwise", xnnpack=(operator,), tflite=_names(tflite), onnx=_names(onnx)
        )
        for operator, tflite, onnx in _ELEMENTWISE
    ),
)
