"""Who translates into which language: the translate pool, or the speech model itself. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auricle.errors import UnsupportedValue
from auricle.translation.targets import ENGLISH, NO_TRANSLATOR

_ENGLISH_ONLY = (
    "this deployment translates into en only, by its speech model; for other languages have "
    "graphs.e_pd_translate served, with Common.translate_model"
)


@dataclass(frozen=True)
class Directions:
    """`pool` has the languages of the translate pool, empty for any, None without a pool.

    `by_speech`: the speech model can write English for what is said in other languages.
    """

    pool: tuple[str, ...] | None = None
    by_speech: bool = False

    @property
    def english_by_speech(self) -> bool:
        """Whether the speech model translates into English: the pool does, if it can."""
        by_pool = self.pool is not None and (not self.pool or ENGLISH in self.pool)
        return self.by_speech and not by_pool

    @property
    def targets(self) -> tuple[str, ...] | None:
        """The languages into which is translated, empty for any, None for none."""
        if not self.english_by_speech:
            return self.pool
        return (*(self.pool or ()), ENGLISH)

    def of_speech(self, target: str) -> bool:
        """Whether the speech model translates into `target`, a code."""
        return target == ENGLISH and self.english_by_speech

    def of_pool(self, targets: Sequence[str]) -> tuple[str, ...]:
        """Return those of `targets` into which the pool translates, or refuses to."""
        return tuple(target for target in targets if not self.of_speech(target))

    def check(self, targets: Sequence[str], param: str | None) -> None:
        """Raise UnsupportedValue, naming `param`, if nothing translates into one of `targets`.

        What a pool that there is cannot do is said of each text.
        """
        if self.pool is None and self.of_pool(targets):
            raise UnsupportedValue(
                _ENGLISH_ONLY if self.english_by_speech else NO_TRANSLATOR, param
            )


NO_DIRECTIONS = Directions()
