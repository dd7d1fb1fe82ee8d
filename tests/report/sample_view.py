"""Views for the tests: a detector as it would come from a real run, and its variants."""

import random
from dataclasses import dataclass, field, replace

from straightway.remark import Remark
from straightway.report.summary import category_times, group_refusals
from straightway.report.view import (
    Bandwidth,
    FirstDifference,
    Latency,
    LayoutConversion,
    Machine,
    ModelFile,
    OperatorRow,
    Partition,
    Plan,
    ResultFile,
    Roofline,
    StepTime,
    Timing,
    ValueCheck,
    Verdict,
    View,
)

MACHINE = Machine(
    cpu="AMD EPYC 9R14 (Zen 4, AVX-512)",
    threads=1,
    clock="thread CPU time",
    peak_gmacs=58.4,
    bandwidths=(
        Bandwidth(bytes=65_536, gbs=410.0),
        Bandwidth(bytes=1_048_576, gbs=205.0),
        Bandwidth(bytes=16_777_216, gbs=21.7),
    ),
)
CONVOLUTION = "Convolution (NHWC, F32) IGEMM"
POINTWISE = "Convolution (NHWC, F32) GEMM"


def onnx_path(module):
    """ "model.22.cv3.0" as PyTorch's exporter names it."""
    root, number, *rest = module.split(".", 2)
    return "/".join(["", f"{root}.{number}", *rest])


@dataclass
class Builder:
    """Appends operators in execution order, with times near what a Zen 4 core takes."""

    noise: random.Random = field(default_factory=lambda: random.Random(20))
    rows: list[OperatorRow] = field(default_factory=list)

    def add(self, kind, kernel, category, shape, *, macs=0, reads=1.0, near=0.7, **more):
        elements = shape[0] * shape[1] * shape[2] * shape[3]
        moved = int(4 * elements * (1 + reads))
        near *= self.noise.uniform(0.8, 1.15)
        limit_gbs = next((b.gbs for b in MACHINE.bandwidths if moved <= b.bytes), 21.7)
        compute_ns, memory_ns = macs / MACHINE.peak_gmacs, moved / limit_gbs
        time_ns = round(max(compute_ns, memory_ns) / near + 90, 1)
        module = more.pop("module", "model.0")
        partition = more.pop("partition", 0)
        self.rows.append(
            OperatorRow(
                index=len(self.rows),
                kind=kind,
                kernel=kernel,
                category=category,
                time_ns=time_ns,
                spread_ns=round(time_ns * self.noise.uniform(0.01, 0.06), 1),
                macs=macs,
                moved_bytes=moved,
                roofline=Roofline(
                    gmacs=macs / time_ns or None,
                    gbs=moved / time_ns,
                    limit_gbs=limit_gbs,
                    percent_of_peak=100 * max(compute_ns, memory_ns) / time_ns,
                    bound="compute" if compute_ns > memory_ns else "memory",
                ),
                place="builtin" if partition is None else f"xnnpack #{partition + 1}",
                partition=partition,
                origins=more.pop("origins", (f"{onnx_path(module)}/{kind.title()}",)),
                output_shape=shape,
                dtype="float32",
                **more,
            )
        )

    def conv(self, module, size, channels, kernel, partition=0):
        inputs, outputs = channels
        shape = (1, size, size, outputs)
        path = onnx_path(module)
        self.add(
            "CONV_2D",
            CONVOLUTION if kernel > 1 else POINTWISE,
            "convolution",
            shape,
            macs=size * size * inputs * outputs * kernel * kernel,
            reads=inputs / outputs,
            near=0.82 if inputs >= 32 else 0.31,
            module=module,
            partition=partition,
            origins=(f"{path}/conv/Conv",),
            op_types=("Conv", "BatchNormalization"),
            source="ultralytics/nn/modules/conv.py:54  self.act(self.bn(self.conv(x)))",
        )
        silu = {
            "module": module,
            "partition": partition,
            "source": "torch/nn/modules/activation.py:432  F.silu(input, inplace=self.inplace)",
        }
        self.add(
            "LOGISTIC",
            "Sigmoid (NC, F32)",
            "elementwise",
            shape,
            near=0.55,
            origins=(f"{path}/act/Sigmoid",),
            op_types=("Sigmoid",),
            **silu,
        )
        self.add(
            "MUL",
            "Multiply (ND, F32)",
            "elementwise",
            shape,
            reads=2,
            near=0.8,
            origins=(f"{path}/act/Mul",),
            op_types=("Mul",),
            **silu,
        )

    def block(self, module, size, channels, repeats, partition=0):
        half = channels // 2
        self.conv(f"{module}.cv1", size, (channels, channels), 1, partition)
        for branch in range(2):
            self.add(
                "STRIDED_SLICE",
                "Slice (ND, X32)",
                "data movement",
                (1, size, size, half),
                near=0.6,
                module=module,
                partition=partition,
                origins=(f"{onnx_path(module)}/Split",),
                op_types=("Split",),
                remarks=(f"part {branch + 1} of Split: TFLite's SPLIT is not taken by XNNPACK",),
            )
        for repeat in range(repeats):
            self.conv(f"{module}.m.{repeat}.cv1", size, (half, half), 3, partition)
            self.conv(f"{module}.m.{repeat}.cv2", size, (half, half), 3, partition)
            self.add(
                "ADD", "Add (ND, F32)", "elementwise", (1, size, size, half), reads=2,
                module=f"{module}.m.{repeat}", partition=partition, op_types=("Add",),
            )  # fmt: skip
        self.concat(module, size, half * (2 + repeats), partition)
        self.conv(f"{module}.cv2", size, (half * (2 + repeats), channels), 1, partition)

    def concat(self, module, size, channels, partition=0):
        self.add(
            "CONCATENATION", "Copy (NC, X32)", "data movement", (1, size, size, channels),
            module=module, partition=partition, op_types=("Concat",),
        )  # fmt: skip


