"""The options of a request, which Deepgram's clients send as the URL's query. No I/O.

What changes the text is honoured or refused. What does not is taken, and the answer's `warnings`
say that it had no effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from auricle.errors import UnsupportedValue
from auricle.quoting import escaped, quoted
from auricle.text_bounds import CONTEXT, LANGUAGE, MODEL, check, query_pairs

# Options that may be switched off. What they would add or write is not to be had here.
REFUSED: Mapping[str, str] = {
    "alternatives": "there is one transcript",
    "callback": "results are the answer to the request itself",
    "dictation": "the model writes what is said",
    "measurements": "the model writes what is said",
    "numerals": "the model writes numbers as it learnt to",
    "profanity_filter": "the model writes what is said",
    "redact": "the model writes what is said",
    "replace": "the model writes what is said",
}
_OFF = {"alternatives": ("1",)}
# They ask for what the model does or does not do by itself, or are not about the text.
ADVISORY = (
    *("punctuate", "smart_format", "filler_words", "paragraphs", "utterances", "language_hint"),
    *("diarize", "diarize_model", "detect_entities", "search"),
    *("no_delay", "callback_method", "mip_opt_out", "tag", "extra", "version", "tier"),
)
_REPEATED = frozenset(
    (
        *("keyterm", "keywords", "language_hint", "redact", "replace", "search", "tag", "extra"),
        *("custom_topic", "custom_intent"),
    )
)


class Given:
    """The options of one query, and warnings about them. All methods raise BadRequest."""

    def __init__(
        self,
        query: str,
        honoured: Collection[str],
        advisory: Collection[str] = ADVISORY,
        refused: Mapping[str, str] = REFUSED,
    ) -> None:
        """`refused` says of each option why it cannot be switched on."""
        values: dict[str, list[str]] = defaultdict(list)
        for name, value in query_pairs(query):
            values[name].append(value)
        known = {*honoured, *advisory}
        for name, several in values.items():
            if name not in known and name not in refused:
                raise UnsupportedValue(
                    f"{escaped(name)} is not supported; supported: {', '.join(sorted(known))}",
                    escaped(name),
                )
            if len(several) > 1 and name not in _REPEATED:
                raise UnsupportedValue(f"{name} was given {len(several)} times", name)
        self._values: Mapping[str, Sequence[str]] = values
        self._advisory = advisory
        self.warnings: list[str] = []
        for name, instead in refused.items():
            if not self.off(name, _OFF.get(name, ())):
                raise UnsupportedValue(f"{name} is not supported: {instead}", name)

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """`warnings`, and a sentence on each option that has no effect."""
        idle = (f"{name} has no effect" for name in self._advisory if not self.off(name))
        return (*self.warnings, *idle)

    def all(self, name: str) -> Sequence[str]:
        """Return all values of an option that may come again."""
        return self._values.get(name, ())

    def one(self, name: str) -> str | None:
        """Return an option's value."""
        return next(iter(self.all(name)), None)

    def off(self, name: str, values: Sequence[str] = ()) -> bool:
        """Whether an option is missing, or switched off by `false` or one of `values`."""
        return all(value.lower() in ("", "false", *values) for value in self.all(name))

    def flag(self, name: str) -> bool:
        """Return an option that is true or false; false if it is missing."""
        value = self.one(name)
        # Python's clients write `True`.
        if value is not None and value.lower() not in ("true", "false"):
            raise wrong(name, value, "true or false")
        return value is not None and value.lower() == "true"

    def number(self, name: str, low: int, high: int) -> int | None:
        """Return a whole number within bounds, if it was given."""
        value = self.one(name)
        if value is None:
            return None
        number = whole(value)
        if number is None or not low <= number <= high:
            raise wrong(name, value, f"a whole number from {low} to {high}")
        return number

    def model(self) -> str | None:
        """Return the model's name."""
        model = self.one("model")
        check("model", model, MODEL)
        return model

    def language(self) -> str | None:
        """Return the language without its region; None to detect it."""
        language = self.one("language")
        check("language", language, LANGUAGE)
        if self.flag("detect_language") or language in (None, "", "multi"):
            return None
        return language.split("-")[0]

    def context(self) -> str:
        """Return the terms that the client expects, as context for the model."""
        terms = list(self.all("keyterm"))
        for keyword in self.all("keywords"):
            word, colon, weight = keyword.rpartition(":")
            if not colon or not _is_weight(weight):
                terms.append(keyword)
                continue
            if weight.startswith("-"):
                raise UnsupportedValue(
                    f"keywords {quoted(keyword)} cannot be used: words cannot be made less likely",
                    "keywords",
                )
            terms.append(word)
            if not self.warnings or "weights" not in self.warnings[-1]:
                self.warnings.append("weights of keywords have no effect: all are context alike")
        context = ", ".join(terms)
        check("keyterm and keywords", context, CONTEXT)
        return context


def whole(text: str) -> int | None:
    """Return a whole number of at most nine digits, else None."""
    # Bounded, as Python reads a number of many digits slowly.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def wrong(name: str, value: str | None, right: str) -> UnsupportedValue:
    """Return the error of a value that cannot be used; `right` says what could be."""
    return UnsupportedValue(f"{name} {quoted(value)} cannot be used: it must be {right}", name)


def _is_weight(text: str) -> bool:
    number = text.removeprefix("-").replace(".", "", 1)
    return number.isascii() and number.isdigit()
