"""A model becomes a program that computes the same; what it holds is told."""

import json

import pytest

torch = pytest.importorskip("torch")

import torch_models  # noqa: E402

from straightway.errors import InvalidModel, InvalidRequest, Unsupported  # noqa: E402
from straightway.executorch import etdump, pte  # noqa: E402
from straightway.executorch.exported import (  # noqa: E402
    Eager,
    Recipe,
    export as lower_model,
)
from straightway.executorch.model import load, made  # noqa: E402
from straightway.executorch.program import ProgramMap  # noqa: E402
from straightway.executorch.rewrites.catalogue import REWRITES  # noqa: E402
from straightway.executorch.rewrites.scene import rewritten  # noqa: E402
from straightway.executorch.samples import open_symbols  # noqa: E402
from straightway.executorch.tensors import array_of  # noqa: E402
from straightway.flow.export import compared, export  # noqa: E402
from straightway.flow.export_request import ExportRequest  # noqa: E402
from straightway.flow.program import TraceRequest, program_map, trace  # noqa: E402
from straightway.run.process import Child  # noqa: E402
from straightway.trace.join import joined_share  # noqa: E402
from straightway.trace.schema import Trace  # noqa: E402


def test_what_is_delegated_and_what_not_and_why(small):
    found = small.lowered.map
    outside = [op for op in found.ops if op.partition is None]
    assert [op.target for op in outside if "layer_norm" in op.target] == ["native_layer_norm.out"]
    norm = next(op for op in outside if "layer_norm" in op.target)
    assert "no rule" in norm.reason
    assert norm.source.module == "norm"
    assert norm.source.file.endswith("torch_models.py")
    assert "self.norm(x)" in norm.source.code
    assert {op.partition for op in found.ops} == {None, 0, 1}


def test_the_map_survives_json(small):
    found = small.lowered.map
    assert ProgramMap.from_json(found.to_json()) == found
    with pytest.raises(InvalidModel, match="damaged"):
        ProgramMap.from_json("{}")


def test_layout_transposes_are_counted(small):
    found = small.lowered.map
    assert found.inserted_transposes == sum(
        node.permutation in {(0, 2, 3, 1), (0, 3, 1, 2)}
        for d in found.delegates
        for node in d.nodes
    )
    assert found.inserted_transposes >= 4


def test_export_profile_and_join(tmp_path):
    path = tmp_path / "small.pte"
    done = export(made("small", torch_models.small), path)
    assert done.numbers.equal
    assert done.numbers.model_db > 100
    assert program_map(path) == done.exported.lowered.map
    found = trace(path, TraceRequest(runs=3))
    assert Trace.from_json(found.to_json()) == found
    assert joined_share(found) > 0.99
    causes = [event.cause for event in found.events if event.name.startswith("Transpose")]
    assert causes
    assert all("NHWC" in cause for cause in causes)
    assert any("layer_norm" in cause for cause in causes)
    names = [found.ops[event.op_index].module for event in found.events if "IGEMM" in event.name]
    assert names == ["first", "second"]


def test_a_program_without_a_map_is_traced_by_its_nodes(tmp_path, small):
    path = tmp_path / "foreign.pte"
    path.write_bytes(small.lowered.data)
    found = trace(path, TraceRequest(runs=2))
    assert joined_share(found) > 0.9
    assert "CONV_2D" in {op.kind for op in found.ops}


@pytest.mark.parametrize("precision", ["fp16", "int8", "int8-dynamic", "int4"])
def test_precisions(precision):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
    model = made("net", lambda: (module.eval(), (torch.randn(2, 64),)))
    done = lower_model(model, Recipe(precision=precision, samples=[model.inputs]))
    with Child() as child:
        numbers = compared(child, done, precision)
    assert numbers.equal
    assert numbers.model_db > 15
    assert all(op.partition is not None for op in done.lowered.map.ops if "linear" in op.target)


