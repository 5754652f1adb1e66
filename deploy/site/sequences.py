"""Draws docs/images/sequence-NAME.svg from sequences.yaml: the messages between parties.

    python deploy/site/sequences.py

Pictures instead of a language that a script of the page draws, as the documents are read in three
places (an editor, where the repository is hosted, the site), and the site fetches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import yaml

_HERE = Path(__file__).resolve().parent
_IMAGES = _HERE.parents[1] / "docs/images"
_ARROW = re.compile(r"(.+?) > (.+?): (.+)")
_NAME = re.compile(r"`([^`]+)`")
_EDGE, _TOP, _STEP, _BOX = 90, 84, 34, (150, 30)
_STYLE = """.box{fill:#eef1fb;stroke:#3f51b5;stroke-width:1.5}
.who{font-weight:600;text-anchor:middle}
.line{stroke:#9aa3c7;stroke-dasharray:4 4}.way{stroke:#3f51b5;stroke-width:1.6;marker-end:url(#a)}
.label{font-size:12.5px;text-anchor:middle}.name{font-family:ui-monospace,monospace;fill:#283593}
.note{font-size:12px;font-style:italic;fill:#555;text-anchor:middle}"""


@dataclass(frozen=True)
class Arrow:
    """A message from one to another; names of the protocol stand in backticks."""

    sender: str
    receiver: str
    label: str


@dataclass(frozen=True)
class Sequence:
    """A picture. A step is an arrow, or a note: what happens meanwhile.

    `sources` are files or folders below components/auricle, where the names of the labels are.
    """

    title: str
    sources: tuple[str, ...]
    between: tuple[str, ...]
    steps: tuple[Arrow | str, ...]

    def names(self) -> Iterator[str]:
        """Yield the names of messages and fields in the labels."""
        for step in self.steps:
            yield from _NAME.findall(step if isinstance(step, str) else step.label)


def sequences() -> dict[str, Sequence]:
    """Return all of them. Raises ValueError for a step that is neither arrow nor note."""
    rows: dict[str, Any] = yaml.safe_load((_HERE / "sequences.yaml").read_text())
    return {name: _sequence(name, row) for name, row in rows.items()}


def _sequence(name: str, row: dict[str, Any]) -> Sequence:
    between = tuple(row["between"])
    steps = tuple(_step(name, between, text) for text in row["steps"])
    return Sequence(row["title"], tuple(row["sources"]), between, steps)


def _step(name: str, between: tuple[str, ...], text: str) -> Arrow | str:
    if text.startswith("- "):
        return text.removeprefix("- ")
    found = _ARROW.fullmatch(text)
    if found is None or not {found[1], found[2]} <= set(between) or found[1] == found[2]:
        raise ValueError(
            f"{name}: {text!r} must be '- note', or 'FROM > TO: label' between {', '.join(between)}"
        )
    return Arrow(found[1], found[2], found[3])


def svg(sequence: Sequence) -> str:
    """Return the picture."""
    count = len(sequence.between)
    lane = 360 if count == 2 else 290  # room for the longest label
    width = 2 * _EDGE + lane * (count - 1)
    height = _TOP + _STEP * len(sequence.steps) + 24
    at = {who: _EDGE + lane * number for number, who in enumerate(sequence.between)}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="14">',
        f"<title>{escape(sequence.title)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="#3f51b5"/></marker></defs>',
        f'<rect width="{width}" height="{height}" rx="10" fill="#fff"/>',
    ]
    for who, x in at.items():
        lines.append(f'<path class="line" d="M{x} 50V{height - 14}"/>')
        lines.append(
            f'<rect class="box" x="{x - _BOX[0] // 2}" y="20" width="{_BOX[0]}" '
            f'height="{_BOX[1]}" rx="6"/><text class="who" x="{x}" y="40">{escape(who)}</text>'
        )
    for number, step in enumerate(sequence.steps):
        y = _TOP + _STEP * number
        if isinstance(step, str):
            lines.append(_text("note", width // 2, y + 5, step))
            continue
        begin, end = at[step.sender], at[step.receiver]
        lines.append(_text("label", (begin + end) // 2, y, step.label))
        lines.append(f'<path class="way" d="M{begin} {y + 8}H{end}"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _text(kind: str, x: int, y: int, label: str) -> str:
    """Return a line of text on white, so that no lane runs through it."""
    marked = _NAME.sub(r'<tspan class="name">\1</tspan>', escape(label, quote=False))
    ground = 'stroke="#fff" stroke-width="5" paint-order="stroke"'
    return f'<text class="{kind}" x="{x}" y="{y}" {ground}>{marked}</text>'


def picture(name: str) -> Path:
    """Return where the picture of that name is."""
    return _IMAGES / f"sequence-{name}.svg"


def main() -> None:
    """Draw all."""
    for name, sequence in sequences().items():
        picture(name).write_text(svg(sequence))


if __name__ == "__main__":
    main()
