"""Whether the extra is there: said in one line, before anything slow starts."""

import importlib
import importlib.util
import logging
import warnings

from straightway.errors import ToolFailed

_PACKAGES = ("torch", "executorch", "torchao")


def require() -> None:
    """Raise ToolFailed, with the command that helps, where a package is missing; quiet the rest.

    ExecuTorch and torch log what they do, and warn of their own future.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ToolFailed(
            f"PyTorch models need {', '.join(missing)}: pip install 'straightway[executorch]'"
        )
    warnings.filterwarnings("ignore", module=r"(torch|executorch|torchao|copyreg)\b")
    # What they log while they are imported is about their own future.
    logging.disable(logging.WARNING)
    try:
        for name in _PACKAGES:
            importlib.import_module(name)
        importlib.import_module("torchao.quantization.quant_api")
    finally:
        logging.disable(logging.NOTSET)
    for name in _PACKAGES:
        logging.getLogger(name).setLevel(logging.ERROR)
