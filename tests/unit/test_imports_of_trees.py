"""Permitted imports between server, shared test code, models, benchmarks and tests."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest

from tests.structure import PACKAGES, foreign_private_names, imports, modules

pytestmark = pytest.mark.unit
# The packages that each package may import.
MAY_IMPORT = {
    "auricle": set[str](),
    "auricle_testing": {"auricle"},
    "models": {"auricle", "auricle_testing"},
    "benchmarks": {"auricle", "auricle_testing", "models"},
    "tests": {"auricle", "auricle_testing", "models"},
}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_those_below_it(package: str) -> None:
    strangers = PACKAGES.keys() - MAY_IMPORT[package] - {package}
    found = {
        (name, other)
        for name, path in modules().items()
        for other in imports(path)
        if name.split(".")[0] == package and other.split(".")[0] in strangers
    }
    assert not sorted(found)


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Names of packages are left out: importing a module imports the packages around it."""
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}
    graph = {
        name: (imports(path) & modules().keys()) - {name} - (packages - {name})
        for name, path in modules().items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


def test_no_module_takes_a_private_name_from_another() -> None:
    """`monkeypatch.setattr` is exempt: tests use it to shorten the waits of a module."""
    found = {name: foreign_private_names(name) for name in modules()}
    assert not {name: names for name, names in found.items() if names}
