"""Small models, exported once; skipped where the extra is missing."""

import importlib.util
from pathlib import Path

import pytest

# exports take seconds each, on a busy machine minutes
EXPORTS_S = 900
HERE = str(Path(__file__).parent)
MISSING = [one for one in ("torch", "executorch") if importlib.util.find_spec(one) is None]


def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path).startswith(HERE):
            # warnings of torch's own code are no errors of ours
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.timeout(EXPORTS_S))
            if MISSING:
                item.add_marker(pytest.mark.skip(reason=f"{', '.join(MISSING)} not installed"))


@pytest.fixture(scope="session")
def small():
    """A network with a cut in it, lowered as it is."""
    from straightway.executorch.installed import require

    require()
    import torch_models

    from straightway.executorch.exported import Recipe, export
    from straightway.executorch.model import made

    return export(made("torch_models:small", torch_models.small), Recipe())