def _detector():
    build = Builder()
    build.add(
        "TRANSPOSE", "Transpose (ND, X32)", "data movement", (1, 320, 320, 3), near=0.35,
        origins=(), remarks=("layout conversion of images: N C H W to N H W C",),
    )  # fmt: skip
    build.conv("model.0", 160, (3, 16), 3)
    build.conv("model.1", 80, (16, 32), 3)
    build.block("model.2", 80, 32, 1)
    build.conv("model.3", 40, (32, 64), 3)
    build.block("model.4", 40, 64, 2)
    build.conv("model.5", 20, (64, 128), 3)
    build.block("model.6", 20, 128, 2)
    build.conv("model.7", 10, (128, 256), 3)
    build.block("model.8", 10, 256, 1)
    build.conv("model.9.cv1", 10, (256, 128), 1)
    for step in range(3):
        build.add(
            "MAX_POOL_2D", "Max Pooling (NHWC, F32)", "pooling", (1, 10, 10, 128), reads=25,
            near=0.4, module=f"model.9.m.{step}", op_types=("MaxPool",),
        )  # fmt: skip
    build.concat("model.9", 10, 512)
    build.conv("model.9.cv2", 10, (512, 256), 1)
    build.add(
        "RESIZE_NEAREST_NEIGHBOR", "RESIZE_NEAREST_NEIGHBOR", "data movement", (1, 20, 20, 256),
        partition=None, near=0.2, module="model.10", op_types=("Resize",),
        remarks=("XNNPACK's delegate takes bilinear resizing only",),
    )  # fmt: skip
    build.concat("model.11", 20, 384, 1)
    build.block("model.12", 20, 128, 1, 1)
    build.add(
        "RESIZE_NEAREST_NEIGHBOR", "RESIZE_NEAREST_NEIGHBOR", "data movement", (1, 40, 40, 128),
        partition=None, near=0.2, module="model.13", op_types=("Resize",),
        remarks=("XNNPACK's delegate takes bilinear resizing only",),
    )  # fmt: skip
    build.concat("model.14", 40, 192, 2)
    build.block("model.15", 40, 64, 1, 2)
    build.block("model.18", 20, 128, 1, 2)
    build.block("model.21", 10, 256, 1, 2)
    for scale, (size, channels) in enumerate(((40, 64), (20, 128), (10, 256))):
        for branch, outputs in (("cv2", 64), ("cv3", 80)):
            path = f"model.22.{branch}.{scale}"
            build.conv(f"{path}.0", size, (channels, outputs), 3, 2)
            build.conv(f"{path}.1", size, (outputs, outputs), 3, 2)
    build.concat("model.22", 46, 144, 2)
    build.add(
        "TRANSPOSE", "Transpose (ND, X32)", "data movement", (1, 16, 4, 2100), near=0.5,
        partition=2, module="model.22.dfl", origins=("/model.22/dfl/Transpose",),
        op_types=("Transpose",),
        source="ultralytics/nn/modules/block.py:71  x.view(b, 4, self.c1, a).transpose(2, 1)",
    )  # fmt: skip
    build.add(
        "SOFTMAX", "Softmax (NC, F32)", "normalisation", (1, 4, 2100, 16), near=0.25, partition=2,
        module="model.22.dfl", op_types=("Softmax",),
    )  # fmt: skip
    build.add(
        "FULLY_CONNECTED", "Fully Connected (NC, F32) GEMM", "matrix", (1, 4, 2100, 1),
        macs=4 * 2100 * 16, reads=16, near=0.6, partition=2, module="model.22.dfl.conv",
        op_types=("Conv",),
    )  # fmt: skip
    build.add(
        "CAST", "Convert (NC, F32, F16)", "type conversion", (1, 1, 22, 2100), near=0.5,
        partition=2, module="model.22", op_types=("Cast",),
    )  # fmt: skip
    return tuple(build.rows)


