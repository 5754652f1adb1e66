"""What a speech model does with languages, from its small files: neither weights nor vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from auricle.checkpoints.files import read_config
from auricle.checkpoints.languages import language_code
from auricle.checkpoints.tokenizer import control_token_names


@dataclass(frozen=True)
class LanguageSupport:
    """`languages` are understood, as codes, or names where there is none.

    `translates`: what is said in them can be written in English. `detects`: that of speech is
    detected before it is decoded.
    """

    languages: tuple[str, ...] = ()
    translates: bool = False
    detects: bool = False


def read_language_support(path: Path) -> LanguageSupport:
    """Read it of the checkpoint in the folder `path`. Raises CheckpointError."""
    config = read_config(path)
    prompt = config.architecture.prompt
    codes = tuple(
        language_code(name) or name for name in config.languages or config.architecture.languages
    )
    if prompt.detects:  # then each language is a token
        tokens = control_token_names(path)
        codes = tuple(code for code in codes if f"<|{code}|>" in tokens)
    return LanguageSupport(codes, prompt.translates, prompt.detects)
