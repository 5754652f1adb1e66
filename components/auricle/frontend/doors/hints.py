"""What a client says about the audio, under the names of OpenAI's protocols. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from auricle.errors import UnsupportedValue
from auricle.frontend.doors.field_errors import bounded
from auricle.text_bounds import CONTEXT, LANGUAGE, check

_MOST_KEYWORDS, _MOST_LANGUAGES = 1_000, 100
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


class Hints(BaseModel):
    """Fields that say what is spoken, and what may be said. Unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: Annotated[str, AfterValidator(bounded("language", LANGUAGE))] | None = Field(
        default=None,
        description="ISO 639-1 code or name; detected by default",
        json_schema_extra={"maxLength": LANGUAGE},
    )
    languages: Annotated[
        tuple[Annotated[str, AfterValidator(bounded("languages", LANGUAGE))], ...],
        Field(max_length=_MOST_LANGUAGES),
    ] = Field(
        default=(),
        description="in place of `language`; of up to four, each segment is in one of them",
    )
    prompt: Annotated[str, AfterValidator(bounded("prompt", CONTEXT))] = Field(
        default="",
        description="context the model may take into account, such as names",
        json_schema_extra={"maxLength": CONTEXT},
    )
    keywords: Annotated[
        tuple[Annotated[str, AfterValidator(bounded("keywords", CONTEXT))], ...],
        Field(max_length=_MOST_KEYWORDS),
    ] = Field(default=(), description="words that may come; context for the model, with `prompt`")

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
        context = " ".join(part for part in (self.prompt, ", ".join(self.keywords)) if part)
        check("prompt and keywords" if self.prompt else "keywords", context, CONTEXT)
        return context

    @property
    def without_effect(self) -> list[str]:
        """What a client should know of the languages it named."""
        return without_effect(self.languages, "languages")
