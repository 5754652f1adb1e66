"""Words and rules of the demo's sentences: one file per language.

`en`, `de`, `es`: the ISO 639-1 code is the file name. The file has the language's name (as in
Qwen3-ASR's answers), espeak-ng's accents of the language, its words by group, and the rules of its
sentences (`models.training.grammar`). To add a language, add a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from models.training.grammar import Grammar, Rule

_FOLDER = Path(__file__).parent
DEFAULT = "en"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A language's file; words are separated by spaces."""

    name: str
    accents: tuple[str, ...]
    words: dict[str, str]
    glue: str
    sentences: tuple[str, ...]
    rules: dict[str, Rule]


class Language(msgspec.Struct, frozen=True):
    """`vocabulary` is sorted and holds every word of the grammar, and perhaps others."""

    code: str
    name: str
    accents: tuple[str, ...]
    vocabulary: tuple[str, ...]
    grammar: Grammar


def codes() -> tuple[str, ...]:
    """Return the codes of all languages with a file."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


@lru_cache
def language(code: str) -> Language:
    """Return a language by its code.

    Raises ValueError for a language without a file, and for an invalid file.
    """
    path = _FOLDER / f"{code}.yaml"
    if code not in codes():
        raise ValueError(f"no language {code!r}; there are: {', '.join(codes())}")
    try:
        read = msgspec.yaml.decode(path.read_bytes(), type=_File)
        groups = {name: words.split() for name, words in read.words.items()}
        grammar = Grammar(groups, read.rules, read.sentences)
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{path.name}: {error}") from None
    words = {*read.glue.split(), *(word for group in groups.values() for word in group)}
    if unknown := grammar.literals - words:
        raise ValueError(f"{path.name}: rules say words that are in no list: {sorted(unknown)}")
    return Language(code, read.name, read.accents, tuple(sorted(words)), grammar)


def chosen(codes_: str) -> tuple[str, ...]:
    """Return the codes of `en,de,es`, in that order. Raises ValueError as `language` does."""
    found = tuple(dict.fromkeys(code.strip() for code in codes_.split(",") if code.strip()))
    if not found:
        raise ValueError(f"no language is named in {codes_!r}; there are: {', '.join(codes())}")
    for code in found:
        language(code)
    return found


def codes_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the codes of languages by their names, as in a checkpoint's config.json.

    Raises ValueError for an unknown name.
    """
    known = {language(code).name: code for code in codes()}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no language is named {unknown[0]!r}; there are: {', '.join(known)}")
    return tuple(known[name] for name in names)
