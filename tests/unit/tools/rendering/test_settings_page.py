"""docs/settings.md has every setting, and the documents' statements about settings are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auricle.launcher.options import options
from auricle.tools.rendering.interfaces import own_options, sections, settings_page
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
SECTIONS = sections()
# The changelog also names settings of the past.
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "deploy/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
NAMED = re.compile(rf"(?<![:\w])({'|'.join(SECTIONS)})\.([a-z][a-z0-9_]*(?:\.[a-z]\w*)?)")
# The suffix of a setting's name determines the unit of its float or int.
UNITS = {"seconds": "s", "ms": "ms", "bytes": "bytes", "gib": "GiB", "hours": "h"}


@pytest.mark.parametrize("name", SECTIONS)
def test_every_setting_says_what_it_is(name: str) -> None:
    without = [option.key for option in options(SECTIONS[name]).values() if not option.description]
    assert not without


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_every_setting_of_a_section_once(name: str) -> None:
    part = settings_page().split(f"\n## {name}\n")[1].split("\n## ")[0]
    keys = re.findall(r"^\| `([\w.]+)` \|", part, re.MULTILINE)
    assert keys == [option.key for option in own_options(SECTIONS[name])]


def test_a_section_has_those_of_common_too_but_the_page_does_not_repeat_them() -> None:
    own = {option.key for option in own_options(SECTIONS["Planner"])}
    assert "replicas" in own  # its bounds differ
    assert "log_level" not in own
    assert "log_level" in options(SECTIONS["Planner"])


@pytest.mark.parametrize("name", SECTIONS)
def test_names_end_in_their_units(name: str) -> None:
    for option in options(SECTIONS[name]).values():
        end = option.key.rpartition("_")[2]
        if end in UNITS:
            assert option.unit == UNITS[end], option.key


@pytest.mark.parametrize(
    ("section", "key", "right"),
    [
        ("Frontend", "port", "a whole number, 0 to 65535"),
        ("Frontend", "grpc_port", "a whole number or null, 0 to 65535"),
        ("Frontend", "tls_key", "a path or null"),
        ("Common", "max_segment_seconds", "a number, more than 1, at most 300"),
        ("Planner", "slo", "a number, at least 0.5, less than 1"),
        ("Common", "log_format", "one of text, json"),
        ("Common", "gpus", "a list; each: whole number, at least 0"),
        ("Common", "namespace", "text, of the form `^[a-z][a-z0-9-]*$`"),
        ("Planner", "pd.maximum", "a whole number, 1 to 10000"),
    ],
)
def test_types_and_bounds_are_in_words(section: str, key: str, right: str) -> None:
    assert options(SECTIONS[section])[key].right == right


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_setting_that_a_document_names_exists(path: Path) -> None:
    unknown = {
        f"{section}.{key}"
        for section, key in NAMED.findall(path.read_text())
        if key not in options(SECTIONS[section])
        and key not in SECTIONS[section].model_fields
        and key != "md"
    }
    assert not unknown
