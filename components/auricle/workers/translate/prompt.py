"""Builds a translation prompt for a text model, and reads the answer.

The prompt is the checkpoint's chat template with a turn for each sentence of context, a turn for
the source, and the begin of the answer. A request's texts are tokenized as plain text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from auricle.checkpoints.languages import NAMES
from auricle.checkpoints.text_model import TextModel, end_tokens
from auricle.checkpoints.tokenizer import without_added_tokens
from auricle.core.errors import CheckpointError
from auricle.protocol.annotation import TranslateRequest

# Placeholders for contents in a rendered template: private-use characters, which texts do not have.
_MARKS = range(0xF0000, 0xFFFFD)
_MARK = re.compile("([\U000f0000-\U000ffffd])")
_BROKEN_CHARACTER = "\ufffd"  # an incomplete UTF-8 character, decoded
_TEMPLATES_KEPT = 256
_MORE = " …"  # after an incomplete source; models repeat it
_REPEATED = re.compile(r"\s*(…|\.\.\.)\s*$")


@dataclass(frozen=True)
class TranslationPrompt:
    """Token ids of a prompt, which ends with the begin of the answer (`answer`).

    `source_tokens` is the number of the source's tokens, `draft` a guess of the next ones.
    """

    tokens: tuple[int, ...]
    source_tokens: int
    answer: tuple[int, ...]
    draft: tuple[int, ...]


class TranslatorPrompt:
    """Builds prompts and reads answers for one checkpoint.

    Raises CheckpointError without a tokenizer, or a chat template that takes such a conversation.
    """

    def __init__(self, model: TextModel) -> None:
        self._path = model.path
        self._tokenizer = _tokenizer(model.path)
        self._plain = without_added_tokens(self._tokenizer.backend_tokenizer)
        self.stop_tokens = self._stops(model)
        # There are few languages, and as many sentences of context as a session keeps.
        self._rendered = lru_cache(maxsize=_TEMPLATES_KEPT)(self._render)
        self._ids = lru_cache(maxsize=_TEMPLATES_KEPT)(self._tokenized)
        self._plain_ids = lru_cache(maxsize=1024)(self._tokenized_plain)
        self._rendered("en", "es", 1)

    def build(self, request: TranslateRequest, context: int) -> TranslationPrompt:
        """Return the prompt of a request with the last `context` sentences of its context."""
        pairs = request.context[len(request.context) - context :]
        source = request.source if request.whole else f"{request.source.rstrip()}{_MORE}"
        contents = [
            instruction(request.source_language, request.target, request.terms),
            *(text for pair in pairs for text in pair),
            source,
        ]
        ids: list[int] = []
        for piece in self._rendered(request.source_language, request.target, len(pairs)):
            number = ord(piece) - _MARKS.start if _MARK.fullmatch(piece) else None
            ids += self._ids(piece) if number is None else self._plain_ids(contents[number])
        # Without a final space, which is a part of the next token.
        answer = self._plain_ids(request.answer.rstrip())
        return TranslationPrompt(
            (*ids, *answer),
            len(self._plain_ids(source)),
            answer,
            self._plain_ids(_following(request.answer, request.draft)),
        )

    def text(
        self, request: TranslateRequest, prompt: TranslationPrompt, tokens: tuple[int, ...]
    ) -> str:
        """Return the text that `tokens` append to the request's answer.

        Special tokens and an incomplete UTF-8 character at the end are left out.
        """
        before, both = self._decoded(prompt.answer), self._decoded((*prompt.answer, *tokens))
        text = both[len(before) :]
        if not request.whole:
            text = _REPEATED.sub("", text)
        return text.lstrip() if request.answer != request.answer.rstrip() else text

    def _decoded(self, tokens: tuple[int, ...]) -> str:
        ids = [token for token in tokens if token not in self.stop_tokens]
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text.rstrip(_BROKEN_CHARACTER)

    def _render(self, source_language: str, target: str, context: int) -> tuple[str, ...]:
        """Return the template for that many sentences of context, as text and placeholders."""
        marks = [chr(_MARKS[number]) for number in range(2 * context + 2)]
        roles = ("system", *("user", "assistant") * context, "user")
        turns = [{"role": r, "content": mark} for r, mark in zip(roles, marks, strict=True)]
        try:
            text = self._tokenizer.apply_chat_template(
                turns,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
                source_language=source_language,
                target=target,
            )
        except Exception as error:  # templates are programs, and raise any exception
            raise CheckpointError(
                f"the chat template in {self._path} does not take a system message and turns of "
                f"user and assistant: {error}"
            ) from None
        pieces = tuple(piece for piece in _MARK.split(text) if piece)
        found = [piece for piece in pieces if _MARK.fullmatch(piece)]
        if found not in (marks, marks[1:]):  # a small model may ignore the instruction
            raise CheckpointError(
                f"the chat template in {self._path} does not repeat each message once, in order"
            )
        return pieces

    def _stops(self, model: TextModel) -> tuple[int, ...]:
        of_config = model.config.get("eos_token_id")
        named = of_config if isinstance(of_config, list) else [of_config]
        found = {*end_tokens(model.path), *named, self._tokenizer.eos_token_id} - {None}
        if not found:
            raise CheckpointError(f"{model.path} names no token that ends an answer (eos_token_id)")
        return tuple(sorted(found))

    def _tokenized(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False).input_ids)

    def _tokenized_plain(self, text: str) -> tuple[int, ...]:
        """Tokenize a request's text so that it cannot open or close turns."""
        return tuple(self._plain.encode(text, add_special_tokens=False).ids) if text else ()


def instruction(source_language: str, target: str, terms: tuple[tuple[str, str], ...]) -> str:
    """Return the instruction for the model, in English, which chat models follow best."""
    of = f"from {_named(source_language)} " if source_language else ""
    task = "Translate what" + " the user" + f" says {of}to {_named(target)}."
    task += " Answer with the translation only."
    return f"{task}\nTerms: {'; '.join(f'{a} = {b}' for a, b in terms)}" if terms else task


def _named(code: str) -> str:
    return NAMES.get(code) or f"the language with the ISO 639-1 code {code}"


def _following(answer: str, draft: str) -> str:
    """Return a draft as the text after an answer without its final space."""
    return f" {draft.lstrip()}" if draft and answer != answer.rstrip() else draft


def _tokenizer(path: Path) -> Any:
    try:
        found = AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"the tokenizer in {path} cannot be loaded: {error}") from None
    if not getattr(found, "is_fast", False):
        raise CheckpointError(f"{path} has no tokenizer.json, which a translator needs")
    if not found.chat_template:
        raise CheckpointError(f"the tokenizer in {path} has no chat template")
    return found
