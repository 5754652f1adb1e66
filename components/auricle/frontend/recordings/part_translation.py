"""The translation of a part of a recording, which a processor may have cut into segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auricle.messages.sessions import Final
from auricle.messages.translations import Translation
from auricle.translation.targets import CUT, SAME


@dataclass(frozen=True)
class Translated:
    """`missing` says why `text` is not, or not all of, the translation; empty if it is."""

    text: str = ""
    missing: str = ""


NO_TRANSLATION = Translated()


def cut_off(parts: Iterable[Translated]) -> list[str]:
    """Return a sentence on the parts whose translation is not all of it; none if there are none."""
    count = sum(part.missing == CUT for part in parts)
    return [f"{count} segments are translated in part: {CUT}"] if count else []


def translated(finals: Sequence[Final], translations: Mapping[int, Translation]) -> Translated:
    """Join the translations of segments with text; one in the target language is its own.

    Without any there is no translation.
    """
    texts: list[str] = []
    missing = ""
    for final in finals:
        if (told := translations.get(final.segment)) is None:
            continue
        own = told.missing == SAME
        texts.append(final.text if own else told.committed)
        missing = missing or ("" if own else told.missing)
    return Translated(" ".join(text for text in texts if text), missing)
