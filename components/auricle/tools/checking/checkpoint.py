"""`auricle models check`: prints a checkpoint's kind and requirements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from auricle.checkpoints.files import open_checkpoint
from auricle.checkpoints.survey import (
    PartSurvey,
    Room,
    Survey,
    TextRoom,
    TextSurvey,
    room,
    survey,
    text_room,
    text_survey,
)
from auricle.checkpoints.text_model import is_text_model, open_text_model
from auricle.config.common import CommonSettings
from auricle.config.settings import PdWorkerSettings, ProcessorSettings, TranslateWorkerSettings

_DEFAULT_GIB = (24.0, 80.0)


def check_model(path: Path, gpu_gib: tuple[float, ...], *, as_json: bool) -> None:
    """Describe the checkpoint in `path` is. Raises CheckpointError if it cannot be served."""
    said, gpus = Text(f"reading {path}"), gpu_gib or _DEFAULT_GIB
    with Console(stderr=True).status(said):  # all weights, for the fingerprint
        looked = _of_text(path, gpus) if is_text_model(path) else _of_speech(path, gpus)
    found, rooms, shown = looked
    if as_json:
        report = {"path": str(path), **asdict(found), "gpus": [asdict(one) for one in rooms]}
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        Console(soft_wrap=True, highlight=False).print(shown)


def _of_speech(path: Path, gpus: Sequence[float]) -> tuple[Survey, list[Room], Table]:
    found = survey(open_checkpoint(path))
    share = _default(PdWorkerSettings, "gpu_memory_share")
    seconds = _default(ProcessorSettings, "max_segment_seconds")
    seconds = min(seconds, found.longest_seconds or seconds)
    rooms = [room(found, gib, share, seconds) for gib in gpus]
    return found, rooms, _speech_table(path, found, rooms)


def _of_text(path: Path, gpus: Sequence[float]) -> tuple[TextSurvey, list[TextRoom], Table]:
    from auricle.workers.translate.prompt import TranslatorPrompt  # imports transformers

    model = open_text_model(path)
    TranslatorPrompt(model)
    found = text_survey(model)
    share = _default(TranslateWorkerSettings, "gpu_memory_share")
    tokens = int(_default(TranslateWorkerSettings, "max_model_len"))
    rooms = [text_room(found, gib, share, tokens) for gib in gpus]
    return found, rooms, _text_table(path, found, rooms)


def _default(settings: type[CommonSettings], name: str) -> float:
    return float(settings.model_fields[name].default)


def _text_table(path: Path, found: TextSurvey, rooms: list[TextRoom]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("checkpoint", f"{path}, a text model, fingerprint {found.fingerprint}")
    table.add_row("model", found.architecture)
    packed = f", packed by {found.quantization}" if found.quantization else ""
    table.add_row("weights", f"{_weights(found.weights)}{packed}")
    sources, targets = (", ".join(one) or "any language" for one in (found.sources, found.targets))
    table.add_row("translates", f"from {sources} into {targets}")
    table.add_row("KV cache", _kv(found))
    for one in rooms:
        holds = (
            f"as translate worker: about {one.kv_tokens} tokens of KV, {one.translations} "
            f"translations at a time of up to {one.tokens} tokens, prompt and answer"
        )
        holds = holds if one.translations else "too small for a translate worker"
        table.add_row(f"GPU, {one.gib:g} GiB", holds)
    return table


def _speech_table(path: Path, found: Survey, rooms: list[Room]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("checkpoint", f"{path}, {found.format} format, fingerprint {found.fingerprint}")
    table.add_row("model", found.architecture)
    table.add_row("encoder", _weights(found.encoder))
    table.add_row("decoder" if found.times is None else "aligner", _weights(found.decoder))
    whose = found.architecture if found.times is None else "Qwen3-ForcedAligner"
    table.add_row("languages", ", ".join(found.languages) or f"not named: the languages of {whose}")
    if found.times is not None:
        table.add_row(
            "times",
            f"{found.times.classes} classes of {found.times.step_ms:g} ms: segments of at most "
            f"{found.times.seconds:g} s",
        )
    table.add_row(
        "window",
        f"{found.window_seconds:g} s = {found.window_embeddings} embeddings, "
        f"{found.window_bytes / 1024:.0f} KiB in a slab",
    )
    if found.longest_seconds is not None:
        table.add_row("segments", f"of at most {found.longest_seconds:g} s")
    if found.times is None:
        attended = found.attended * found.kv_bytes_per_token / (1 << 20)
        also = f", and {attended:.0f} MiB a request for cross-attention" * (attended > 0)
        table.add_row("KV cache", f"{_kv(found)}{also}")
    for one in rooms:
        table.add_row(f"GPU, {one.gib:g} GiB", _holds(found, one))
    return table


def _kv(found: Survey | TextSurvey) -> str:
    per_token = found.kv_bytes_per_token / 1024
    return f"{per_token:.1f} KiB a token, at most {found.max_positions} tokens"


def _holds(found: Survey, one: Room) -> str:
    if found.times is not None:  # which keeps nothing between two passes
        return f"as align encode worker: {one.windows} windows"
    if not one.segments:
        return "too small for a PD process"
    return (
        f"as PD process: about {one.kv_tokens} tokens of KV, {one.segments} open segments of "
        f"{one.segment_seconds:g} s; as encode worker: {one.windows} windows"
    )


def _weights(part: PartSurvey) -> str:
    return (
        f"{part.parameters / 1e6:.1f} million parameters, {part.bytes / (1 << 20):.0f} MiB, "
        f"{', '.join(part.dtypes)}"
    )