def shares(rows, run_ns):
    return tuple(replace(row, share=(row.time_ns or 0.0) / run_ns) for row in rows)


def sample_view():
    """A detector of 162 operators in three partitions: equal, and faster than onnxruntime."""
    rows = _detector()
    run_ns = sum(row.time_ns for row in rows) * 1.012
    rows = shares(rows, run_ns)
    transposes = [row for row in rows if row.kind == "TRANSPOSE"]
    counts = [sum(row.partition == index for row in rows) for index in range(3)]
    resize = "XNNPACK's delegate takes RESIZE_BILINEAR only"
    return View(
        title="nudenet_yolov8n",
        created="2025-06-03 14:12",
        command="straightway deploy nudenet_yolov8n.onnx -o out",
        model=ModelFile(
            name="nudenet_yolov8n.onnx", bytes=12_150_158, opset="17", producer="pytorch 2.3.0",
            nodes=233,
        ),
        result=ResultFile(name="nudenet_yolov8n.tflite", bytes=12_081_440, ops=len(rows)),
        versions={"straightway": "0.1.0", "LiteRT": "2.3.0", "onnxruntime": "1.32.0"},
        machine=MACHINE,
        verdict=_equal_verdict(),
        latency=Latency(
            ours=Timing(engine="straightway on LiteRT", median_ns=run_ns, p10_ns=run_ns * 0.991,
                        p90_ns=run_ns * 1.018, runs=60),
            reference=Timing(engine="onnxruntime", median_ns=run_ns * 1.231,
                             p10_ns=run_ns * 1.214, p90_ns=run_ns * 1.268, runs=60),
            notes=("Interleaved runs, 10 to warm up.",),
        ),
        categories=category_times(rows, run_ns),
        operators=rows,
        partitions=(
            Partition(index=0, ops=counts[0], place="xnnpack #1",
                      cut_by="RESIZE_NEAREST_NEIGHBOR /model.10/Resize", reason=resize),
            Partition(index=1, ops=counts[1], place="xnnpack #2",
                      cut_by="RESIZE_NEAREST_NEIGHBOR /model.13/Resize", reason=resize),
            Partition(index=2, ops=counts[2], place="xnnpack #3"),
        ),
        plan=_plan(transposes),
        remarks=_remarks(),
        conversion_ns=214e6,
        steps=(StepTime(name="read", time_ns=31e6), StepTime(name="rewrite", time_ns=88e6),
               StepTime(name="layout", time_ns=19e6), StepTime(name="write", time_ns=76e6)),
    )  # fmt: skip


