"""The house rules that a reader relies on, held by the code."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.server import ROOT

pytestmark = pytest.mark.unit
PACKAGE = ROOT / "components/auricle"
COMPONENTS = ("frontend", "processor", "encode_worker", "pd_worker", "planner")
FILES = sorted(PACKAGE.rglob("*.py"))
STEPS = re.findall(r"`([\w/]+\.py):([\w.]+)`", (ROOT / "docs/one_chunk.md").read_text())


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_every_name_on_the_way_of_a_chunk_exists(file: str, name: str) -> None:
    if "vllm/" in file:  # vLLM is imported in its own processes only
        names = {
            n.name for n in ast.walk(ast.parse((PACKAGE / file).read_text())) if hasattr(n, "name")
        }
        assert set(name.split(".")) <= names
        return
    found: object = importlib.import_module("auricle." + file[:-3].replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)


def test_the_way_of_a_chunk_is_described() -> None:
    assert len(STEPS) >= 20


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_components_import_shared_modules_and_never_each_other(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0]
    if own not in COMPONENTS:
        return
    others = {f"auricle.{name}" for name in COMPONENTS if name != own}
    assert not [m for m in imports(path) if any(m.startswith(other) for other in others)]


@pytest.mark.parametrize(
    ("library", "home"),
    [("vllm", "pd_worker/vllm/"), ("nixl", "embeddings/nixl.py"), ("dynamo", "runtime/")],
)
def test_each_of_the_big_three_is_imported_in_one_place(library: str, home: str) -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in FILES
        if any(m.split(".")[0].startswith(library) for m in imports(path))
    }
    assert users and all(user.startswith(home) for user in users)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300
