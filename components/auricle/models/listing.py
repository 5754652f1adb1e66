"""`auricle models list`."""

from __future__ import annotations

import msgspec
from rich.console import Console
from rich.table import Table

from auricle.models import store
from auricle.models.catalog import DESCRIPTIONS, PACKAGED


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
    console = Console(soft_wrap=True, highlight=False)
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, record in here.items():
        table.add_row(name, size_text(record.size), f"from {record.source}")
    console.print(f"In {store.root()}:" if here else f"Nothing is in {store.root()}.")
    if here:
        console.print(table)
    console.print("\nOthers, for `auricle models pull`, and any OWNER/NAME of the hub:")
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, text in others.items():
        table.add_row(name, "package index" if name in PACKAGED else "hub", text)
    console.print(table)


def size_text(size: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