def _equal_verdict():
    return Verdict(
        status="equal",
        text="The output and 24 inner values are those of onnxruntime on 3 seeded inputs.",
        worst_error=2.1e-5,
        tolerance=3.8e-4,
        seeds=3,
        outputs=(
            ValueCheck(name="output0", shape=(1, 22, 2100), dtype="float32", max_error=2.1e-5,
                       bound=3.8e-4, equal=True),
        ),
        interior_count=24,
        interior=tuple(
            ValueCheck(name=f"/model.{index}/cv2/act/Mul_output_0", shape=(1, 8 * index, 40, 40),
                       dtype="float32", max_error=index * 3.1e-7, bound=1.2e-4, equal=True)
            for index in range(1, 25)
        ),
    )  # fmt: skip


def _plan(transposes):
    first, last = transposes
    return Plan(
        minimal=True,
        conversions=(
            LayoutConversion(
                value="images", shape=(1, 3, 320, 320), from_order="C H W", to_order="H W C",
                bytes=1_228_800, cause="stored so by the graph input images",
                demanded_by="Conv /model.0/conv/Conv", time_ns=first.time_ns, operator=first.index,
            ),
            LayoutConversion(
                value="/model.22/Concat_3_output_0", shape=(1, 16, 4, 2100), from_order="C.1 C.2 A",
                to_order="C.1 A C.2", bytes=537_600, cause="stored so by Concat /model.22/Concat_3",
                demanded_by="Softmax /model.22/dfl/Softmax (its axis last)", time_ns=last.time_ns,
                operator=last.index,
            ),
        ),
    )  # fmt: skip


def _remarks():
    return (
        Remark(kind="missed", step="targets.xnnpack", node="/model.10/Resize", op="Resize",
               text="Nearest-neighbour resizing cuts the graph: XNNPACK's delegate takes bilinear "
               "resizing only.", remedy="A 2× nearest upsampling is also a depthwise transposed "
               "convolution with ones, which the delegate takes.",
               source="ultralytics/nn/modules/conv.py:310", numbers={"time_ns": 38_200.0}),
        Remark(kind="missed", step="passes.fuse", node="/model.22/dfl/Transpose", op="Transpose",
               text="Softmax needs its axis last, and the concatenation stores it first.",
               remedy="Export the head with the 16 bins as the last dimension."),
        Remark(kind="done", step="passes.batchnorm", text="57 BatchNormalizations became part of "
               "their convolutions.", numbers={"nodes": 57}),
        Remark(kind="done", step="passes.fold", text="31 constant nodes were computed.",
               numbers={"nodes": 31}),
        Remark(kind="done", step="domains", text="2 layout conversions are left of 58 that a "
               "naive placement needs.", numbers={"conversions": 2, "naive": 58}),
        Remark(kind="measured", step="run.litert", text="98.8 % of the time is joined to nodes.",
               numbers={"joined_percent": 98.8}),
    )  # fmt: skip