def test_open_dimensions_are_compared_at_another_size():
    done = lower_model(made("open", torch_models.open_batch), Recipe())
    with Child() as child:
        numbers = compared(child, done, "fp32")
    shapes = {check.shape for check in numbers.checks}
    assert numbers.equal
    assert len(shapes) == 2


def test_a_saved_program_keeps_its_open_dimensions_when_it_is_rewritten(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ELU()).eval()
    inputs, shapes = (torch.randn(2, 8),), ({0: torch.export.Dim("batch", min=1, max=16)},)
    path = tmp_path / "open.pt2"
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=shapes), path)
    model = load(str(path))
    changed, changes = rewritten(model.program, REWRITES, dynamic_shapes=model.dynamic_shapes)
    assert [change.rewrite for change in changes] == ["activations"]
    for program in (model.program, changed):
        assert list(open_symbols(program).values()) == [(2, 1, 16)]


def test_softmax_of_an_image_is_right_without_asking():
    done = lower_model(made("image", torch_models.softmax_of_image), Recipe())
    with Child() as child:
        assert compared(child, done, "fp32").equal
    (want,) = Eager(done.reference)(done.model.inputs)
    assert array_of(want).shape == (1, 2, 5, 6)


def test_a_state_goes_on_from_what_it_begins_with():
    model = made("stream", torch_models.stream)
    with Child() as child:
        for recipe in (Recipe(), Recipe(rewrites=REWRITES)):
            assert compared(child, lower_model(model, recipe), "fp32").equal
    with pytest.raises(Unsupported, match="keeps a state"):
        lower_model(model, Recipe(precision="int8", samples=[model.inputs]))


def test_a_sample_that_the_model_does_not_take_is_told():
    with pytest.raises(InvalidRequest, match="calibration sample 0"):
        lower_model(
            made("parts", torch_models.parts),
            Recipe(precision="int8", samples=[(torch.ones(2, 3),)]),
        )


def test_a_missing_kernel_is_named_before_the_program_is_loaded(tmp_path):
    with pytest.raises(InvalidModel, match=r"no kernel for .*svd"):
        export(made("svd", torch_models.without_kernel), tmp_path / "x.pte")


def test_torchs_pages_are_kept_back(capfd, tmp_path):
    with pytest.raises(Unsupported):
        export(made("branch", torch_models.branch), tmp_path / "x.pte")
    said = capfd.readouterr()
    assert said.out + said.err == ""


def test_int8_without_data_is_refused_with_an_example(tmp_path):
    with pytest.raises(InvalidRequest, match="--calibration"):
        export(
            made("small", torch_models.small), tmp_path / "x.pte", ExportRequest(precision="int8")
        )
    assert not list(tmp_path.iterdir())


def test_a_model_that_branches_on_data_is_refused_with_its_line(tmp_path):
    with pytest.raises(Unsupported, match=r"torch_models.py:\d+.*\n.*torch.where"):
        export(made("branch", torch_models.branch), tmp_path / "x.pte")


def test_a_size_that_is_no_open_one_is_told_as_torch_suggests(tmp_path):
    with pytest.raises(Unsupported, match=r"torch suggests: steps = 6\n.*that dimension as fixed"):
        export(made("open_steps", torch_models.open_steps), tmp_path / "x.pte")


def test_sizes_of_open_dimensions_come_from_no_line(tmp_path):
    program = export(made("open_size", torch_models.open_size), tmp_path / "x.pte")
    sizes = [one for one in program.exported.lowered.map.ops if "sym_size" in one.target]
    assert sizes
    assert {(one.source.file, one.source.module) for one in sizes} == {("", "")}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nowhere:small", "nowhere"),
        ("torch_models:absent", "no 'absent'"),
        ("torch_models:nothing", "returned int"),
        ("weights.pth", "checkpoint"),
        ("absent.pt2", "no such file"),
        ("plain", "neither"),
    ],
)
def test_what_is_no_model_is_told(given, said):
    with pytest.raises(InvalidRequest, match=said):
        load(given)


