"""The languages of a speech model, read from its small files only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from auricle.checkpoints.files import read_config
from auricle.checkpoints.languages import language_code
from auricle.checkpoints.tokenizer import control_token_names


@dataclass(frozen=True)
class LanguageSupport:
    """`languages` are codes, or names of languages without a code.

    `translates`: the model can translate them into English. `detects`: the language is detected
    before decoding.
    """

    languages: tuple[str, ...] = ()
    translates: bool = False
    detects: bool = False


def read_language_support(path: Path) -> LanguageSupport:
    """Read the checkpoint in the folder `path`. Raises CheckpointError."""
    config = read_config(path)
    prompt = config.architecture.prompt
    codes = tuple(
        language_code(name) or name for name in config.languages or config.architecture.languages
    )
    if prompt.detects:  # then each language is a token
        tokens = control_token_names(path)
        codes = tuple(code for code in codes if f"<|{code}|>" in tokens)
    return LanguageSupport(codes, prompt.translates, prompt.detects)
