"""What can go wrong, as one tree.

    StraightwayError
    ├── InvalidRequest         a wrong option or a missing one                   exit 2
    ├── InvalidModel           not a model, damaged, or against its own format   exit 3, refused
    ├── Unsupported            some nodes can't become what the target runs      exit 3, refused
    │   ├── Impossible         the target can't (kernel file and line)
    │   └── NotYet             we don't, so far
    ├── Mismatch               the file computes other numbers, or another model exit 1, never refused
    ├── ToolFailed             an engine, a tool or a device failed              exit 4
    │   └── KernelFailed       one operator of an ExecuTorch program as it ran
    └── Bug                    our own fault, with how to report it              exit 5

A message names *subject, limit, what was found*: "TFLite's ELU has alpha fixed at 1.0; got 2.0".
"""

from collections.abc import Sequence

from straightway.remark import Remark


class StraightwayError(Exception):
    """The root: every error that straightway raises on purpose."""

    exit_code = 5
    refused = False


class InvalidRequest(StraightwayError):
    """What was asked for can't be done as asked: a wrong, missing or contradictory option."""

    exit_code = 2


class InvalidModel(StraightwayError):
    """The file is not a model, is damaged, or breaks the rules of its own format."""

    exit_code = 3
    refused = True


class Unsupported(StraightwayError):
    """Nodes that can't become what the target runs: all of them at once, in `remarks`."""

    exit_code = 3
    refused = True

    def __init__(self, message: str, remarks: Sequence[Remark] = ()) -> None:
        """Keep `remarks`: one for each refused node, with its reason, source and remedy."""
        super().__init__(message)
        self.remarks = tuple(remarks)


class Impossible(Unsupported):
    """The target has no kernel for it; `kernel` cites the file and line that says so."""

    def __init__(self, message: str, *, kernel: str = "", remedy: str = "") -> None:
        """Keep where the limit stands and what would work instead."""
        super().__init__(message)
        self.kernel = kernel
        self.remedy = remedy


class NotYet(Unsupported):
    """The target could run it, but straightway does not lower it so far."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        """Keep what would work instead."""
        super().__init__(message)
        self.remedy = remedy


class Mismatch(StraightwayError):
    """The file computes other numbers than the model: never a refusal.

    Of a file that straightway wrote it is a fault of ours; to `verify` any file may be given.
    """

    exit_code = 1

    def __init__(self, message: str, remarks: Sequence[Remark] = ()) -> None:
        """Keep `remarks`: which values differ, the first differing node among them."""
        super().__init__(message)
        self.remarks = tuple(remarks)


class ToolFailed(StraightwayError):
    """An engine, tool or device failed: its command, exit code and last lines."""

    exit_code = 4

    def __init__(self, message: str, *, output: str = "") -> None:
        """Keep the last lines that the tool printed."""
        super().__init__(message if not output else f"{message}\n{output}")
        self.output = output


class KernelFailed(ToolFailed):
    """An operator of an ExecuTorch program failed as it ran."""

    def __init__(self, message: str, *, step: int = -1, kernel: str = "", why: str = "") -> None:
        """Keep its place in the program's chain (-1: not known), what it is called, what it said."""
        super().__init__(message)
        self.step = step
        self.kernel = kernel
        self.why = why


class Bug(StraightwayError):
    """Our own fault. The message says what to send to us."""
