"""Builds auricle's image and runs it as Kubernetes would: not as root, on a read-only root.

    python deploy/docker/check.py cpu           # or gpu

Every component is checked in both images (`auricle component NAME --check`). The CPU image also
transcribes a recording live, as `make demo` does. The GPU image is checked without a driver.
Needs root and the requirements of building.py.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from building import ROOT, ImageError, Storage, build, parser

MODEL = ROOT / "models/demo"
RECORDING = "recordings/market"
CONFIGS = {"cpu": "configs/demo.yaml", "gpu": "configs/h100-0.6b.yaml"}
COMPONENTS = ("Frontend", "Processor", "EncodeWorker", "PdWorker")
_ENTER = Path(__file__).with_name("entering.py")
_MODEL_INSIDE = Path("/models/demo")
_NAMESPACES = ("--mount", "--pid", "--net", "--ipc", "--uts", "--propagation=private")
_CHECK_S, _GRAPH_S = 900.0, 1800.0
_LEAST_LIKENESS = 0.8  # of words; an error in five words lowers it from 1.0


@dataclass(frozen=True)
class Container:
    """An image's mounted files, with the environment and directory of its configuration."""

    root: Path
    environment: tuple[str, ...]
    directory: str

    def run(self, *command: str, seconds: float) -> str:
        """Run a command in it; return its output. Raises ImageError if it fails."""
        variables = [*self.environment, "HOME=/tmp"]  # as in the manifests
        enter = [sys.executable, str(_ENTER), f"--directory={self.directory}"]
        enter += ["--show", str(MODEL), str(_MODEL_INSIDE)]
        enter += [f"--env={variable}" for variable in variables]
        whole = ["unshare", "--fork", *_NAMESPACES, *enter, str(self.root), "--"]
        began = time.monotonic()
        try:
            done = subprocess.run(
                [*whole, *command], stdout=subprocess.PIPE, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise ImageError(f"`{' '.join(command)}` took over {seconds:g} s") from None
        print(f"[{time.monotonic() - began:4.0f} s] {' '.join(command)}", flush=True)
        if done.returncode:
            raise ImageError(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stdout}")
        return done.stdout


@contextmanager
def container(storage: Storage, image: str) -> Iterator[Container]:
    """Mount an image, as a container that is removed at the end."""
    config = json.loads(storage.buildah("inspect", "--type=image", image))["OCIv1"]["config"]
    if config.get("User") != "10001:10001":
        raise ImageError(f"{image} runs as {config.get('User') or 'root'}, not as 10001:10001")
    name = storage.buildah("from", "--pull-never", image)
    try:
        root = Path(storage.buildah("mount", name))
        yield Container(root, tuple(config["Env"]), config["WorkingDir"])
    finally:
        storage.buildah("umount", name)
        storage.buildah("rm", name)


def check(box: Container, target: str) -> None:
    """Run the checks that both images must pass. Raises ImageError at the first failure."""
    if "Usage: auricle" not in box.run("auricle", "--help", seconds=_CHECK_S):
        raise ImageError("`auricle --help` shows no help")
    for name in COMPONENTS:
        model = f"--Common.model={_MODEL_INSIDE}"
        command = ("auricle", "component", name, "-f", CONFIGS[target], "--check", model)
        print(box.run(*command, seconds=_CHECK_S), end="", flush=True)


def transcribe(box: Container) -> None:
    """Transcribe a recording live with a graph of its own, and compare the words."""
    audio = f"models/demo/{RECORDING}.flac"
    output = box.run("auricle", "transcribe", audio, "--live", "--json", seconds=_GRAPH_S)
    heard = json.loads(output.splitlines()[-1])["text"]
    print(heard)
    likeness = alike(heard.split(), (MODEL / f"{RECORDING}.txt").read_text().split())
    if likeness < _LEAST_LIKENESS:
        raise ImageError(f"only {likeness:.0%} of the spoken words were recognized: {heard}")


def alike(heard: Sequence[str], said: Sequence[str]) -> float:
    """The share of equal words in the same order, 0 to 1."""
    return difflib.SequenceMatcher(None, heard, said, autojunk=False).ratio()


def main() -> None:
    arguments = parser("Builds auricle's image and runs it as Kubernetes would.")
    arguments.add_argument("--built", action="store_true", help="check the existing image")
    options = arguments.parse_args()
    storage = Storage(options.storage, options.driver)
    try:
        image = f"localhost/auricle:{options.target}"
        image = image if options.built else build(storage, options.target)
        with container(storage, image) as box:
            check(box, options.target)
            if options.target == "cpu":
                transcribe(box)
    except ImageError as error:
        sys.exit(f"image: {error}")
    print(f"{image} passed all checks")


if __name__ == "__main__":
    main()
