"""The demo model's language: a word list and a small random grammar over it.

Homophones (to/two/too, for/four, one/won …) are left out on purpose, so that
word error rate measures hearing and not spelling.
"""

from __future__ import annotations

import random

DIGITS = "zero one two three four five six seven eight nine".split()
TEENS = ("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen").split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()

WORDS: dict[str, list[str]] = {
    "owner": "my your his our their".split(),
    "person": "mother father sister brother friend teacher doctor neighbour child".split(),
    "name": "anna peter maria david laura thomas".split(),
    "animal": "dog cat horse bird fish cow chicken mouse rabbit".split(),
    "food": "bread cheese apple orange coffee water milk soup rice sugar egg banana".split(),
    "thing": (
        "book table chair window door letter phone computer key bag box cup "
        "picture lamp clock hat shirt shoe ball bottle"
    ).split(),
    "vehicle": "car train bus bicycle boat plane".split(),
    "place": (
        "house garden kitchen school office market station city village river "
        "mountain forest beach street bridge hospital library"
    ).split(),
    "colour": "red blue green yellow black white brown".split(),
    "adjective": (
        "big small old new happy tired hungry quiet fast slow beautiful warm cold clean empty"
    ).split(),
    "verb_s": "sees wants likes needs finds buys takes brings opens watches".split(),
    "verb": "see want like need find buy take bring open watch".split(),
    "move_s": "goes walks runs drives comes".split(),
    "pronoun_s": "he she it nobody everybody".split(),
    "pronoun": "i you we they".split(),
    "day": "monday tuesday wednesday thursday friday saturday sunday".split(),
    "time": ("today tomorrow yesterday morning evening tonight now always never often").split(),
    "weather": "rain snow wind storm cloud".split(),
    "month": "january april june august october december".split(),
}
GLUE = (
    "the a an is are was very and or but with under on in behind near after before "
    "because when at from of there please what where who how many much not can will no "
    "has have hundred number call turn off light help thank hello goodbye yes minutes "
    "hour"
).split()


def vocabulary() -> list[str]:
    """All words, sorted, lower case."""
    words = set(DIGITS) | set(TEENS) | set(TENS) | set(GLUE)
    for group in WORDS.values():
        words.update(group)
    return sorted(words)


class SentenceMaker:
    """Random sentences; the same seed gives the same sentences."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._all = vocabulary()
        self._patterns = [
            self._see,
            self._is,
            self._where,
            self._count,
            self._go,
            self._phone,
            self._time,
            self._weather,
            self._request,
            self._question,
            self._have,
            self._month,
            self._feel,
            self._small_talk,
        ]

    def sentence(self) -> str:
        """One sentence: grammatical three times out of four, else a word list,
        so that the decoder has to listen and cannot rely on grammar alone."""
        if self._random.random() < 0.25:
            return self.word_list(self._random.randint(2, 9))
        return self._random.choice(self._patterns)()

    def word_list(self, count: int) -> str:
        return " ".join(self._random.choice(self._all) for _ in range(count))

    def _w(self, group: str) -> str:
        return self._random.choice(WORDS[group])

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _number(self) -> str:
        kind = self._random.random()
        if kind < 0.4:
            return self._random.choice(DIGITS[1:])
        if kind < 0.6:
            return self._random.choice(TEENS)
        tens = self._random.choice(TENS)
        number = tens if kind < 0.7 else f"{tens} {self._random.choice(DIGITS[1:])}"
        return f"{self._random.choice(DIGITS[1:])} hundred {number}" if kind > 0.93 else number

    def _noun(self) -> str:
        noun = self._w(self._pick("animal", "thing", "vehicle", "thing", "food"))
        adjective = self._pick("", "", self._w("adjective"), self._w("colour"))
        return f"{adjective} {noun}".strip()

    def _someone(self) -> str:
        return self._pick(
            f"{self._w('owner')} {self._w('person')}",
            self._w("name"),
            self._w("pronoun_s"),
            f"the {self._w('person')}",
        )

    def _where_at(self) -> str:
        return f"{self._pick('in', 'near', 'behind', 'at', 'on', 'under')} the " + self._pick(
            self._w("place"), self._w("place"), self._w("thing")
        )

    def _see(self) -> str:
        if self._random.random() < 0.4:
            return f"{self._w('pronoun')} {self._w('verb')} the {self._noun()}"
        return (
            f"{self._someone()} {self._w('verb_s')} {self._pick('the', 'a', 'my')} {self._noun()}"
        )

    def _is(self) -> str:
        return f"the {self._noun()} {self._pick('is', 'was')} {self._where_at()}"

    def _where(self) -> str:
        return f"where is {self._pick('the', 'my', 'your')} {self._noun()}"

    def _count(self) -> str:
        first = f"{self._number()} {self._w('colour')}"
        return f"there are {first} and {self._number()} {self._w('colour')}"

    def _go(self) -> str:
        tail = self._pick("", self._w("time"), f"on {self._w('day')}", f"with {self._w('name')}")
        return f"{self._someone()} {self._w('move_s')} from the {self._w('place')} {tail}".strip()

    def _phone(self) -> str:
        digits = " ".join(self._random.choice(DIGITS) for _ in range(self._random.randint(3, 7)))
        return (
            f"{self._pick('my', 'your', 'the')} {self._pick('number', 'phone number')} is {digits}"
        )

    def _time(self) -> str:
        return self._pick(
            f"the {self._w('vehicle')} comes at {self._number()} in the {self._half_of_day()}",
            f"{self._w('day')} at {self._number()} in the {self._half_of_day()}",
            f"call {self._w('name')} in {self._pick('an hour', self._number() + ' minutes')}",
        )

    def _half_of_day(self) -> str:
        return self._pick("morning", "evening")

    def _weather(self) -> str:
        return f"{self._w('time')} there will be {self._w('weather')}".replace(
            "will be", self._pick("is", "was", "will not", "is no")
        ).replace(" no ", " not ")

    def _request(self) -> str:
        return self._pick(
            f"please turn off the {self._pick('light', 'lamp', 'computer')} {self._where_at()}",
            f"please {self._w('verb')} the {self._noun()}",
            f"can you {self._w('verb')} {self._w('owner')} {self._w('thing')}",
        )

    def _question(self) -> str:
        return self._pick(
            f"how many minutes {self._w('time')}",
            f"what is in the {self._pick(self._w('thing'), self._w('place'))}",
            f"who {self._w('verb_s')} the {self._noun()}",
            f"how much {self._w('food')} will you {self._w('verb')}",
        )

    def _have(self) -> str:
        return (
            f"{self._w('pronoun')} have {self._number()} {self._w('colour')} and a {self._noun()}"
        )

    def _month(self) -> str:
        return f"{self._w('name')} was {self._where_at()} in {self._w('month')}"

    def _feel(self) -> str:
        return (
            f"{self._someone()} is {self._pick('very', 'not', 'always', 'never')} "
            f"{self._w('adjective')} {self._pick('because', 'when', 'and', 'but')} "
            f"the {self._noun()} is {self._w('adjective')}"
        )

    def _small_talk(self) -> str:
        return self._pick(
            f"hello {self._w('name')}",
            f"goodbye {self._w('name')}",
            f"thank you {self._w('name')}",
            f"yes please help {self._w('name')}",
            f"{self._w('name')} and {self._w('name')} are {self._where_at()}",
        )
