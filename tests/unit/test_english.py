"""Clean folders stay clean of the sentences that tests/english.py finds; its rules work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import english

pytestmark = pytest.mark.unit
# Not rewritten yet: remove a folder from this list once `python -m tests.english FOLDER` finds
# nothing.
NOT_CLEAN: set[str] = set()


def folder_of(path: Path) -> str:
    """The package, such as components/auricle/core, or the top-level folder or file."""
    parts = path.relative_to(english.ROOT).parts
    if parts[:2] in (("components", "auricle"), ("tests", "unit")):
        return "/".join(parts[: min(3, len(parts) - 1)])
    if parts[0] == "benchmarks":
        return "benchmarks/RESULTS.md" if parts[1] == "RESULTS.md" else "benchmarks"
    if parts[0] in ("components", "tests"):
        return "/".join(parts[: min(2, len(parts) - 1)])
    return parts[0]


FOLDERS: dict[str, list[Path]] = {}
for _file in english.checked_files():
    FOLDERS.setdefault(folder_of(_file), []).append(_file)


@pytest.mark.parametrize("folder", sorted(FOLDERS.keys() - NOT_CLEAN))
def test_a_clean_folder_stays_clean(folder: str) -> None:
    assert [str(one) for path in FOLDERS[folder] for one in english.findings(path)] == []


def test_the_list_of_other_folders_is_current() -> None:
    assert FOLDERS.keys() >= NOT_CLEAN


def found_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str) -> list[str]:
    monkeypatch.setattr(english, "ROOT", tmp_path)
    path = tmp_path / name
    path.write_text(text)
    return [finding.rule for finding in english.findings(path)]


@pytest.mark.parametrize(
    ("odd", "plain"),
    [
        ("Who asks for it is refused.", "Requests for it are rejected."),
        ("It keeps what was sent.", "It keeps the sent messages."),
        ("This is no valid request.", "This is not a valid request."),
        ("It runs while nobody speaks.", "It runs during silence."),
        ("Else it is skipped.", "Otherwise it is skipped."),
        ("The session goes on elsewhere.", "The session continues elsewhere."),
        ("Wait so long at most.", "Wait for this time at most, so long waits end."),
        ("A pool beside the path.", "An optional pool."),
        ("The client is told why.", "The client receives the reason."),
        ("The server knows the key.", "The server has the key."),
        ("The times are those of decodes.", "The times come from decodes."),
        ("Windows, of which one is open.", "Windows; one is open."),
        ("Requests are under way.", "Requests are in progress."),
        ("It stays as it is.", "It does not change."),
    ],
)
def test_a_rule_finds_a_sentence_and_not_its_rewrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str, plain: str
) -> None:
    assert len(found_in(tmp_path, monkeypatch, odd, "page.md")) == 1
    assert found_in(tmp_path, monkeypatch, plain, "page.md") == []


def test_every_rule_has_a_name_of_its_own_and_an_example() -> None:
    assert len(english.RULES) == 14


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ('"""Who asks is told."""\n', 2),
        ("x = 1  # nobody asks for it\n", 1),
        ('log("what was sent to the worker")\n', 1),
        ('log("`what was sent` is code")\n', 0),
        ('key = "nobody"\n', 0),
        ('"""Is it said twice?"""\n', 0),
    ],
)
def test_docstrings_comments_and_sentences_of_python_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, findings: int
) -> None:
    assert len(found_in(tmp_path, monkeypatch, text, "module.py")) == findings


def test_code_in_markdown_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "# Who asks\n\n```\nnobody\n```\n\n| `nobody` | a worker |\n"
    assert found_in(tmp_path, monkeypatch, page, "page.md") == []
