"""Builds an architecture's published prompt and parses the model's answer.

The prompt of Qwen3-ASR is
`<|im_start|>system\n{context}<|im_end|>\n<|im_start|>user\n<|audio_start|>` audio
`<|audio_end|><|im_end|>\n<|im_start|>assistant\n`; the answer is `language
English<asr_text>…<|im_end|>`. A forced language is appended to the prompt.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from auricle.checkpoints.architectures.base import Architecture, Pieces, Task
from auricle.checkpoints.files import ModelCheckpoint
from auricle.checkpoints.languages import (
    ENGLISH,
    described_languages,
    language_code,
    spoken_language,
    supported_language,
)
from auricle.checkpoints.tokenizer import NAMED, load_tokenizer, without_added_tokens
from auricle.core.errors import BadRequest, CheckpointError
from auricle.core.limits import CONTEXT, LANGUAGE, fault
from auricle.core.sanitize import quoted

_NO_LANGUAGE = "None"
_SPACE = " \t\r\n"
_BROKEN_CHARACTER = "\ufffd"  # an incomplete UTF-8 character, decoded


class PromptFormat:
    """Builds prompts and parses answers for one checkpoint.

    Raises CheckpointError if the tokenizer is missing or does not fit the checkpoint.
    """

    def __init__(self, checkpoint: ModelCheckpoint) -> None:
        self._tokenizer = load_tokenizer(checkpoint.path)
        self._plain = without_added_tokens(self._tokenizer)
        self._bytes_of = NAMED[checkpoint.architecture.vocabulary]
        known = self._tokenizer.get_added_tokens_decoder()
        self._controls = {number for number, token in known.items() if token.special}
        self._languages = checkpoint.languages or checkpoint.architecture.languages
        self._name = checkpoint.architecture.name
        self._task: Task = "transcribe"
        template = self._template = checkpoint.architecture.prompt
        self.stop_tokens = tuple(self._special(token) for token in template.stops)
        audio_token = template.audio_token
        self.audio_token = None if audio_token is None else self._special(audio_token)
        self._language_of: dict[int, str] = {}  # by token, where a token names the language
        if template.detects:
            self._language_of = self._language_tokens()
            self._languages = tuple(self._language_of.values())
        self._mark = None if template.mark is None else self._special(template.mark)
        # Every decode uses the templates, and there are few.
        self._ids = lru_cache(maxsize=256)(self._tokenized)
        # All decodes of a segment have the same context.
        self._plain_ids = lru_cache(maxsize=1024)(self._tokenized_plain)
        if self.audio_token != checkpoint.geometry.audio_token_id:
            raise CheckpointError(
                f"the tokenizer's {template.audio_token} is {self.audio_token}, but config.json's "
                f"{checkpoint.architecture.audio_token_key} is "
                f"{checkpoint.geometry.audio_token_id}"
            )

    def _special(self, token: str) -> int:
        number: int | None = self._tokenizer.token_to_id(token)
        if number is None:
            raise CheckpointError(f"the tokenizer has no token {token}")
        return number

    def _language_tokens(self) -> dict[int, str]:
        """Return the names of the languages with a token in the tokenizer, by token."""
        codes = ((name, language_code(name)) for name in self._languages)
        tokens = ((name, self._tokenizer.token_to_id(f"<|{code}|>")) for name, code in codes)
        return {token: name for name, token in tokens if token is not None}

    @property
    def detects_language(self) -> bool:
        return self._template.detects

    @property
    def translates(self) -> bool:
        return self._template.translates

    def translating(self) -> PromptFormat:
        """Return the format of prompts for translation into English.

        Raises BadRequest if the checkpoint does not translate.
        """
        if not self.translates:
            raise BadRequest(f"{self._name} does not translate: ask for a transcript")
        other = copy.copy(self)
        other._task = "translate"
        return other

    def language_tokens(self, languages: Sequence[str]) -> tuple[int, ...]:
        """Return the tokens of these languages; without any, the tokens of all languages."""
        named = self._language_of.items()
        return tuple(token for token, name in named if not languages or name in languages)

    def language_of(self, token: int) -> str:
        return self._language_of[token]

    def check_language(self, language: str | None) -> str | None:
        """Return the canonical name of a language given by name or ISO code.

        A language to detect gives None, or the only one of a checkpoint whose prompt names none.
        Raises BadRequest if the checkpoint, or its family if it lists none, does not support it.
        """
        if language is None or spoken_language(language) is None:
            only = self._mark is None and len(self._languages) == 1
            return self._languages[0] if only else None
        if (wrong := fault("language", language, LANGUAGE)) is not None:
            raise BadRequest(wrong)
        name = supported_language(language, self._languages)
        if name is None:
            raise BadRequest(
                f"language {quoted(language)} is not supported; "
                f"supported: {described_languages(self._languages)}"
            )
        return name

    def language_constraint(self, languages: Sequence[str]) -> tuple[str, ...]:
        """Return the canonical names of the supported ones of `languages`, once each.

        Empty if answers name no language. Raises BadRequest if none is supported.
        """
        named = self._mark is not None
        if not languages or not (named or len(self._languages) == 1):
            return ()
        found = dict.fromkeys(supported_language(one, self._languages) for one in languages)
        if known := tuple(name for name in found if name is not None):
            return known if named else ()
        raise BadRequest(
            f"languages {quoted(', '.join(languages))} are not supported; supported: "
            f"{described_languages(self._languages)}"
        )

    def check_context(self, context: str, most_tokens: int) -> None:
        """Raise BadRequest if a client's context is too long or not text."""
        if (wrong := fault("context", context, CONTEXT)) is not None:
            raise BadRequest(wrong)
        if (tokens := len(self._plain_ids(context))) > most_tokens:
            raise BadRequest(
                f"context has {tokens} tokens of the model, at most {most_tokens} are allowed "
                f"(with {len(context)} characters)"
            )

    def head(self, context: str) -> tuple[int, ...]:
        """Return the prompt's tokens before the audio.

        Control tokens in `context` are tokenized as plain text.
        """
        if not context:
            return self._filled(self._template.before)
        return self._filled(self._template.before_with_context, context=context)

    def tail(self, language: str | None) -> tuple[int, ...]:
        if language is None:
            return self._filled(self._template.after)
        code = language_code(language) or ""
        # The model was trained to translate from other languages than English only.
        task = "transcribe" if language == ENGLISH else self._task
        return self._filled(self._template.after_forced, language=language, code=code, task=task)

    def opening_in(self, language: str) -> tuple[int, ...]:
        """Return the first tokens of an answer in this language; empty if answers name none."""
        return () if self._mark is None else self.tail(language)[len(self.tail(None)) :]

    def answer(self, tokens: tuple[int, ...], language: str | None) -> tuple[str, str]:
        """Return language and text of an answer or of a prefix of one.

        `language` is forced by the prompt. Without it, both are empty until the mark between them
        has been generated; answers without a mark have no language. Leading spaces are removed.
        """
        if language is not None or self._mark is None:
            return language or "", self.text(tokens).lstrip(_SPACE)
        if self._mark not in tokens:
            return "", ""
        at = tokens.index(self._mark)
        named = self._language_of.get(tokens[0]) if at and self._language_of else None
        named = named or self.text(tokens[:at]).removeprefix("language").strip()
        text = self.text(tokens[at + 1 :]).lstrip(_SPACE)
        return ("" if named == _NO_LANGUAGE else named), text

    def opening(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Return the tokens up to and including the mark before the text; empty without it."""
        if self._mark is None or self._mark not in tokens:
            return ()
        return tokens[: tokens.index(self._mark) + 1]

    def pieces(self, tokens: tuple[int, ...], language: str | None) -> list[tuple[int, bytes]]:
        """Return the index in `tokens` and the bytes of each token of an answer's text.

        `language` is forced by the prompt. Control tokens are left out.
        """
        marked = language is None and self._mark is not None
        first = len(self.opening(tokens)) if marked else 0
        if marked and not first:
            return []
        texts = ((at, t) for at, t in enumerate(tokens[first:], first) if t not in self._controls)
        named = ((at, self._plain.id_to_token(t)) for at, t in texts)
        spelt = ((at, self._bytes_of(name)) for at, name in named if name)
        return list(_without_leading_space(spelt))

    def token_lengths(self, text: str) -> list[tuple[int, int]]:
        """Return the tokens of a plain text with their lengths in bytes."""
        named = ((t, self._plain.id_to_token(t)) for t in self._tokenized_plain(text))
        return [(token, len(self._bytes_of(name or ""))) for token, name in named]

    def text(self, tokens: tuple[int, ...]) -> str:
        """Decode without special tokens and without an incomplete UTF-8 character at the end."""
        text: str = self._tokenizer.decode(
            [t for t in tokens if t not in self.stop_tokens], skip_special_tokens=True
        )
        return text.rstrip(_BROKEN_CHARACTER)

    def whole_characters(self, tokens: tuple[int, ...]) -> bool:
        """Whether `tokens` end with a complete UTF-8 character."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=False)
        return not text.endswith(_BROKEN_CHARACTER)

    def _filled(self, pieces: Pieces, **fields: str) -> tuple[int, ...]:
        ids: list[int] = []
        for piece in pieces:
            plain = "{context}" in piece or "{language}" in piece
            tokenized = self._plain_ids if plain else self._ids
            ids += tokenized(piece.format(**fields) if "{" in piece else piece)
        return tuple(ids)

    def _tokenized(self, template: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(template, add_special_tokens=False).ids)

    def _tokenized_plain(self, text: str) -> tuple[int, ...]:
        """Tokenize a client's text so that it cannot open or close turns."""
        return tuple(self._plain.encode(text, add_special_tokens=False).ids) if text else ()


def _without_leading_space(pieces: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    begun = False
    for at, data in pieces:
        rest = data if begun else data.lstrip(_SPACE.encode())
        begun = begun or bool(rest)
        if begun:
            yield at, rest


def suppressed_tokens(path: Path, architecture: Architecture, vocab_size: int) -> tuple[int, ...]:
    """Return the token ids that must never be generated, ascending.

    For Whisper these are its own list and all timestamps, as its prompts ask for text without
    timestamps. Raises CheckpointError if generation_config.json is missing or lacks them.
    """
    if architecture.audio != "cross_attention":
        return ()
    file = path / "generation_config.json"
    try:
        config = json.loads(file.read_text())
        listed = {int(token) for token in config.get("suppress_tokens") or ()}
        first = int(config["no_timestamps_token_id"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(
            f"{file} is missing or unreadable, or has no `no_timestamps_token_id`: take the one "
            "that was published with the checkpoint"
        ) from None
    # Timestamps are the last tokens of the vocabulary.
    return tuple(sorted(listed | set(range(first, vocab_size))))
