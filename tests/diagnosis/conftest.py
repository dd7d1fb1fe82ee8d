"""The gallery, exported and traced once for each precision; skipped where the extra is missing."""

import importlib.util
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
# The first test that asks for a program waits for its export, on a busy machine.
EXPORT_S = 600
MISSING = [one for one in ("torch", "executorch") if importlib.util.find_spec(one) is None]


def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path).startswith(HERE):
            # warnings of torch's own code are no errors of ours
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.xdist_group("executorch"))
            if "programs" in item.fixturenames:
                item.add_marker(pytest.mark.timeout(EXPORT_S))
                if MISSING:
                    item.add_marker(pytest.mark.skip(reason=f"{', '.join(MISSING)} not installed"))


# By name: the blocks (none for all), the precision, and what the partitioner leaves out.
PROGRAMS = {
    "fp32": ((), "fp32", ()),
    "fp16": (("layer_norm", "group_norm", "gelu", "silu"), "fp16", ()),
    "old": (("batch_norm", "batch_norm_first"), "fp32", ("BatchNormConfig",)),
}


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Makes a diagnosis of one of PROGRAMS, once."""
    from straightway.executorch.installed import require

    require()
    import gallery

    from straightway.executorch.model import made
    from straightway.flow.diagnose import DiagnoseRequest, diagnose
    from straightway.flow.export import export
    from straightway.flow.export_request import ExportRequest

    known = {}

    def diagnosed(name):
        if name not in known:
            blocks, precision, without = PROGRAMS[name]
            path = tmp_path_factory.mktemp("gallery") / f"{name}.pte"
            model = made(f"gallery:{name}", lambda: gallery.gallery(blocks))
            asked = ExportRequest(precision=precision, without=without, verify=False)
            export(model, path, asked)
            known[name] = path, diagnose(path, DiagnoseRequest(runs=3))
        return known[name]

    return diagnosed
