"""The house rules that a reader relies on, held by the code."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from auricle_testing.server import ROOT
from tests.structure import imports

pytestmark = pytest.mark.unit
PACKAGE = ROOT / "components/auricle"
COMPONENTS = (
    *("frontend", "processor", "encode_worker", "pd_worker", "align_worker"),
    *("planner", "dynamo_frontend", "diarize_worker"),
)
# From the ground up: a room imports from the floors below its own, never from above or beside.
FLOORS = (
    ("quoting",),
    ("errors", "cpu_features"),
    ("tasks", "audio", "text_bounds", "batcher", "alignment", "confidence", "subtitles"),
    (
        "messages",
        "checkpoint",
        "models",
        "embeddings",
        "speakers",
        "translation",
        "replicas",
        "recording_settings",
        "door_settings",
        "device_settings",
        "slab_settings",
    ),
    ("common_settings", "planner_settings", "live_settings"),
    ("worker_settings",),
    ("settings", "kubernetes_settings"),
    ("process", "findings"),
    ("load", "landing"),
    ("runtime",),
    (*COMPONENTS, "launcher"),
    ("client", "profiling", "rendering", "checking"),
    ("cli",),
    ("__main__",),
)
# The same inside the frontend, the one component that has rooms of its own.
FRONTEND_FLOORS = (
    ("listening", "metrics", "model_presets", "abilities"),
    ("line",),
    ("observers", "doors"),
    ("frontend",),
    ("recordings", "channel"),
    ("dialects",),
    (
        *("stream", "realtime", "deepgram", "wyoming", "twilio", "audiosocket", "vapi"),
        *("riva", "transcriptions", "diagnosis", "assemblyai", "kserve", "page"),
    ),
    ("operations",),
    ("ports", "socket_ways", "rpc_ways"),
    ("main", "needs"),
)
FILES = sorted(PACKAGE.rglob("*.py"))
STEPS = [
    step
    for page in ("one_chunk.md", "words.md", "speakers.md", "translation.md")
    for step in re.findall(r"`([\w/]+\.py):([\w.]+)`", (ROOT / "docs" / page).read_text())
]


def module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {module(path): path for path in FILES}


def arrows(prefix: str) -> set[tuple[str, str]]:
    """(room, room it imports from) of all rooms directly below a package."""
    rooms = {}
    for name in MODULES:
        if name.startswith(prefix + "."):
            rooms[name] = name.removeprefix(prefix + ".").split(".")[0]
    return {
        (room, rooms[other])
        for name, room in rooms.items()
        for other in imports(MODULES[name]) & rooms.keys()
        if rooms[other] != room
    }


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


@pytest.mark.parametrize(
    ("package", "floors"), [("auricle", FLOORS), ("auricle.frontend", FRONTEND_FLOORS)]
)
def test_rooms_import_from_the_floors_below_only(
    package: str, floors: tuple[tuple[str, ...], ...]
) -> None:
    floor = {room: number for number, rooms in enumerate(floors) for room in rooms}
    found = arrows(package)
    assert {room for arrow in found for room in arrow} <= floor.keys()
    assert not sorted((a, b) for a, b in found if floor[a] <= floor[b])


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {
        name: (imports(path) & MODULES.keys()) - {name, "auricle"} for name, path in MODULES.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError naming the circle


@pytest.mark.parametrize("module", ["settings", "processor.main", "frontend.main"])
def test_who_runs_no_model_imports_no_model_library(module: str) -> None:
    """Tools that only read a configuration start at once, and so do processors and frontends."""
    code = (
        f"import sys, auricle.{module}\n"
        "print({'torch', 'transformers', 'vllm'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("library", "home"),
    [
        ("vllm", "pd_worker/vllm/"),
        ("nixl", "embeddings/nixl.py"),
        ("dynamo", "runtime/"),
        ("grpc", "frontend/doors/rpc/"),
        ("google", "frontend/doors/rpc/"),
    ],
)
def test_each_of_the_big_three_is_imported_in_one_place(library: str, home: str) -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in FILES
        if any(m.split(".")[0].startswith(library) for m in imports(path))
    }
    assert users and all(user.startswith(home) for user in users)


def test_every_library_that_is_imported_is_asked_for_by_its_name() -> None:
    """What comes with another library may go with it: most come with vLLM, too."""
    base = (ROOT / "requirements/base.in").read_text()
    named = {_normal(line.partition("==")[0]) for line in base.splitlines() if line[:1] != "#"}
    packages = packages_distributions()
    tops = {name.partition(".")[0] for path in FILES for name in imports(path)}
    # With vLLM, with GPUs, and by whoever wants to speak into a microphone.
    elsewhere = {"vllm", "pynvml", "sounddevice"}
    lacking = {
        library
        for library in tops - {"auricle", *elsewhere, *sys.stdlib_module_names}
        if not named & {_normal(package) for package in packages[library]}
    }
    assert not lacking


def _normal(package: str) -> str:
    return package.lower().replace("_", "-")


def test_only_the_start_of_a_pd_worker_names_an_engine() -> None:
    """Everything else of it knows the protocol, and an engine knows no other."""
    homes = [path.parent.name for path in (PACKAGE / "pd_worker").glob("*/start.py")]
    assert len(homes) == 2
    users = {
        (str(path.relative_to(PACKAGE)), home)
        for path in FILES
        for home in homes
        if any(m.startswith(f"auricle.pd_worker.{home}.") for m in imports(path))
    }
    strangers = {user for user, home in users if not user.startswith(f"pd_worker/{home}/")}
    assert strangers == {"pd_worker/engine_start.py"}


def test_files_stay_small() -> None:
    lines = {str(p.relative_to(PACKAGE)): len(p.read_text().splitlines()) for p in FILES}
    assert not {file: number for file, number in lines.items() if number > 600}


# What these raise ends a process at its start, or is seen by operators only.
NOT_FOR_CLIENTS = {"SettingsError", "CheckpointError", "ProcessFailed", "SystemExit"}
SERVING = ("audio", "runtime", *COMPONENTS)
TOOLS = ("planner", "dynamo_frontend")


def foreign_words(tree: ast.AST, ours: set[str]) -> list[int]:
    """Lines that put what another library's exception says into an error of ours."""
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
    """Whether a node turns the exception itself, not a call of ours on it, into text."""
    if isinstance(node, ast.FormattedValue):
        return isinstance(node.value, ast.Name) and node.value.id == name
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("str", "repr")
        and any(isinstance(a, ast.Name) and a.id == name for a in node.args)
    )


def test_what_another_library_says_is_not_passed_on() -> None:
    from auricle import errors

    ours = {name for name in vars(errors) if isinstance(vars(errors)[name], type)}
    for path in FILES:
        room = path.relative_to(PACKAGE).parts[0]
        if room in SERVING and room not in TOOLS:
            lines = foreign_words(ast.parse(path.read_text()), ours)
            assert not lines, f"{path.relative_to(PACKAGE)}: {lines}"
