"""What was told of a session's translations, as whoever goes on with it must know. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.messages.sessions import Final
from auricle.messages.translations import Translating, Translation, Untranslated
from auricle.translation.context import Pairs, followed


class ToldTranslations:
    """Follows the events of one session in the order in which they are told."""

    def __init__(self, languages: Sequence[str], begun: Translating) -> None:
        """The session goes on after `begun`, and is translated into `languages`."""
        self._languages = languages
        self._open = {(one.segment, one.language): one for one in begun.untranslated}
        self._before: dict[str, Pairs] = dict(begun.before)

    def final(self, event: Final) -> None:
        """A segment's final text is told."""
        if not event.text:
            return
        for language in self._languages:
            told = self._open.get((event.segment, language))
            committed = "" if told is None else told.committed
            self._open[event.segment, language] = Untranslated(
                event.segment, language, committed, event.text, event.language
            )

    def translation(self, event: Translation) -> None:
        """A part of a translation is told, or its last event."""
        key = event.segment, event.language
        told = self._open.get(key, Untranslated(*key))
        if not event.final:
            self._open[key] = Untranslated(*key, event.committed, told.source, told.spoken)
            return
        self._open.pop(key, None)
        if not event.missing:
            before = self._before.get(event.language, ())
            self._before[event.language] = followed(before, told.source, event.committed)

    def state(self) -> Translating:
        """Return what was told, and what is still to come."""
        return Translating(tuple(self._open.values()), dict(self._before))
