"""Sources of training speech: every synthesiser and every person, with their licences.

Most speak English; all are free, from Debian's main, PyPI or npm. `models.training.sources.card`
makes a table of them. Excluded are espeak, whose voices are espeak-ng's; freetts, whose voice is
flite's kal; asterisk's recordings and flite's rms and awb, which the benchmarks use for tests; and
recordings that are not free (TIDIGITS, in pocketsphinx-testdata).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

from models.training.languages import DEFAULT
from models.training.sources import accents, festival, flite, hibari, kokoro, people, pico, piper
from models.training.sources.engines import Engine


@dataclass(frozen=True)
class Source:
    """A synthesiser, or people who were recorded.

    `packages` are Debian's unless marked otherwise, and `fetch` downloads them; espeak-ng comes
    with PyPI's `espeakng-loader`. `voices` are for training; a voice listed twice is used twice as
    often. `held_out` voices are for tests only. `share` is the source's share of the training in
    its `language`; the set `train` makes up the rest. `sentences` is the number of training
    sentences, synthesised at about `pace` a second on one core.
    """

    name: str
    packages: tuple[str, ...]
    licence: str
    who: str
    fetch: Callable[[], object]
    engine: Callable[[], Engine]
    voices: tuple[str, ...]
    held_out: tuple[str, ...]
    share: float
    sentences: int
    pace: float
    language: str = DEFAULT


_PERSONS = people.persons()
SOURCES = {
    source.name: source
    for source in (
        Source(
            "espeak-ng",
            (),
            "GPL-3+",
            "formant synthesis; more accents than the set `train`, and Klatt's synthesiser",
            tuple,
            accents.Accents,
            accents.VOICES,
            (),
            share=0.05,
            sentences=6_400,
            pace=50,
        ),
        Source(
            "flite",
            flite.PACKAGES,
            "BSD-like (Carnegie Mellon University), free for any use",
            "statistical (slt) and diphone (kal, kal16) voices",
            flite.fetch,
            flite.Flite,
            ("slt", "kal", "kal16"),
            ("rms", "awb"),
            share=0.15,
            sentences=9_600,
            pace=12,
        ),
        Source(
            "festival",
            festival.PACKAGES,
            "BSD-like (University of Edinburgh, Carnegie Mellon University), free for any use",
            "diphone voices of two men, a statistical voice (HTS) of a woman",
            festival.fetch,
            festival.Festival,
            ("kal", "ked", "ked", "slt_hts"),
            (),
            share=0.1,
            sentences=6_400,
            pace=3,
        ),
        Source(
            "kokoro",
            kokoro.PACKAGES,
            "Apache-2.0",
            "Kokoro-82M, a neural synthesiser: voices of many languages, and means of two",
            kokoro.fetch,
            kokoro.Kokoro,
            kokoro.TRAINED,
            kokoro.HELD_OUT,
            share=0.2,
            sentences=6_400,
            pace=0.7,
        ),
        Source(
            "hibari",
            hibari.PACKAGES,
            "Apache-2.0",
            "a small network that speaks as one of Kokoro's voices does",
            hibari.fetch,
            hibari.Hibari,
            (hibari.VOICE,),
            (),
            share=0.05,
            sentences=2_560,
            pace=12,
        ),
        Source(
            "piper",
            piper.PACKAGES,
            "CC0 (the voice)",
            "Piper, a neural synthesiser (VITS): a man",
            piper.fetch,
            piper.Piper,
            (piper.VOICE,),
            (),
            share=0.05,
            sentences=2_560,
            pace=3,
        ),
        Source(
            "pico",
            pico.PACKAGES,
            "Apache-2.0",
            "Pico, a statistical synthesiser: a woman each of America and of Britain",
            pico.fetch,
            pico.Pico,
            ("en-US", "en-GB"),
            (),
            share=0.05,
            sentences=2_560,
            pace=25,
        ),
        Source(
            "pico-german",
            pico.PACKAGES,
            "Apache-2.0",
            "Pico in German: a woman",
            pico.fetch,
            pico.Pico,
            ("de-DE",),
            (),
            share=0.25,
            sentences=6_400,
            pace=25,
            language="de",
        ),
        Source(
            "pico-spanish",
            pico.PACKAGES,
            "Apache-2.0",
            "Pico in Spanish: a woman",
            pico.fetch,
            pico.Pico,
            ("es-ES",),
            (),
            share=0.15,
            sentences=6_400,
            pace=25,
            language="es",
        ),
        Source(
            "kokoro-spanish",
            kokoro.PACKAGES,
            "Apache-2.0",
            "Kokoro-82M in Spanish, voices of romance languages",
            kokoro.fetch,
            kokoro.Spanish,
            kokoro.SPANISH,
            kokoro.SPANISH_HELD_OUT,
            share=0.2,
            sentences=2_560,
            pace=1.2,
            language="es",
        ),
        Source(
            "people",
            tuple(dict.fromkeys(person.package for person in _PERSONS.values())),
            "; ".join(dict.fromkeys(person.licence for person in _PERSONS.values())),
            "people who recorded single words",
            people.fetch,
            people.People,
            tuple(name for name, person in _PERSONS.items() if not person.held_out),
            tuple(name for name, person in _PERSONS.items() if person.held_out),
            share=0.1,
            sentences=6_400,
            pace=12,
        ),
    )
}


def speaking(languages: Collection[str]) -> tuple[str, ...]:
    """Return the sources that speak one of these languages."""
    return tuple(name for name, source in SOURCES.items() if source.language in languages)


@lru_cache
def engine(name: str) -> Engine:
    """Return a source's engine, one per process. Raises KeyError for an unknown source."""
    return SOURCES[name].engine()
