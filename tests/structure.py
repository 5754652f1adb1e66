"""Imports and names of modules, for tests of the code's structure."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

from auricle_testing.server import ROOT

# Top-level packages with Python code, and their folders.
PACKAGES = {
    "auricle": ROOT / "components/auricle",
    "auricle_testing": ROOT / "components/auricle_testing",
    "models": ROOT / "models",
    "benchmarks": ROOT / "benchmarks",
    "tests": ROOT / "tests",
}


@cache
def sources() -> dict[Path, str]:
    """The text of all modules of `PACKAGES`, read at once: an editor, a formatter or a rebase may
    change the tree while tests run."""
    return {
        path: path.read_text()
        for folder in PACKAGES.values()
        for path in sorted(folder.rglob("*.py"))
        if "node_modules" not in path.parts
    }


@cache
def imports(path: Path) -> set[str]:
    """Names of imported modules, and of names imported from them (which may be modules, too)."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@cache
def modules() -> dict[str, Path]:
    """All modules of `PACKAGES`, by name."""
    folders = [folder.parent for folder in PACKAGES.values()]
    found = {}
    for path in sources():
        parent = next(folder for folder in folders if path.is_relative_to(folder))
        parts = path.relative_to(parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def foreign_private_names(name: str) -> list[str]:
    """Private names of other modules that a module imports or reads from an imported module."""
    tree, aliases, found = parsed(modules()[name]), dict[str, str](), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in modules():
                    aliases[alias.asname or alias.name] = whole
                elif node.module in modules() and _is_private(alias.name):
                    found.append(whole)
        elif isinstance(node, ast.Import):
            aliases |= {alias.asname or alias.name: alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = aliases.get(node.value.id)
            if owner in modules() and owner != name and _is_private(node.attr):
                found.append(f"{owner}.{node.attr}")
    return found


def public_classes(package: str) -> dict[str, list[str]]:
    """The modules of a package that define a public class, by the name of the class."""
    found = defaultdict(list)
    for name, path in modules().items():
        if name.split(".")[0] == package:
            for node in parsed(path).body:
                if isinstance(node, ast.ClassDef) and not _is_private(node.name):
                    found[node.name].append(name)
    return dict(found)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(sources()[path])


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
