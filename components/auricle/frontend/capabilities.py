"""The capabilities of each protocol and of a deployment; docs/ways_in.md is written from these."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from auricle.annotation.translation.targets import Directions
from auricle.checkpoints.language_support import LanguageSupport, read_language_support
from auricle.config.settings import FrontendSettings
from auricle.core.errors import CheckpointError

log = logging.getLogger(__name__)


def _can(means: str) -> Any:
    return field(default="", metadata={"means": means})


@dataclass(frozen=True, kw_only=True)
class ProtocolCapabilities:
    """The protocol's own name for each capability; empty if it has none.

    `route` is its address, as `WS /v1/audio/stream`, and `page` its file in docs/.
    """

    route: str
    page: str
    partials: str = _can("text of the open segment that may still change")
    committed: str = _can("text that will not change, before its segment or recording ends")
    turns: str = _can("the end of speech, or of a turn")
    language: str = _can("a fixed language instead of detection")
    keywords: str = _can("names and words that may occur")
    words: str = _can("words with their times")
    confidence: str = _can("the model's confidence")
    speakers: str = _can("speaker labels")
    translations: str = _can("translations of the text")
    channels: str = _can("several channels on one connection")
    resume: str = _can("resuming a session on another connection")
    features: str = _can("features from the client instead of samples")


class ServerCapabilities(msgspec.Struct, frozen=True):
    """The optional annotations of a deployment, and its languages, as `GET /v1/models` shows them.

    `words` and `speakers` are true if there is a model for them. `translate` lists the target
    languages as ISO 639-1 codes: empty if any may be requested or they are not known here
    (`Common.translate_targets` can list them), null without a translator. `vocabulary` is the
    number of words of a model with a small vocabulary, such as the bundled one; null for others.
    `languages` are the understood languages as ISO 639-1 codes; empty if not known here.
    """

    words: bool
    speakers: bool
    translate: tuple[str, ...] | None
    vocabulary: int | None
    languages: tuple[str, ...]


def server_capabilities(
    settings: FrontendSettings, spoken: LanguageSupport, directions: Directions
) -> ServerCapabilities:
    """Return the capabilities of the models in the settings."""
    return ServerCapabilities(
        words=settings.align_model is not None,
        speakers=settings.speaker_model is not None,
        translate=directions.targets,
        vocabulary=_vocabulary(settings.model),
        languages=spoken.languages,
    )


def spoken_by(model: Path) -> LanguageSupport:
    """Return the languages of the speech model; unknown without its files on this machine."""
    try:
        return read_language_support(model)
    except CheckpointError as error:
        log.warning("clients are not told which languages are understood: %s", error)
        return LanguageSupport()


def schemas() -> dict[str, Mapping[str, Any]]:
    """Return the JSON Schema of the above, by its name."""
    found = msgspec.json.schema_components([ServerCapabilities], ref_template="{name}")[1]
    docstring = inspect.cleandoc(ServerCapabilities.__doc__ or "")
    return {name: schema | {"description": docstring} for name, schema in found.items()}


def _vocabulary(model: Path) -> int | None:
    """Return the number of words in a checkpoint's vocabulary list; None without such a list."""
    try:
        return len((model / "vocabulary.txt").read_text().split())
    except OSError:
        return None
