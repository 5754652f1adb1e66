"""Sequence diagrams: generated from their source, with existing names, each on a page."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import pytest

from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
PACKAGE = ROOT / "components/auricle"


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sequences", ROOT / "deploy/site/sequences.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sequences"] = module  # its dataclasses look it up
    spec.loader.exec_module(module)
    return module


DRAWING = _loaded()
ALL = DRAWING.sequences()


def source(place: str) -> str:
    path = PACKAGE / place
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert files, place
    return "\n".join(file.read_text() for file in files)


def parts(name: str) -> list[str]:
    """Code may compose names with a common prefix: `input_audio_buffer.` and `committed`."""
    return [name, *re.split(r"\.(?=\w+$)", name)[-1:]] if "." in name else [name]


@pytest.mark.parametrize("name", ALL)
def test_every_name_in_a_diagram_is_one_of_the_protocol(name: str) -> None:
    code = "\n".join(source(place) for place in ALL[name].sources)
    names = set(ALL[name].names())
    assert names
    unknown = {
        one
        for one in names
        if not any(re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-])", code) for part in parts(one))
    }
    assert unknown == set()


@pytest.mark.parametrize("name", ALL)
def test_a_diagram_is_as_it_is_written_and_on_a_page(name: str) -> None:
    path = DRAWING.picture(name)
    assert path.read_text() == DRAWING.svg(ALL[name]), "run: make interfaces"
    pages = [
        page for page in (ROOT / "docs").glob("*.md") if f"images/{path.name})" in page.read_text()
    ]
    assert len(pages) == 1


def test_no_picture_is_left_of_a_diagram_that_is_gone() -> None:
    drawn = {path.name for path in (ROOT / "docs/images").glob("sequence-*.svg")}
    assert drawn == {DRAWING.picture(name).name for name in ALL}


@pytest.mark.parametrize("step", ["client > unknown: `start`", "client > client: `start`", "start"])
def test_a_step_between_others_is_refused(step: str) -> None:
    row = {"title": "t", "sources": [], "between": ["client", "frontend"], "steps": [step]}
    with pytest.raises(ValueError, match="must be '- note', or 'FROM > TO: label'"):
        DRAWING._sequence("a", row)


def test_labels_are_drawn_with_their_names_marked() -> None:
    drawn = DRAWING.svg(ALL["websocket"])
    assert '<tspan class="name">speech_started</tspan>' in drawn
    assert drawn.count('class="way"') == 9 and drawn.count('class="note"') == 1
