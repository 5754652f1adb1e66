"""What a client says about the audio, under the names of OpenAI's protocols. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.errors import UnsupportedValue
from auricle.text_bounds import CONTEXT, check


def context_of(prompt: str, keywords: Sequence[str]) -> str:
    """Return the model's context. Raises UnsupportedValue if both together are too long."""
    context = " ".join(part for part in (prompt, ", ".join(keywords)) if part)
    check("prompt and keywords" if prompt else "keywords", context, CONTEXT)
    return context


def language_of(language: str | None, languages: Sequence[str]) -> str | None:
    """Return the language to transcribe in; None to detect it, as among several.

    Raises UnsupportedValue if `language` and `languages` say different things.
    """
    several = tuple(dict.fromkeys(languages))
    if language is not None and several not in ((), (language,)):
        raise UnsupportedValue("send either language or languages", "languages")
    return several[0] if len(several) == 1 else language


def several_languages(languages: Sequence[str]) -> list[str]:
    """Return what a client should know of the languages it named."""
    if len(set(languages)) < 2:
        return []
    return ["languages has no effect: of several, the language is detected"]
