"""The rules of the package's structure, checked on the source."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from auricle_testing.server import ROOT
from tests.structure import imports, modules, parsed, sources

pytestmark = pytest.mark.unit
PACKAGE = ROOT / "components/auricle"
COMPONENTS = ("frontend", "processor", "workers", "planner", "dynamo_frontend")
# From the bottom up: a package imports only from the layers below its own.
LAYERS = (
    ("core",),
    ("audio", "transcript"),
    ("protocol", "checkpoints", "annotation"),
    ("config", "ops"),
    ("process",),
    ("load", "embeddings"),
    ("dynamo",),
    (*COMPONENTS, "launcher"),
    ("client", "tools"),
    ("cli",),
    ("__main__",),
)
# The same within the frontend.
FRONTEND_LAYERS = (
    ("audio", "metrics", "capabilities", "server_capabilities"),
    ("link",),
    ("exporters", "transport"),
    ("frontend",),
    ("session", "recordings"),
    ("protocols", "ops", "page"),
    ("routes",),
    ("main", "needs"),
)
FILES = sorted(path for path in sources() if path.is_relative_to(PACKAGE))
STEPS = [
    step
    for page in ("one_chunk.md", "words.md", "speakers.md", "translation.md")
    for step in re.findall(r"`([\w/]+\.py):([\w.]+)`", (ROOT / "docs" / page).read_text())
]
# Pure modules: state machines and policies without I/O or a clock.
PURE = (
    *("processor/session/state_machine.py", "processor/session/rules.py"),
    *("processor/session/stability.py", "processor/session/inbox.py"),
    *("processor/session/open_segment.py", "processor/session/actions.py"),
    *("frontend/link/session_line.py", "planner/policy.py", "planner/plan.py"),
    "planner/forecast.py",
)
# Packages, the needs of components, and a module that another process imports by its name.
STAND_ALONE = {"__init__.py", "__main__.py", "needs.py", "preloaded.py"}
EFFECTS = {"asyncio", "time", "socket", "threading", "subprocess", "random"}


def module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


MODULES = {module(path): path for path in FILES}


def arrows(prefix: str) -> set[tuple[str, str]]:
    """Return (importer, imported) for all children of a package."""
    children = {}
    for name in MODULES:
        if name.startswith(prefix + "."):
            children[name] = name.removeprefix(prefix + ".").split(".")[0]
    return {
        (child, children[other])
        for name, child in children.items()
        for other in imports(MODULES[name]) & children.keys()
        if children[other] != child
    }


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_every_name_on_the_way_of_a_chunk_exists(file: str, name: str) -> None:
    if "vllm/" in file:  # vLLM is imported in its own processes only
        names = {n.name for n in ast.walk(parsed(PACKAGE / file)) if hasattr(n, "name")}
        assert set(name.split(".")) <= names
        return
    found: object = importlib.import_module("auricle." + file[:-3].replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)


def test_the_way_of_a_chunk_is_described() -> None:
    assert len(STEPS) >= 20


@pytest.mark.parametrize(
    ("package", "layers"), [("auricle", LAYERS), ("auricle.frontend", FRONTEND_LAYERS)]
)
def test_packages_import_only_from_the_layers_below(
    package: str, layers: tuple[tuple[str, ...], ...]
) -> None:
    layer = {child: number for number, children in enumerate(layers) for child in children}
    found = arrows(package)
    assert {child for arrow in found for child in arrow} <= layer.keys()
    assert not sorted((a, b) for a, b in found if layer[a] <= layer[b])


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {
        name: (imports(path) & MODULES.keys()) - {name, "auricle"} for name, path in MODULES.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError naming the cycle


@pytest.mark.parametrize("module", ["config.settings", "processor.main", "frontend.main"])
def test_processes_without_a_model_import_no_model_library(module: str) -> None:
    """Tools that only read a configuration start at once, and so do processors and frontends."""
    code = (
        f"import sys, auricle.{module}\n"
        "print({'torch', 'transformers', 'vllm'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("vllm", ("workers/pd/vllm/",)),
        ("sglang", ("workers/pd/sglang/",)),
        ("ctranslate2", ("workers/pd/ctranslate2/model.py",)),
        ("nixl", ("embeddings/nixl.py",)),
        ("dynamo", ("dynamo/",)),
        ("grpc", ("frontend/transport/grpc/",)),
        ("google", ("frontend/transport/grpc/",)),
    ],
)
def test_each_large_library_is_imported_in_one_place(library: str, homes: tuple[str, ...]) -> None:
    users = {
        relative(path)
        for path in FILES
        if any(m.split(".")[0].startswith(library) for m in imports(path))
    }
    assert users and all(user.startswith(homes) for user in users)


def test_every_imported_library_is_a_direct_requirement() -> None:
    """A transitive dependency may disappear with the library that needs it, for example vLLM."""
    base = (ROOT / "requirements/base.in").read_text()
    named = {_normal(line.partition("==")[0]) for line in base.splitlines() if line[:1] != "#"}
    packages = packages_distributions()
    tops = {name.partition(".")[0] for path in FILES for name in imports(path)}
    # The requirements with vLLM, SGLang or CTranslate2, with GPUs, and for microphones.
    elsewhere = {"vllm", "sglang", "ctranslate2", "setproctitle", "pynvml", "sounddevice"}
    lacking = {
        library
        for library in tops - {"auricle", *elsewhere, *sys.stdlib_module_names}
        if not named & {_normal(package) for package in packages[library]}
    }
    assert not lacking


def _normal(package: str) -> str:
    return package.lower().replace("_", "-")


def test_only_the_start_of_a_pd_worker_names_an_engine() -> None:
    """The rest of the worker uses the protocol `Engine`, and no engine imports another."""
    homes = [path.parent.name for path in (PACKAGE / "workers/pd").glob("*/start.py")]
    assert len(homes) == 4
    users = {
        (relative(path), home)
        for path in FILES
        for home in homes
        if any(m.startswith(f"auricle.workers.pd.{home}.") for m in imports(path))
    }
    strangers = {user for user, home in users if not user.startswith(f"workers/pd/{home}/")}
    assert strangers == {"workers/pd/engine_start.py"}


def test_files_have_at_most_600_lines() -> None:
    lines = {relative(path): len(sources()[path].splitlines()) for path in FILES}
    assert not {file: number for file, number in lines.items() if number > 600}


def test_functions_have_at_most_60_lines() -> None:
    long = {
        (relative(path), node.name)
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= 60
    }
    assert not long


def test_a_small_module_has_more_than_one_importer() -> None:
    """Fewer than 40 lines for one importer belong into it; starts of components stand alone."""
    importers = Counter(other for path in modules().values() for other in imports(path))
    small = {
        relative(path): importers[name]
        for name, path in MODULES.items()
        if path.name not in STAND_ALONE
        and len(sources()[path].splitlines()) < 40
        and importers[name] <= 1
    }
    assert not small


def test_no_two_public_classes_have_one_name() -> None:
    """Each name has one meaning; the client library is exempt, because it has users of its own."""
    names = Counter(
        node.name
        for path in FILES
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not {name for name, number in names.items() if number > 1}


def test_no_private_name_is_imported() -> None:
    found = {
        (relative(path), alias.name)
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("auricle")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    }
    assert not found


@pytest.mark.parametrize("file", PURE)
def test_pure_modules_have_no_effects(file: str) -> None:
    tops = {name.partition(".")[0] for name in imports(PACKAGE / file)}
    assert not tops & EFFECTS


# Their errors end a process at its start, or only operators see them.
NOT_FOR_CLIENTS = {"SettingsError", "CheckpointError", "ProcessFailed", "SystemExit"}
SERVING = ("audio", "dynamo", *COMPONENTS)
TOOLS = ("planner", "dynamo_frontend")


def foreign_words(tree: ast.AST, ours: set[str]) -> list[int]:
    """Lines that copy the message of another library's exception into one of our errors."""
    found = []
    for handler in (n for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and n.name):
        caught = {n.id for n in ast.walk(handler.type or ast.Pass()) if isinstance(n, ast.Name)}
        if caught <= ours:
            continue
        for raised in (n for n in ast.walk(handler) if isinstance(n, ast.Raise | ast.Yield)):
            value = raised.exc if isinstance(raised, ast.Raise) else raised.value
            names = {n.id for n in ast.walk(value or ast.Pass()) if isinstance(n, ast.Name)}
            shown = [n for n in ast.walk(value or ast.Pass()) if says(n, str(handler.name))]
            if shown and names & (ours | {"Refusal"}) - NOT_FOR_CLIENTS:
                found.append(raised.lineno)
    return found


def says(node: ast.AST, name: str) -> bool:
    """Whether a node converts the exception to text; the result of a call on it is permitted."""
    if isinstance(node, ast.FormattedValue):
        return isinstance(node.value, ast.Name) and node.value.id == name
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("str", "repr")
        and any(isinstance(a, ast.Name) and a.id == name for a in node.args)
    )


def test_what_another_library_says_is_not_passed_on() -> None:
    from auricle.core import errors

    ours = {name for name in vars(errors) if isinstance(vars(errors)[name], type)}
    for path in FILES:
        room = path.relative_to(PACKAGE).parts[0]
        if room in SERVING and room not in TOOLS:
            lines = foreign_words(parsed(path), ours)
            assert not lines, f"{path.relative_to(PACKAGE)}: {lines}"
