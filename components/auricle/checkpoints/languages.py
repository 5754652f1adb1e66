"""Codes and names of languages, as models have them and as clients write them. No I/O.

Codes are ISO 639-1, or the model's own code where ISO 639-1 has none.

Sources: the model cards of Qwen3-ASR-0.6B and -1.7B (30 languages), and the tokens of Whisper's
tokenizer (99 languages; large-v3 has Cantonese as well). `yue` and `fil` have no two-letter code;
Whisper writes `jw` for Javanese.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_WHISPER = """
en English, zh Chinese, de German, es Spanish, ru Russian, ko Korean, fr French, ja Japanese,
pt Portuguese, tr Turkish, pl Polish, ca Catalan, nl Dutch, ar Arabic, sv Swedish, it Italian,
id Indonesian, hi Hindi, fi Finnish, vi Vietnamese, he Hebrew, uk Ukrainian, el Greek, ms Malay,
cs Czech, ro Romanian, da Danish, hu Hungarian, ta Tamil, no Norwegian, th Thai, ur Urdu,
hr Croatian, bg Bulgarian, lt Lithuanian, la Latin, mi Maori, ml Malayalam, cy Welsh, sk Slovak,
te Telugu, fa Persian, lv Latvian, bn Bengali, sr Serbian, az Azerbaijani, sl Slovenian,
kn Kannada, et Estonian, mk Macedonian, br Breton, eu Basque, is Icelandic, hy Armenian, ne Nepali,
mn Mongolian, bs Bosnian, kk Kazakh, sq Albanian, sw Swahili, gl Galician, mr Marathi, pa Punjabi,
si Sinhala, km Khmer, sn Shona, yo Yoruba, so Somali, af Afrikaans, oc Occitan, ka Georgian,
be Belarusian, tg Tajik, sd Sindhi, gu Gujarati, am Amharic, yi Yiddish, lo Lao, uz Uzbek,
fo Faroese, ht Haitian Creole, ps Pashto, tk Turkmen, nn Nynorsk, mt Maltese, sa Sanskrit,
lb Luxembourgish, my Myanmar, bo Tibetan, tl Tagalog, mg Malagasy, as Assamese, tt Tatar,
haw Hawaiian, ln Lingala, ha Hausa, ba Bashkir, jw Javanese, su Sundanese, yue Cantonese
"""
_ASR = "zh en yue ar de fr es pt id it ko ru th vi ja tr hi ms nl sv da fi pl cs fil fa el hu mk ro"
WHISPER_NAMES = dict(one.split(" ", 1) for one in _WHISPER.strip().replace(",\n", ", ").split(", "))
_KNOWN = WHISPER_NAMES | {"fil": "Filipino"}
NAMES = {code: _KNOWN[code] for code in _ASR.split()}

ENGLISH = NAMES["en"]
FAMILY = tuple(NAMES.values())
_ALL = WHISPER_NAMES | NAMES
_CODES = {name: code for code, name in _ALL.items()}
_NAMES = {name.lower(): name for name in _CODES}
# Further codes of ISO 639 and names that clients write.
_ALIASES = {
    **{"jv": "Javanese", "iw": "Hebrew", "nb": "Norwegian", "cmn": "Chinese"},
    **{"mandarin": "Chinese", "farsi": "Persian", "burmese": "Myanmar", "flemish": "Dutch"},
}
_REGION = re.compile(r"[-_.@]")
# What clients write to have the language detected.
_DETECTED = ("", "auto", "detect", "multi")


def spoken_language(given: str | None) -> str | None:
    """Return the code of the language that a client asks for; None to detect it.

    A language without a code has its name.
    """
    name = language_name(given or "")
    return None if name.lower() in _DETECTED else language_code(name) or name


def language_name(language: str) -> str:
    """Return the name for `en`, `en-US`, `en_US` or `english`; other text stays unchanged."""
    text = language.strip()
    code = text.lower()
    for known in (code, _REGION.split(code, maxsplit=1)[0]):
        if found := _ALL.get(known) or _NAMES.get(known) or _ALIASES.get(known):
            return found
    return text


def target_code(language: str) -> str:
    """Return the code of a language by its code or name; unknown text only in lower case."""
    name = language_name(language)
    return language_code(name) or name.lower()


def supported_language(language: str, supported: Iterable[str]) -> str | None:
    """Return the one of the names `supported` that `language` means; None if it means another."""
    name = language_name(language).lower()
    return next((one for one in supported if one.lower() == name), None)


def described_languages(names: Iterable[str]) -> str:
    """Return a list of languages for an error message, with their codes."""
    coded = ((_CODES.get(name), name) for name in names)
    return ", ".join(name if code is None else f"{code} ({name})" for code, name in coded)


def language_code(name: str) -> str | None:
    """Return the code of a language by its name; None for an unknown one."""
    return _CODES.get(name)
