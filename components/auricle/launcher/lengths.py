"""Whether the longest prompt and answer that the settings allow fit into `PdWorker.max_model_len`.

A session that exceeds it would fail in the middle of its speech.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from auricle.audio.constants import HOP, SAMPLE_RATE
from auricle.checkpoints.files import read_config
from auricle.checkpoints.geometry import Geometry
from auricle.config.settings import CommonSettings, PdWorkerSettings, ProcessorSettings
from auricle.core.errors import CheckpointError, SettingsError
from auricle.launcher.config import all_settings

_TEMPLATE_TOKENS = 64  # of the prompt around context and audio, with a forced language
PAIR = ("Processor", "PdWorker")


def check_lengths(settings: Mapping[str, CommonSettings]) -> None:
    """Raise SettingsError if a segment may have more tokens or audio than the model takes.

    A checkpoint that cannot be read is left to the processes, which report the error.
    """
    processor, worker = settings.get("Processor"), settings.get("PdWorker")
    if not isinstance(processor, ProcessorSettings) or not isinstance(worker, PdWorkerSettings):
        return
    try:
        geometry = read_config(worker.model).geometry
    except CheckpointError:
        return
    if worker.max_model_len > geometry.max_positions:
        raise SettingsError(
            f"PdWorker.max_model_len is {worker.max_model_len}, but the checkpoint's decoder has "
            f"{geometry.max_positions} positions (max_position_embeddings): lower it to that"
        )
    most = geometry.max_segment_samples
    if most is not None and processor.max_segment_seconds > most / SAMPLE_RATE:
        raise SettingsError(
            f"Common.max_segment_seconds is {processor.max_segment_seconds:g}, but the encoder of "
            f"this checkpoint takes segments of at most {most / SAMPLE_RATE:g} s: lower it to that"
        )
    needed = longest(processor, geometry)
    if needed > worker.max_model_len:
        raise SettingsError(
            f"PdWorker.max_model_len is {worker.max_model_len}, but a segment of "
            f"Common.max_segment_seconds ({processor.max_segment_seconds:g}) may need {needed} "
            f"tokens: raise it to {needed}, or lower Common.max_segment_seconds, "
            f"Common.context_tokens ({processor.context_tokens}), Common.context_characters "
            f"({processor.context_characters}) or Processor.max_tokens_per_second "
            f"({processor.max_tokens_per_second:g})"
        )


def check_own_lengths(component: str, sections: Mapping[str, dict[str, Any]], source: str) -> None:
    """The same for a process that is started alone, as in a container.

    The other half of the question is in the section of another component.
    """
    if component in PAIR:
        check_lengths(all_settings(PAIR, sections, source))


def longest(settings: ProcessorSettings, geometry: Geometry) -> int:
    """Return the tokens of the longest prompt with its answer."""
    frames = ceil(settings.max_segment_seconds * SAMPLE_RATE / HOP)
    # Committed tokens are part of the prompt and count towards the limit of the answer.
    answer = int(settings.max_tokens_per_second * settings.max_segment_seconds)
    # Of each character of the text before, one token: the model's own words have fewer.
    context = settings.context_tokens + settings.context_characters
    text = answer + settings.min_new_tokens + context + _TEMPLATE_TOKENS
    return geometry.prompt_tokens(geometry.segment_embeddings(frames)) + text
