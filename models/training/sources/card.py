"""The sources as a table of the model card.

    python -m models.training.sources.card

puts it into the card's template.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from models.training.sources import SOURCES
from models.training.sources.people import People, persons

TEMPLATE = Path(__file__).parents[1] / "card.md"
_BEGIN, _END = "<!-- sources -->", "<!-- /sources -->"
_HEADING, _MEASURED = "## Who speaks", "## Measured\n"
_MANY = 10


def with_table(card: str, names: Sequence[str] = tuple(SOURCES)) -> str:
    """Return a card with these sources, in place of the old table or else before the figures.

    Raises ValueError for a card that has neither.
    """
    table = "\n".join([_BEGIN, *_rows(names), _END])
    if _BEGIN in card:
        head, _, rest = card.partition(_BEGIN)
        return head + table + rest.partition(_END)[2]
    head, measured, rest = card.partition(_MEASURED)
    if not measured:
        raise ValueError(f"the card has neither {_BEGIN} nor {_MEASURED.strip()}")
    return f"{head}{_HEADING}\n\n{table}\n\n{measured}{rest}"


def named_in(card: str) -> list[str]:
    """Return the sources in a card's table, [] if it has none; a person belongs to `people`."""
    table = card.partition(_BEGIN)[2].partition(_END)[0]
    cells = [line.removeprefix("| ").partition(" |")[0] for line in table.splitlines()]
    names = ["people" if cell in persons() else cell for cell in cells]
    return list(dict.fromkeys(name for name in names if name in SOURCES))


def without_table(card: str) -> str:
    """Return a card without its section about sources."""
    head, _, rest = card.partition(_HEADING)
    return head + _MEASURED + rest.partition(_MEASURED)[2]


def _rows(names: Sequence[str]) -> Iterator[str]:
    yield _row("source", "packages", "licence", "who speaks", "trained on", "never trained on")
    yield "|---|---|---|---|---|---|"
    for source in (SOURCES[name] for name in names):
        if source.engine is People:
            yield from map(_person, source.voices + source.held_out)
            continue
        packages = ", ".join(source.packages) or "espeakng-loader (PyPI)"
        voices = dict.fromkeys(source.voices)
        trained = f"{len(voices)} voices" if len(voices) > _MANY else ", ".join(voices)
        kept = ", ".join(source.held_out) or "–"
        yield _row(source.name, packages, source.licence, source.who, trained, kept)


def _person(name: str) -> str:
    person = persons()[name]
    words = f"{len(person.words)} recorded words"
    used = ("–", words) if person.held_out else (words, "–")
    return _row(name, person.package, person.licence, person.who, *used)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    TEMPLATE.write_text(with_table(TEMPLATE.read_text()))
