"""What a way in can do. Each room declares its own; docs/ways_in.md is written from that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def _can(means: str) -> Any:
    return field(default="", metadata={"means": means})


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Each is what a client asks for, or is told, in the protocol's own word; empty: not there.

    `way` is the route, as `WS /v1/audio/stream`, and `page` its file in docs/.
    """

    way: str
    page: str
    partials: str = _can("text of the open segment that may still change")
    committed: str = _can("text that will not change, before its segment or recording ends")
    turns: str = _can("where speech, or a turn, ends")
    language: str = _can("one language instead of detecting it")
    keywords: str = _can("names and words that may occur")
    words: str = _can("times of words")
    confidence: str = _can("how sure the model is")
    speakers: str = _can("who speaks")
    translations: str = _can("the text in other languages")
    channels: str = _can("several channels on one connection")
    resume: str = _can("a session outlives its connection")
    features: str = _can("features from the client instead of samples")
