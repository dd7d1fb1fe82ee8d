"""What a user may call a PyTorch model; mistakes are told before torch is imported, which takes seconds."""

from pathlib import Path
from typing import Literal

from straightway.errors import InvalidRequest

Precision = Literal["fp32", "fp16", "int8", "int8-dynamic", "int4"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8", "int8-dynamic", "int4")
EXAMPLE = """Give MODULE:FACTORY, a function without parameters that returns the module and its
example inputs, such as

    # nets.py
    def small():
        return torch.nn.Linear(4, 2).eval(), (torch.randn(1, 4),)

    straightway export nets:small -o small.pte

Open dimensions are a third part, as torch.export takes them: one entry for each input, such as
({0: torch.export.Dim("batch", max=16)},)"""
_CHECKPOINTS = {".pt", ".pth", ".ckpt", ".bin", ".pkl"}


def check(given: str) -> tuple[str, str, str]:
    """Module, colon and factory; without a module it is a saved program.

    Raises InvalidRequest for anything else, or a file that is not there.
    """
    path = Path(given)
    if path.suffix in _CHECKPOINTS:
        raise InvalidRequest(
            f"{given}: is a checkpoint, which holds weights but not the model, and would run code "
            f"of its own when it is opened; load it in a factory by "
            f"torch.load(..., weights_only=True).\n{EXAMPLE}"
        )
    module, colon, factory = ("", "", "") if path.suffix == ".pt2" else given.rpartition(":")
    if path.suffix != ".pt2" and (not module or not factory.isidentifier()):
        raise InvalidRequest(f"'{given}' is neither a .pt2 file nor MODULE:FACTORY.\n{EXAMPLE}")
    file = path if not module else Path(module)
    if file.is_dir() and file.suffix in {".pt2", ".py"}:
        raise InvalidRequest(f"{file}: is a directory; give a file")
    if file.suffix in {".pt2", ".py"} and not file.is_file():
        raise InvalidRequest(f"{file}: there is no such file")
    return module, colon, factory
