"""Translation into English uses the translate pool if it can, otherwise the speech model."""

from __future__ import annotations

import pytest

from auricle.annotation.translation.targets import NO_TRANSLATOR, Directions
from auricle.core.errors import UnsupportedValue

pytestmark = pytest.mark.unit
Pool = tuple[str, ...] | None


@pytest.mark.parametrize(
    ("pool", "by_speech", "english_by_speech", "targets"),
    [
        (None, False, False, None),
        (None, True, True, ("en",)),
        ((), False, False, ()),
        ((), True, False, ()),
        (("es",), False, False, ("es",)),
        (("es",), True, True, ("es", "en")),
        (("es", "en"), True, False, ("es", "en")),
    ],
)
def test_a_pool_that_translates_into_english_does_so(
    pool: Pool, by_speech: bool, english_by_speech: bool, targets: Pool
) -> None:
    found = Directions(pool, by_speech)
    assert found.of_speech("en") == found.english_by_speech == english_by_speech
    assert found.targets == targets
    assert not found.of_speech("es")
    assert found.of_pool(("es", "en")) == (("es",) if english_by_speech else ("es", "en"))


@pytest.mark.parametrize("pool", [(), ("es",)])
def test_what_a_pool_cannot_do_is_left_to_it(pool: Pool) -> None:
    Directions(pool).check(("fr", "en"), "translate")


@pytest.mark.parametrize("targets", [("en",), ("es",), ("en", "es")])
def test_without_a_translator_nothing_is_translated(targets: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedValue) as refused:
        Directions().check(targets, "translate")
    assert (str(refused.value), refused.value.param) == (NO_TRANSLATOR, "translate")


def test_a_speech_model_translates_into_english_only() -> None:
    found = Directions(by_speech=True)
    found.check(("en",), "translate")
    with pytest.raises(UnsupportedValue, match="into en only"):
        found.check(("en", "es"), "translate")


def test_who_asks_for_nothing_is_never_refused() -> None:
    Directions().check((), "translate")