def test_a_saved_program_is_read_and_a_malicious_one_not(tmp_path):
    module, inputs = torch_models.parts()
    path = tmp_path / "parts.pt2"
    torch.export.save(torch.export.export(module, inputs), path)
    assert load(str(path)).inputs[0].shape == (2, 4, 5, 6)
    evil = tmp_path / "evil.pt2"
    torch.save({"weights": _Evil(tmp_path / "mark")}, evil)
    with pytest.raises(InvalidModel, match="would call"):
        load(str(evil))
    assert not (tmp_path / "mark").exists()
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InvalidModel):
        load(str(broken))


class _Evil:
    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return (open, (self.mark, "w"))


def test_damaged_files_are_told(tmp_path, small):
    data = small.lowered.data
    for bad, said in (
        (b"nothing", "no ExecuTorch program"),
        (data[:4] + b"ET99" + data[8:], "of version ET99"),
        (data[: len(data) // 4], ""),
    ):
        with pytest.raises(InvalidModel, match=said):
            pte.read(bad, "bad.pte")
    with pytest.raises(InvalidModel, match="no ETDump"):
        etdump.read(b"nothing at all", "bad.etdump")
    cut = (1000).to_bytes(4, "little") + b"\0" * 4 + b"ED00" + b"\0" * 20
    with pytest.raises(InvalidModel, match="cut off"):
        etdump.read(cut, "cut.etdump")


def test_a_map_of_another_program_is_refused(tmp_path, small):
    path = tmp_path / "other.pte"
    path.write_bytes(small.lowered.data)
    other = json.loads(small.lowered.map.to_json())
    other["instructions"] = other["instructions"][:-1]
    (tmp_path / "other.pte.json").write_text(json.dumps(other))
    with pytest.raises(InvalidModel, match="another program"):
        program_map(path)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torch\nW = torch.nosuchthing\ndef small(): ...", r"nets.py:2: AttributeError"),
        ("def small():\n    return undefined", r"nets.py:2: NameError"),
        ("def small(:", r"nets.py:1: SyntaxError"),
        (
            "def small():\n    import torch\n    torch.load('missing.pth')",
            r"nets.py:3: FileNotFound",
        ),
        (
            "def small():\n    import numpy, torch\n    return torch.nn.ReLU(), (numpy.ones(3),)",
            "from_numpy",
        ),
        ("def small():\n    import torch\n    return torch.nn.ReLU(), (torch.ones(3),), 7", "open"),
    ],
)
def test_mistakes_in_the_users_file_are_told_with_their_line(code, said, tmp_path):
    (tmp_path / "nets.py").write_text(code)
    with pytest.raises(InvalidRequest, match=said):
        load(f"{tmp_path / 'nets.py'}:small")


def test_a_file_may_have_the_name_of_a_package(tmp_path):
    (tmp_path / "onnx.py").write_text(
        "import torch\ndef small():\n    return torch.nn.ReLU(), (torch.ones(3),)"
    )
    assert load(f"{tmp_path / 'onnx.py'}:small").inputs[0].shape == (3,)


@pytest.mark.parametrize(
    ("options", "name", "said"),
    [
        ({"calibration": "data"}, "x.pte", "is for --int8"),
        ({"without": ("NoSuchConfig",)}, "x.pte", "BatchNormConfig"),
        ({}, "x.tflite", "is a .pte file"),
    ],
)
def test_contradictions_are_told_before_anything_slow(options, name, said, tmp_path):
    with pytest.raises(InvalidRequest, match=said):
        export("torch_models:small", tmp_path / name, ExportRequest(**options))


