"""`auricle models list`."""

from __future__ import annotations

import sys

import msgspec
from rich.console import Console
from rich.table import Table

from auricle.models import store
from auricle.models.catalog import DESCRIPTIONS, PACKAGED

_WIDE = 200  # columns where there is no terminal: a model is a line


def print_models(*, as_json: bool) -> None:
    """Print the models that were pulled, and those that are known by name."""
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
        told = {"folder": str(store.root()), "pulled": pulled, "others": [*others]}
        print(msgspec.json.format(msgspec.json.encode(told)).decode())
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
    """Return a number of bytes as people read it."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
