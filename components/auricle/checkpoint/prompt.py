"""Tokens: the published prompt, the answer's format, and text out of tokens.

Prompt: `<|im_start|>system\\n{context}<|im_end|>\\n<|im_start|>user\\n<|audio_start|>` audio
`<|audio_end|><|im_end|>\\n<|im_start|>assistant\\n`; the answer is
`language English<asr_text>…<|im_end|>`. A forced language is appended to the prompt.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from transformers import Qwen2Tokenizer

from auricle.checkpoint.files import Checkpoint
from auricle.checkpoint.languages import language_name
from auricle.errors import BadRequest, CheckpointError

_TEXT_MARK = "<asr_text>"
_AUDIO_PAD = "<|audio_pad|>"
_STOPS = ("<|im_end|>", "<|endoftext|>")
_NO_LANGUAGE = "None"
_BROKEN_CHARACTER = "\ufffd"  # what decoding half a UTF-8 character gives


class PromptFormat:
    """Builds prompts and reads answers for one checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._tokenizer = _load_tokenizer(checkpoint.path)
        self._languages = checkpoint.languages
        self.stop_tokens = tuple(self._special(token) for token in _STOPS)
        self.audio_token = self._special(_AUDIO_PAD)
        self._mark = self._special(_TEXT_MARK)
        # Templates are few and asked for at every decode.
        self._ids = lru_cache(maxsize=256)(self._tokenized)
        # A segment's context is that of all its decodes.
        self._plain_ids = lru_cache(maxsize=1024)(self._tokenized_plain)
        if self.audio_token != checkpoint.geometry.audio_token_id:
            raise CheckpointError(
                f"the tokenizer's {_AUDIO_PAD} is {self.audio_token}, but config.json's "
                f"audio_token_id is {checkpoint.geometry.audio_token_id}"
            )

    def _special(self, token: str) -> int:
        number = self._tokenizer.convert_tokens_to_ids(token)
        if number is None or number == self._tokenizer.unk_token_id:
            raise CheckpointError(f"the tokenizer has no token {token}")
        return int(number)

    def check_language(self, language: str | None) -> str | None:
        """Canonical name of a language given by name or ISO code.

        Raises BadRequest for one the checkpoint does not support.
        """
        if language is None or not language.strip():
            return None
        name = language_name(language)
        if self._languages and name not in self._languages:
            raise BadRequest(
                f"language {language!r} is not supported; supported: {', '.join(self._languages)}"
            )
        return name

    def head(self, context: str) -> tuple[int, ...]:
        """Everything before the audio. Special tokens inside `context` are plain text."""
        return (
            *self._ids("<|im_start|>system\n"),
            *self._plain_ids(context),
            *self._ids("<|im_end|>\n<|im_start|>user\n<|audio_start|>"),
        )

    def tail(self, language: str | None) -> tuple[int, ...]:
        """Everything after the audio, up to where the model writes."""
        forced = "" if language is None else f"language {language}{_TEXT_MARK}"
        return self._ids(f"<|audio_end|><|im_end|>\n<|im_start|>assistant\n{forced}")

    def answer(self, tokens: tuple[int, ...], language: str | None) -> tuple[str, str]:
        """(language, text) of an answer or of a prefix of one. No mark yet: no text yet."""
        if language is not None:
            return language, self.text(tokens)
        if self._mark not in tokens:
            return "", ""
        at = tokens.index(self._mark)
        named = self.text(tokens[:at]).removeprefix("language").strip()
        return ("" if named == _NO_LANGUAGE else named), self.text(tokens[at + 1 :])

    def opening(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """What an answer with a detected language begins with; empty if it is not complete."""
        return tokens[: tokens.index(self._mark) + 1] if self._mark in tokens else ()

    def text(self, tokens: tuple[int, ...]) -> str:
        """Decoded text without special tokens; half characters at the end are left out."""
        text: str = self._tokenizer.decode(
            [t for t in tokens if t not in self.stop_tokens], skip_special_tokens=True
        )
        return text.rstrip(_BROKEN_CHARACTER)

    def whole_characters(self, tokens: tuple[int, ...]) -> bool:
        """Whether `tokens` do not end inside a UTF-8 character."""
        return not self._tokenizer.decode(list(tokens)).endswith(_BROKEN_CHARACTER)

    def _tokenized(self, template: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(template, add_special_tokens=False).input_ids)

    def _tokenized_plain(self, text: str) -> tuple[int, ...]:
        """Client text must not be able to open or close turns."""
        if not text:
            return ()
        ids = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids
        return tuple(ids)


def _load_tokenizer(path: Path) -> Qwen2Tokenizer:
    for name in ("tokenizer_config.json",):
        if not (path / name).is_file():
            raise CheckpointError(f"{path} has no {name}")
    try:
        return Qwen2Tokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the tokenizer in {path} cannot be loaded: {error}") from None
