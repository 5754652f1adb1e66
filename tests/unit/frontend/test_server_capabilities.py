"""The optional annotations that clients see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auricle.client import Capabilities, Client
from auricle_testing.server import ROOT
from tests.fakes.front import Front

pytestmark = pytest.mark.unit
TRANSLATOR = ROOT / "models/demo-translate"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({}, None),
        ({"translate_targets": ["de"]}, None),
        ({"translate_model": TRANSLATOR}, ("es",)),
        ({"translate_model": TRANSLATOR, "translate_targets": ["de", "es"]}, ("de", "es")),
        ({"translate_model": Path("of/another/machine")}, ()),
    ],
)
def test_languages_are_those_named_or_those_of_the_checkpoint(
    named: dict[str, Any], said: tuple[str, ...] | None
) -> None:
    assert Front(**named).frontend.abilities.translate == said


def test_languages_that_cannot_be_read_are_said_to_be_unknown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert Front(translate_model=Path("of/another/machine")).frontend.abilities.translate == ()
    assert "of/another/machine has no config.json" in caplog.text


def test_only_a_model_that_lists_all_its_words_has_a_vocabulary(tmp_path: Path) -> None:
    assert Front(model=tmp_path).frontend.abilities.vocabulary is None
    (tmp_path / "vocabulary.txt").write_text("the\ndog\nbarks\n")
    assert Front(model=tmp_path).frontend.abilities.vocabulary == 3


async def test_each_model_is_listed_with_them() -> None:
    models: dict[str, Any] = {
        "align_model": Path("a"),
        "speaker_model": Path("s"),
        "model_aliases": ("other",),
    }
    front = Front(**models)
    async with front.serving():
        listed = (await front.get("/v1/models")).json()["data"]
        one = (await front.get("/v1/models/other")).json()
        told = await Client(front.url).capabilities()
    assert told == Capabilities(words=True, speakers=True, vocabulary=246, languages=("en",))
    assert len(listed) == 2 and one == listed[1]
    expected: dict[str, Any] = {
        "words": True,
        "speakers": True,
        "translate": None,
        "vocabulary": 246,
    }
    expected["languages"] = ["en"]
    for entry in listed:
        assert entry["capabilities"] == expected