def different_view():
    """The written file computes other numbers: no timings, and the node where it starts."""
    whole = sample_view()
    wrong = ValueCheck(
        name="output0", shape=(1, 22, 2100), dtype="float32", max_error=float("inf"),
        bound=3.8e-4, equal=False,
    )  # fmt: skip
    return replace(
        whole,
        verdict=replace(
            whole.verdict,
            status="different",
            text="The output differs from onnxruntime's on 3 of 3 seeds. "
            "The file is kept as nudenet_yolov8n.mismatch.tflite.",
            worst_error=float("inf"),
            outputs=(wrong,),
            interior=(*whole.verdict.interior[:9], replace(wrong, name="/model.9/m.0/MaxPool")),
            first_difference=FirstDifference(
                node="/model.9/m/MaxPool", op="MaxPool", element="[0, 17, 0, 9] of [1, 128, 10, 10]",
                expected="0.8312907", got="-inf",
                source="ultralytics/nn/modules/block.py:176  self.m(y1)",
            ),
        ),
        result=replace(whole.result, name="nudenet_yolov8n.mismatch.tflite"),
        latency=None,
        categories=(),
        operators=tuple(
            replace(row, time_ns=None, spread_ns=None, share=None, roofline=None)
            for row in whole.operators
        ),
    )  # fmt: skip


def refused_view():
    """A model with nodes that the target can't take: nothing was written."""
    loops = [
        Remark(kind="missed", step="lower", node=f"/decoder/layers.{i}/Loop", op="Loop",
               text="TFLite's WHILE needs a body whose shapes stay the same; this one grows its "
               "state by one row each time.", remedy="Export one step of the loop, and call it "
               "from your program.", source=f"decoder.py:{120 + i}  for token in range(limit):")
        for i in range(8)
    ]  # fmt: skip
    strings = [
        Remark(kind="missed", step="lower", node="/tokenize", op="StringNormalizer",
               text="TFLite has no operators on strings in its base runtime.",
               remedy="Split the tokenizer off before export."),
        Remark(kind="missed", step="lower", node="/vocabulary", op="LabelEncoder",
               text="TFLite has no operators on strings in its base runtime.",
               remedy="Split the tokenizer off before export."),
        Remark(kind="missed", step="lower", node="/decoder/GridSample", op="GridSample",
               text="Not lowered so far: GridSample with mode=bicubic."),
    ]  # fmt: skip
    return View(
        title="t5_with_tokenizer",
        created="2025-06-03 14:12",
        command="straightway deploy t5_with_tokenizer.onnx -o out",
        model=ModelFile(
            name="t5_with_tokenizer.onnx", bytes=58_150_158, opset="21, ai.onnx.ml 3",
            producer="pytorch 2.6.0", nodes=902,
        ),
        versions={"straightway": "0.1.0"},
        verdict=Verdict(
            status="refused",
            text="11 of 902 nodes can't become TFLite operators, for 3 reasons. Nothing was written.",
        ),
        refusals=group_refusals([*strings, *loops]),
        remarks=(*strings, *loops),
    )  # fmt: skip


def unverified_view():
    """A model too large to run here: converted, not compared, not measured."""
    whole = different_view()
    return replace(
        whole,
        verdict=Verdict(
            status="unverified",
            text="The model needs more memory than this machine has; straightway verify "
            "compares it where there is enough.",
        ),
        plan=Plan(minimal=True),
        partitions=(),
    )


def large_view(count):
    """The sample with `count` operators: its own, repeated, with times that all differ."""
    whole = sample_view()
    source = random.Random(7)
    rows = []
    for index in range(count):
        row = whole.operators[index % len(whole.operators)]
        time_ns = round(row.time_ns * source.uniform(0.5, 2), 1)
        origin = f"/layer.{index}{row.origins[0] if row.origins else ''}"
        rows.append(replace(row, index=index, time_ns=time_ns, origins=(origin,)))
    run_ns = sum(row.time_ns for row in rows)
    rows = shares(rows, run_ns)
    return replace(
        whole, operators=rows, categories=category_times(rows, run_ns), partitions=(),
        latency=replace(whole.latency, ours=replace(whole.latency.ours, median_ns=run_ns)),
    )  # fmt: skip
