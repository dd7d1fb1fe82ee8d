"""The models of the benchmark: real ones that other people trained, fetched by package name."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("models.json")
# A folder of model files under their names here, for those that no package carries.
FOLDER_VARIABLE = "STRAIGHTWAY_CORPUS"
DOWNLOAD_TIMEOUT_S = 600


class Missing(Exception):
    """A model that can't be had here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One model: where it is shipped, its digest, and the shapes that its inputs get.

    `index`: "pip", "npm", or "none" where no package carries it (`origin` says where it is from).
    """

    name: str
    licence: str
    index: str
    sha256: str
    shapes: Mapping[str, Sequence[int]]
    package: str = ""
    version: str = ""
    member: str = ""
    origin: str = ""
    python_version: str = ""
    platform: str = ""

    @property
    def shipped_in(self) -> str:
        """Package and version, or the origin."""
        return f"{self.package} {self.version} ({self.index})" if self.package else self.origin


def entries() -> tuple[Entry, ...]:
    """All models, in the order of the list."""
    return tuple(Entry(**one) for one in json.loads(LIST.read_text()))


def find(entry: Entry, cache: Path) -> Path:
    """The model's file: from STRAIGHTWAY_CORPUS, from the cache, or fetched into it.

    Raises Missing with the reason.
    """
    known = [cache / f"{entry.name}.onnx"]
    if folder := os.environ.get(FOLDER_VARIABLE):
        known.insert(0, Path(folder) / f"{entry.name}.onnx")
    for path in known:
        if path.is_file() and _digest(path.read_bytes()) == entry.sha256:
            return path
    if entry.index == "none":
        raise Missing(f"no package carries it; {FOLDER_VARIABLE} names no folder with it")
    data = _fetched(entry)
    if _digest(data) != entry.sha256:
        raise Missing(f"{entry.member} of {entry.package} {entry.version} is another file")
    cache.mkdir(parents=True, exist_ok=True)
    known[-1].write_bytes(data)
    return known[-1]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _fetched(entry: Entry) -> bytes:
    with tempfile.TemporaryDirectory(prefix="straightway-model-") as folder:
        try:
            subprocess.run(
                _command(entry, folder),
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=DOWNLOAD_TIMEOUT_S,
            )
            (archive,) = Path(folder).iterdir()
            return _member(archive, entry.member)
        except subprocess.CalledProcessError as error:
            raise Missing(f"{entry.index} can't fetch {entry.package} {entry.version}") from error
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            raise Missing(f"{entry.package} {entry.version}: {error}") from error


def _command(entry: Entry, folder: str) -> list[str]:
    if entry.index == "npm":
        return ["npm", "pack", "--silent", f"{entry.package}@{entry.version}"]
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--dest", folder]
    if entry.python_version:
        command += ["--only-binary=:all:", "--python-version", entry.python_version]
    if entry.platform:
        command += ["--platform", entry.platform, "--platform", "any"]
    return [*command, f"{entry.package}=={entry.version}"]


def _member(archive: Path, member: str) -> bytes:
    """Read one file of a wheel or of a tarball. Raises KeyError where it is not there."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(member)
    with tarfile.open(archive) as tar:
        file = tar.extractfile(member)
        if file is None:
            raise KeyError(member)
        return file.read()
