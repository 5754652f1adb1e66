"""`auricle models check`: prints what a checkpoint is and what it needs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from auricle.checkpoint.files import open_checkpoint
from auricle.checkpoint.survey import Part, Room, Survey, room, survey
from auricle.settings import PdWorkerSettings, ProcessorSettings

_DEFAULT_GIB = (24.0, 80.0)


def check_model(path: Path, gpu_gib: tuple[float, ...], *, as_json: bool) -> None:
    """Print what the checkpoint in `path` is. Raises CheckpointError if it cannot be served."""
    said = Text(f"reading {path}")
    with Console(stderr=True).status(said):  # all weights, for the fingerprint
        found = survey(open_checkpoint(path))
    share = _default(PdWorkerSettings, "gpu_memory_share")
    seconds = _default(ProcessorSettings, "max_segment_seconds")
    rooms = [room(found, gib, share, seconds) for gib in gpu_gib or _DEFAULT_GIB]
    if as_json:
        told = {"path": str(path), **asdict(found), "gpus": [asdict(one) for one in rooms]}
        print(msgspec.json.format(msgspec.json.encode(told)).decode())
    else:
        _show(path, found, rooms)


def _default(settings: type[PdWorkerSettings | ProcessorSettings], name: str) -> float:
    return float(settings.model_fields[name].default)


def _show(path: Path, found: Survey, rooms: list[Room]) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("checkpoint", f"{path}, {found.format} format, fingerprint {found.fingerprint}")
    table.add_row("model", found.architecture)
    table.add_row("encoder", _weights(found.encoder))
    table.add_row("decoder" if found.times is None else "aligner", _weights(found.decoder))
    whose = found.architecture if found.times is None else "Qwen3-ForcedAligner"
    table.add_row("languages", ", ".join(found.languages) or f"not named: those of {whose}")
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
    if found.times is None:
        per_token = found.kv_bytes_per_token / 1024
        most = f"at most {found.max_positions} tokens"
        table.add_row("KV cache", f"{per_token:.1f} KiB a token, {most}")
    for one in rooms:
        table.add_row(f"GPU, {one.gib:g} GiB", _holds(found, one))
    Console(soft_wrap=True, highlight=False).print(table)


def _holds(found: Survey, one: Room) -> str:
    if found.times is not None:  # which keeps nothing between two passes
        return f"as align encode worker: {one.windows} windows"
    if not one.segments:
        return "too small for a PD process"
    return (
        f"as PD process: about {one.kv_tokens} tokens of KV, {one.segments} open segments of "
        f"{one.segment_seconds:g} s; as encode worker: {one.windows} windows"
    )


def _weights(part: Part) -> str:
    return (
        f"{part.parameters / 1e6:.1f} million parameters, {part.bytes / (1 << 20):.0f} MiB, "
        f"{', '.join(part.dtypes)}"
    )
