"""Set-up with real environments, pip and indexes; the packages are empty."""

from __future__ import annotations

import functools
import os
import shutil
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from requirements import install
from requirements.install import Environment, install_torch

pytestmark = pytest.mark.integration


def write_wheel(folder: Path, name: str, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n")
    return wheel


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def new_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("setup")
    (folder / "notes.txt").touch()
    Environment(folder, print).prepare()
    return folder


@pytest.fixture
def environment(new_environment: Path, tmp_path: Path, said: list[str]) -> Environment:
    shutil.copytree(new_environment, tmp_path / "venv", symlinks=True)
    return Environment(tmp_path / "venv", said.append)


@pytest.fixture
def indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose subfolders are indexes: `pypi`, the one that pip uses, and `pytorch`."""
    root = tmp_path / "indexes"
    write_wheel(root / "pypi/torch", "torch", "2.13.0")
    (root / "lock.txt").write_text("torch==2.13.0\n")
    monkeypatch.setattr(install, "PYPI_TORCH", root / "lock.txt")
    (root / "pytorch/torch").mkdir(parents=True)
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(root))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.server_port}"
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/pypi")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr(install, "CPU_INDEX", f"{url}/pytorch")
        yield root
        server.shutdown()
        serving.join()


def test_a_folder_that_was_no_environment_is_not_emptied(new_environment: Path) -> None:
    assert (new_environment / "notes.txt").exists()


@pytest.mark.parametrize(
    ("where", "version"),
    [("pypi/torch", "2.13.0+cpu"), ("pytorch/torch", "2.13.0+cpu"), ("nowhere", "2.13.0")],
)
def test_torch_comes_from_the_first_that_has_it(
    where: str, version: str, indexes: Path, environment: Environment, said: list[str]
) -> None:
    write_wheel(indexes / where, "torch", "2.13.0+cpu")
    install_torch(environment, "torch==2.13.0+cpu")
    [metadata] = environment.folder.rglob("torch-*.dist-info/METADATA")
    assert f"Version: {version}\n" in metadata.read_text()
    assert said[-1].endswith(": done")


def test_an_interrupted_installation_is_made_whole(
    tmp_path: Path, environment: Environment, said: list[str]
) -> None:
    wheel = write_wheel(tmp_path, "little", "1")
    environment.install("little", [str(wheel)], "--no-index")
    [module] = environment.folder.rglob("little.py")
    module.unlink()
    (module.parent / "little-1.dist-info/RECORD").write_text("little.py,,\n")
    environment.prepare()
    environment.install("little", [str(wheel)], "--no-index")
    assert module.exists()
    assert "little-1: was half installed; once more" in said
