"""Transcription options with the names of OpenAI's protocols. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.checkpoints.languages import spoken_language
from auricle.core.errors import UnsupportedValue
from auricle.frontend.transport.options import Context, Language, context_of

# Among more candidates the language is detected freely: each candidate can cost a decode.
MOST_AMONG = 4


def forced(language: str | None, languages: Iterable[str]) -> str | None:
    """Return the language to transcribe in, which may be the only one of `languages`.

    None lets the model detect it.
    """
    named = _named(languages)
    return named[0] if len(named) == 1 else spoken_language(language)


def several(languages: Iterable[str]) -> tuple[str, ...]:
    """Return the candidates of each segment; empty if fewer than two or too many."""
    found = _named(languages)
    return found if 1 < len(found) <= MOST_AMONG else ()


def _named(languages: Iterable[str]) -> tuple[str, ...]:
    """Return each language once; empty if one of them stands for any language."""
    found = tuple(dict.fromkeys(map(spoken_language, languages)))
    names = tuple(name for name in found if name is not None)
    return names if len(names) == len(found) else ()


def without_effect(languages: Iterable[str], field: str) -> list[str]:
    if len(_named(languages)) <= MOST_AMONG:
        return []
    return [f"{field} has no effect: of more than {MOST_AMONG} languages, it is detected freely"]


class TranscriptionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The expected languages, and context for the model."""

    language: Language | None = None
    languages: Annotated[tuple[Language, ...], Meta(max_length=100)] = ()
    prompt: Context = ""
    keywords: Annotated[tuple[Context, ...], Meta(max_length=1_000)] = ()

    @property
    def spoken(self) -> str | None:
        """The language to transcribe in; None to detect it, as among several.

        Raises UnsupportedValue if `language` and `languages` say different things.
        """
        language, named = spoken_language(self.language), _named(self.languages)
        if language is not None and named not in ((), (language,)):
            raise UnsupportedValue("send either language or languages", "languages")
        return forced(language, named)

    @property
    def among(self) -> tuple[str, ...]:
        """The candidate languages of each segment; empty without a choice."""
        return several(self.languages)

    @property
    def context(self) -> str:
        """The model's context. Raises UnsupportedValue if both together are too long."""
        name = "prompt and keywords" if self.prompt else "keywords"
        return context_of(name, self.keywords, self.prompt)

    @property
    def without_effect(self) -> list[str]:
        return without_effect(self.languages, "languages")
