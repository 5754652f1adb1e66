"""The event of a segment's translation, from processor to frontend, and what is to be resumed."""

from __future__ import annotations

import msgspec


class Translation(msgspec.Struct, frozen=True, tag=True):
    """The translation of a segment into `language`, an ISO 639-1 code.

    `committed` only grows; `partial` follows it and may change. With `final` it is complete, and
    nothing follows for this segment and language. `missing` says why it is not, though it is the
    last: what was committed stays.
    """

    segment: int
    language: str
    committed: str
    partial: str = ""
    final: bool = False
    missing: str = ""


class Untranslated(msgspec.Struct, frozen=True, array_like=True):
    """A segment whose last `Translation` into `language` was not told yet.

    `committed` was told. `source` is the segment's final text, spoken in the language called
    `spoken`; empty while it is open.
    """

    segment: int
    language: str
    committed: str = ""
    source: str = ""
    spoken: str = ""


class Translating(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a session's translations, for whoever goes on with it.

    `before` are the last segments that were translated, by language: pairs of text and translation.
    """

    untranslated: tuple[Untranslated, ...] = ()
    before: dict[str, tuple[tuple[str, str], ...]] = {}