def test_operators_of_open_sizes_stand_at_their_own_steps():
    found = lower_model(made("open", torch_models.open_attention), Recipe()).lowered.map
    products = [op for op in found.ops if any(name in op.target for name in ("linear", "bmm"))]
    assert len(products) == 4
    assert all(op.partition is not None for op in products)
    kernels = {one.index: one.name for one in found.instructions if one.kind == "kernel"}
    outside = [op for op in found.ops if op.partition is None]
    assert [op.instruction for op in outside] == list(kernels)
    assert all("view" in op.target for op in outside if "et_view" in kernels[op.instruction])


def test_half_layer_norms_of_long_rows_are_right_without_asking():
    done = lower_model(made("norm", torch_models.long_norm), Recipe(precision="fp16"))
    with Child() as child:
        numbers = compared(child, done, "fp16")
    assert numbers.equal
    assert numbers.model_db > 60
    assert [note.partition(":")[0] for note in done.notes] == [
        "layer norm of half floats in floats, which ExecuTorch gets wrong"
    ]


@pytest.mark.parametrize(
    "given",
    [
        torch.randn(1, 8, 4).transpose(1, 2),
        torch.randn(1, 8).expand(4, 8),
        torch.randn(4, 16)[:, ::2],
        torch.randn(2, 4, 3, 8).permute(2, 1, 0, 3),
    ],
)
@pytest.mark.parametrize("saved", [False, True])
def test_inputs_of_other_strides_are_stored_as_executorch_knows_them(given, saved, tmp_path):
    module = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.GELU()).eval()
    model = made("strides", lambda: (module, (given,)))
    if saved:
        torch.export.save(torch.export.export(module, (given,)), tmp_path / "m.pt2")
        model = load(str(tmp_path / "m.pt2"))
    with Child() as child:
        assert compared(child, lower_model(model, Recipe()), "fp32").equal


def test_images_given_channels_last_stay_so():
    image = torch.randn(1, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    model = made("image", lambda: (torch.nn.Conv2d(3, 4, 3).eval(), (image,)))
    assert model.inputs[0] is image


def test_a_model_in_training_mode_is_said_to_be_exported_in_eval_mode(tmp_path):
    def factory():
        return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()), (torch.ones(1, 4),)

    done = export(made("trained", factory), tmp_path / "m.pte")
    (note,) = done.exported.notes
    assert note.startswith("the model (and 2 more modules) came in training mode")
    assert note in [remark.text for remark in done.remarks]
    assert not lower_model(made("small", torch_models.small), Recipe()).model.notes


def test_inputs_that_the_model_does_not_take_are_the_request_s_fault():
    wrong = made("wrong", lambda: (torch.nn.Linear(4, 2).eval(), (torch.ones(1, 5),)))
    with pytest.raises(InvalidRequest, match=r"fails on its example inputs \(\[1, 5\]\)"):
        lower_model(wrong, Recipe())


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_prelus_of_what_is_no_image_can_be_lowered(precision):
    done = lower_model(made("prelus", torch_models.prelus), Recipe(precision=precision))
    with Child() as child:
        assert compared(child, done, precision).equal


@pytest.mark.parametrize("pool", [torch.nn.MaxPool2d(2), torch.nn.AvgPool2d(2, ceil_mode=True)])
def test_pools_without_a_batch_can_be_lowered(pool):
    done = lower_model(made("pool", lambda: (pool.eval(), (torch.randn(3, 9, 9),))), Recipe())
    assert [one.rewrite for one in done.changes] == ["unbatched-pool"]
    with Child() as child:
        assert compared(child, done, "fp32").equal


def test_convolutions_over_volumes_are_refused_by_their_line():
    deep = made("deep", lambda: (torch.nn.Conv3d(1, 2, 3).eval(), (torch.randn(1, 1, 5, 5, 5),)))
    with pytest.raises(Unsupported, match="two dimensions beside batch and channels"):
        lower_model(deep, Recipe())


def test_greatest_numbers_without_their_dimension_can_be_lowered():
    done = lower_model(made("greatest", torch_models.greatest), Recipe())
    with Child() as child:
        assert compared(child, done, "fp32").equal


