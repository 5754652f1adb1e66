"""Translation options of clients, and the languages that a deployment translates into. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auricle.core.errors import UnsupportedValue
from auricle.core.limits import check
from auricle.core.sanitize import quoted

# Why a segment has no translation: it is in the target language already.
SAME = "same_language"
# Why a translation is incomplete: the model's answer reached its length limit.
CUT = "length"
MOST_TARGETS = 4
MOST_TERMS = 200
TERM = 100  # characters
PATTERN = r"^[a-z]{2,3}$"
ENGLISH = "en"
NO_TRANSLATOR = (
    "this deployment has no translator: ask without translations, or serve graphs.e_pd_translate "
    "with Common.translate_model, or a speech model that translates into English, such as a "
    "multilingual Whisper"
)
_CODE = re.compile(PATTERN)


def is_code(text: str) -> bool:
    """Whether a text has the form of a language's code."""
    return _CODE.fullmatch(text) is not None


def check_targets(targets: Sequence[str], param: str) -> None:
    """Raise UnsupportedValue, naming `param`, unless these are codes of different languages."""
    if len(targets) > MOST_TARGETS:
        raise UnsupportedValue(
            f"{param} has {len(targets)} languages, at most {MOST_TARGETS} are allowed", param
        )
    for target in targets:
        if not is_code(target):
            raise UnsupportedValue(
                f"{param} {quoted(target)} is not an ISO 639-1 code, such as es", param
            )
    if twice := [one for one in targets if targets.count(one) > 1]:
        raise UnsupportedValue(f"{param} names {twice[0]} twice: name it once", param)


def check_terms(terms: Mapping[str, Mapping[str, str]], targets: Sequence[str], param: str) -> None:
    """Raise UnsupportedValue, naming `param`, unless each is a term and its translation."""
    for language, words in terms.items():
        if language not in targets:
            raise UnsupportedValue(
                f"{param} has {quoted(language)}, into which nothing is translated: ask for "
                "that language, or leave its terms out",
                param,
            )
        if len(words) > MOST_TERMS:
            raise UnsupportedValue(
                f"{param} has {len(words)} terms of {language}, at most {MOST_TERMS} are allowed",
                param,
            )
        for word in (*words, *words.values()):
            check(param, word, TERM)
            if not word.strip():
                raise UnsupportedValue(f"{param} has an empty term of {language}", param)


_ENGLISH_ONLY = (
    "this deployment translates into en only, by its speech model; for other languages serve "
    "graphs.e_pd_translate with Common.translate_model"
)


@dataclass(frozen=True)
class Directions:
    """The target languages of a deployment.

    `pool` has the translate pool's languages: empty for any, None without a pool. `by_speech`: the
    speech model translates other languages into English.
    """

    pool: tuple[str, ...] | None = None
    by_speech: bool = False

    @property
    def english_by_speech(self) -> bool:
        """Whether the speech model translates into English; the pool has precedence."""
        by_pool = self.pool is not None and (not self.pool or ENGLISH in self.pool)
        return self.by_speech and not by_pool

    @property
    def targets(self) -> tuple[str, ...] | None:
        """The target languages: empty for any, None for none."""
        if not self.english_by_speech:
            return self.pool
        return (*(self.pool or ()), ENGLISH)

    def of_speech(self, target: str) -> bool:
        return target == ENGLISH and self.english_by_speech

    def of_pool(self, targets: Sequence[str]) -> tuple[str, ...]:
        """Return the `targets` for the translate pool, unsupported ones included."""
        return tuple(target for target in targets if not self.of_speech(target))

    def check(self, targets: Sequence[str], param: str | None) -> None:
        """Raise UnsupportedValue, naming `param`, if nothing translates into one of `targets`.

        A pool's unsupported languages are reported with each text instead.
        """
        if self.pool is None and self.of_pool(targets):
            raise UnsupportedValue(
                _ENGLISH_ONLY if self.english_by_speech else NO_TRANSLATOR, param
            )


NO_DIRECTIONS = Directions()
