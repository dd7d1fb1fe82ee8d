"""The main job on a real model: fetch it, convert it, prove it, measure it, and write a report.

    python examples/demo.py [--output out] [--cache out/cache]

The model is a text-direction classifier of 586 kB (PaddleOCR, Apache-2.0) that ships inside the
package rapidocr-onnxruntime. Without a network, a small network of the same kind is built here.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import onnx

from mobile_network import INPUT_SHAPE, build

PACKAGE = "rapidocr-onnxruntime==1.4.4"
MEMBER = "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"
SHA256 = "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"
DOWNLOAD_TIMEOUT_S = 240
# The wheel is pure Python: any machine may take it, whatever interpreter runs here.
ANY_MACHINE = ("--no-deps", "--only-binary=:all:", "--python-version", "3.11")


class NotFetched(Exception):
    """The published model is not to be had here; the message says why."""


def is_published(path: Path) -> bool:
    """Whether the file is there and is the published one."""
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == SHA256


def fetch(path: Path) -> None:
    """Take the model out of its package. Raises NotFetched where the network or the file fails."""
    with tempfile.TemporaryDirectory(prefix="straightway-demo-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--retries", "1"]
        command += [*ANY_MACHINE, "--dest", folder, PACKAGE]
        try:
            subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S
            )
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                data = archive.read(MEMBER)
        except subprocess.CalledProcessError as error:
            raise NotFetched(_last_error(error.stderr)) from error
        except (subprocess.TimeoutExpired, OSError, ValueError, KeyError) as error:
            raise NotFetched(str(error)) from error
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise NotFetched(f"{MEMBER} of {PACKAGE} is not the file that this demo knows")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _last_error(output: str) -> str:
    """The last line of pip's that tells of an error."""
    lines = [line for line in output.splitlines() if line.startswith("ERROR: ")]
    return lines[-1].removeprefix("ERROR: ") if lines else "pip failed"


def model(cache: Path) -> Path:
    """The published classifier, or the network built here; says which."""
    published, built = cache / "text_direction.onnx", cache / "mobile_network.onnx"
    if is_published(published):
        print(f"model: text-direction classifier of {PACKAGE} (kept in {cache})")
        return published
    print(f"model: fetching the text-direction classifier of {PACKAGE}", flush=True)
    try:
        fetch(published)
    except NotFetched as error:
        print(f"model: could not be fetched ({error}); a small seeded network takes its place")
        cache.mkdir(parents=True, exist_ok=True)
        onnx.save(build(), built)
        return built
    return published


def main() -> int:
    """Deploy the model; the exit code is that of `straightway deploy`."""
    parser = argparse.ArgumentParser(description="Convert, prove and measure a real model.")
    parser.add_argument("--output", type=Path, default=Path("out"))
    parser.add_argument("--cache", type=Path, help="where the model is kept (OUTPUT/cache)")
    arguments = parser.parse_args()
    path = model(arguments.cache or arguments.output / "cache")
    shape = "x=" + ",".join(map(str, INPUT_SHAPE))
    command = [str(Path(sys.executable).with_name("straightway")), "deploy", str(path)]
    command += ["--shape", shape, "-o", str(arguments.output / "demo")]
    print("$ " + " ".join(["straightway", *command[1:]]), flush=True)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
