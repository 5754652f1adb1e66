"""Messages between processor and translate worker."""

from __future__ import annotations

import msgspec


class TranslateRequest(msgspec.Struct, frozen=True, tag=True):
    """Processor → translate worker; answered by `TranslateReply`.

    `source` is the text of a segment so far, and `answer` the part of its translation that stays:
    the reply goes on after it. With `whole` no more source comes for this segment. `draft` is a
    guess of what the reply says, which is verified and cannot change it.

    Languages are ISO 639-1 codes; `source_language` is empty if nobody knows it. `context` are
    the sentences before, each with its translation, and `terms` how single words are to be
    translated. `background` requests yield to live ones.
    """

    session: str
    tenant: str
    source_language: str
    target: str
    source: str
    context: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    answer: str = ""
    draft: str = ""
    whole: bool = False
    background: bool = False
    trace: str = ""


class TranslateReply(msgspec.Struct, frozen=True, tag=True):
    """`text` is what follows the request's `answer`; `finish` is `stop` (the model ended its
    answer) or `length`.

    It depends on the request and the model only, so that a request may be made again anywhere.
    `cached_tokens` of the `prompt_tokens` were found in the KV cache; of the `draft_tokens`
    verified, `accepted_tokens` were accepted. `seconds` is how long the worker took, waiting
    included.
    """

    text: str
    finish: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    seconds: float = 0.0
