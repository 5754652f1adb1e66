"""ISO 639-1 codes of the languages Qwen3-ASR names in its answers.

Source: the model cards of Qwen3-ASR-0.6B and -1.7B (30 languages). `yue` and `fil`
have no two-letter code.
"""

from __future__ import annotations

NAMES = {
    "zh": "Chinese",
    "en": "English",
    "yue": "Cantonese",
    "ar": "Arabic",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "pt": "Portuguese",
    "id": "Indonesian",
    "it": "Italian",
    "ko": "Korean",
    "ru": "Russian",
    "th": "Thai",
    "vi": "Vietnamese",
    "ja": "Japanese",
    "tr": "Turkish",
    "hi": "Hindi",
    "ms": "Malay",
    "nl": "Dutch",
    "sv": "Swedish",
    "da": "Danish",
    "fi": "Finnish",
    "pl": "Polish",
    "cs": "Czech",
    "fil": "Filipino",
    "fa": "Persian",
    "el": "Greek",
    "hu": "Hungarian",
    "mk": "Macedonian",
    "ro": "Romanian",
}

FAMILY = tuple(NAMES.values())
_CODES = {name: code for code, name in NAMES.items()}


def language_name(language: str) -> str:
    """Return the name for `en`, `en-US` or `english`; an unknown language is only capitalised."""
    code = language.strip().lower()
    return NAMES.get(code) or NAMES.get(code.partition("-")[0]) or code.capitalize()


def language_code(name: str) -> str | None:
    """Return the code of a language by the name that the model writes; None for an unknown one."""
    return _CODES.get(name)
