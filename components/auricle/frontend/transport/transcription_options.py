"""What a client says about the audio, under the names of OpenAI's protocols. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.core.errors import UnsupportedValue
from auricle.frontend.transport.options import Context, Language, context_of

# Among more than that languages are detected freely: each costs a decode where another is heard.
MOST_AMONG = 4


def forced(language: str | None, languages: Iterable[str]) -> str | None:
    """Return the language to transcribe in, which may be the only one of `languages`.

    None stands for any, as the model hears it.
    """
    named = tuple(dict.fromkeys(languages))
    return named[0] if len(named) == 1 else language


def several(languages: Iterable[str]) -> tuple[str, ...]:
    """Return the languages of which each segment is in one; empty if there are not several, or too
    many."""
    found = tuple(dict.fromkeys(languages))
    return found if 1 < len(found) <= MOST_AMONG else ()


def without_effect(languages: Iterable[str], field: str) -> list[str]:
    """Return what a client should know of the languages that it named in `field`."""
    if len(set(languages)) <= MOST_AMONG:
        return []
    return [f"{field} has no effect: of more than {MOST_AMONG} languages, it is detected freely"]


class TranscriptionOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields that say what is spoken, and what may be said."""

    language: Language | None = None
    languages: Annotated[tuple[Language, ...], Meta(max_length=100)] = ()
    prompt: Context = ""
    keywords: Annotated[tuple[Context, ...], Meta(max_length=1_000)] = ()

    @property
    def spoken(self) -> str | None:
        """The language to transcribe in; None to detect it, as among several.

        Raises UnsupportedValue if `language` and `languages` say different things.
        """
        named = tuple(dict.fromkeys(self.languages))
        if self.language is not None and named not in ((), (self.language,)):
            raise UnsupportedValue("send either language or languages", "languages")
        return forced(self.language, named)

    @property
    def among(self) -> tuple[str, ...]:
        """The languages of which each segment is in one; empty if there is no such choice."""
        return several(self.languages)

    @property
    def context(self) -> str:
        """The model's context. Raises UnsupportedValue if both together are too long."""
        name = "prompt and keywords" if self.prompt else "keywords"
        return context_of(name, self.keywords, self.prompt)

    @property
    def without_effect(self) -> list[str]:
        """What a client should know of the languages it named."""
        return without_effect(self.languages, "languages")