class TwoTables(torch.nn.Module):
    """Ids of two tables in one tensor, so that not all of them may be exchanged."""

    def __init__(self):
        super().__init__()
        self.few, self.many = torch.nn.Embedding(3, 4), torch.nn.Embedding(900, 4)

    def forward(self, x):
        return self.few(x[0]) + self.many(x[1])


def test_inputs_that_the_model_does_not_take_are_not_compared():
    ids = torch.stack((torch.arange(6) % 3, torch.arange(894, 900)))
    done = lower_model(made("tables", lambda: (TwoTables().eval(), (ids,))), Recipe())
    with Child() as child:
        numbers = compared(child, done, "fp32")
    assert numbers.equal
    assert numbers.inputs == 1


def test_inputs_that_are_no_tensors_become_flat_ones():
    model = made("odd", torch_models.odd)
    assert model.input_names == ("pair_left", "pair_right", "table_a", "rest_0")
    assert model.notes == ("scale=2.5, mask=None: part of the program, no input of it",)
    done = lower_model(model, Recipe(rewrites=REWRITES))
    assert done.lowered.written == (2,)
    assert "writes to its input table_a in place" in done.notes[1]
    with Child() as child:
        numbers = compared(child, done, "fp32")
    assert numbers.equal
    assert {check.shape[0] for check in numbers.checks} == {2, 3, 4}


def test_a_saved_program_may_have_keywords(tmp_path):
    class Scaled(torch.nn.Module):
        def forward(self, x, k, *, more):
            return x * k + more["a"]

    inputs, keywords = (torch.randn(3, 4), 2.5), {"more": {"a": torch.randn(3, 4)}}
    batch = {0: torch.export.Dim("batch", min=1, max=9)}
    shapes = {"x": batch, "k": None, "more": {"a": batch}}
    path = tmp_path / "scaled.pt2"
    torch.export.save(torch.export.export(Scaled(), inputs, keywords, dynamic_shapes=shapes), path)
    model = load(str(path))
    assert model.input_names == ("x", "more_a")
    with Child() as child:
        numbers = compared(child, lower_model(model, Recipe()), "fp32")
    assert numbers.equal
    assert {check.shape for check in numbers.checks} == {(3, 4), (4, 4)}


def test_empty_inputs_are_run(tmp_path):
    done = export(
        made("empty", lambda: (torch.nn.Linear(4, 2), torch.ones(0, 4))), tmp_path / "e.pte"
    )
    assert done.numbers.equal
    assert {check.shape for check in done.numbers.checks} == {(0, 2)}


@pytest.mark.parametrize(
    ("way", "error", "said"),
    [
        ("nonzero", Unsupported, r"nonzero .*torch_models.py:\d+.*x\[mask\]"),
        ("unique", InvalidModel, r"no kernel for aten._unique2.out.*torch_models.py:\d+"),
        ("float8", Unsupported, r"torch_models.py:\d+[^\n]*Unhandled dtype Float8.*\n.*float32"),
        ("fft", Unsupported, r"torch_models.py:\d+[^\n]*onesided=False is not supported"),
        ("random", Unsupported, r"random numbers .*torch_models.py:\d+.*noise as an input"),
        ("nothing", InvalidRequest, "returns no tensor"),
    ],
)
def test_what_has_no_numbers_is_refused_by_its_line(way, error, said, tmp_path):
    with pytest.raises(error, match=said):
        export(made("r", lambda: (torch_models.Refused(way), torch.ones(3, 4))), tmp_path / "r.pte")


def test_inputs_of_types_without_kernels_are_refused():
    given = torch.ones(3).to(torch.float8_e4m3fn)
    with pytest.raises(InvalidRequest, match="float8_e4m3fn"):
        made("f8", lambda: (torch.nn.ReLU(), given))
