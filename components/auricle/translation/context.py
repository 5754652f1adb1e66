"""The sentences before a segment, with their translations, which its translation follows."""

from __future__ import annotations

Pairs = tuple[tuple[str, str], ...]
_SEGMENTS = 2
_CHARACTERS = 400  # of a segment, and of its translation; of longer ones there is no context


def followed(context: Pairs, source: str, target: str) -> Pairs:
    """Return the context of the next segment, after `source` was translated as `target`."""
    if not target or max(len(source), len(target)) > _CHARACTERS:
        return ()
    return (*context, (source, target))[-_SEGMENTS:]
