"""Random sentences from rules that are data.

A rule has one of these forms:

- `"the {noun} is {red|blue}"`: a template. `{noun}` is a word of that group or the output of that
  rule, `{red|blue}` one of the two. Slots are drawn from left to right.
- `["", "{adjective}"]`: one of the entries. All are evaluated, then one is chosen.
- `{one_of: ["{thing}", "{place}"]}`: one of the entries. Only that entry is evaluated.
- `{by_chance: [[0.4, "{digit}"], [1, "{ten}"]]}`: the first entry whose number is above a draw from
  [0, 1).
- `{draw: {tail: "on {day}"}, say: "he goes {tail}"}`: evaluates `tail` first and inserts it later.
- `{repeat: "{digits}", from: 3, to: 7}`: a random number of repetitions within these limits.

A seed always gives the same sentences, as long as the order of the draws is unchanged: corpora are
regenerated from their seeds.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

Rule = str | list[Any] | dict[str, Any]
_SLOT = re.compile(r"\{([^{}]*)\}")
_FORMS = ({"one_of"}, {"by_chance"}, {"draw", "say"}, {"repeat", "from", "to"})


class Grammar:
    """Groups of words and rules; `sentences` names the rules that are whole sentences.

    `groups` are those words, `literals` the words in the rules themselves. Raises ValueError for
    a rule of unknown form, and for a slot that is neither a group nor a rule nor drawn before.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[str]],
        rules: Mapping[str, Rule],
        sentences: Sequence[str],
    ) -> None:
        self.groups, self._rules, self._sentences = groups, rules, sentences
        if both := groups.keys() & rules.keys():
            raise ValueError(f"both a group of words and a rule: {sorted(both)}")
        if unknown := set(sentences) - rules.keys():
            raise ValueError(f"sentences without a rule: {sorted(unknown)}")
        self.literals: set[str] = set()
        for name, rule in rules.items():
            try:
                self._check(rule, frozenset())
            except ValueError as error:
                raise ValueError(f"rule {name!r}: {error}") from None

    def sentence(self, dice: random.Random) -> str:
        """Return one sentence of words with single spaces between them."""
        return " ".join(self._said(self._rules[dice.choice(self._sentences)], dice, {}).split())

    def _said(self, rule: Rule, dice: random.Random, drawn: Mapping[str, str]) -> str:
        if isinstance(rule, str):
            return _SLOT.sub(lambda slot: self._slot(slot[1], dice, drawn), rule)
        if isinstance(rule, list):
            return dice.choice([self._said(one, dice, drawn) for one in rule])
        if "one_of" in rule:
            return self._said(dice.choice(rule["one_of"]), dice, drawn)
        if "by_chance" in rule:
            chance = dice.random()
            return self._said(next(r for to, r in rule["by_chance"] if chance < to), dice, drawn)
        if "repeat" in rule:
            times = dice.randint(rule["from"], rule["to"])
            return " ".join(self._said(rule["repeat"], dice, drawn) for _ in range(times))
        before = dict(drawn)
        for name, one in rule["draw"].items():
            before[name] = self._said(one, dice, before)
        return self._said(rule["say"], dice, before)

    def _slot(self, name: str, dice: random.Random, drawn: Mapping[str, str]) -> str:
        if name in drawn:
            return drawn[name]
        if "|" in name:
            return dice.choice(name.split("|"))
        if name in self.groups:
            return dice.choice(self.groups[name])
        return self._said(self._rules[name], dice, {})

    def _check(self, rule: Rule, drawn: frozenset[str]) -> None:
        """Raise ValueError if `rule` is invalid; add its own words to `literals`."""
        if isinstance(rule, str):
            self._check_template(rule, drawn)
        elif isinstance(rule, list):
            for one in rule:
                self._check(one, drawn)
        elif set(rule) not in _FORMS:
            forms = "; ".join(", ".join(sorted(form)) for form in _FORMS)
            raise ValueError(f"has {sorted(rule)}, where these go together: {forms}")
        elif "draw" in rule:
            for name, one in rule["draw"].items():
                self._check(one, drawn)
                drawn |= {name}
            self._check(rule["say"], drawn)
        elif "by_chance" in rule:
            if rule["by_chance"][-1][0] != 1:
                raise ValueError("the last number of by_chance must be 1")
            self._check([one for _, one in rule["by_chance"]], drawn)
        else:
            self._check(rule.get("one_of") or rule["repeat"], drawn)

    def _check_template(self, template: str, drawn: frozenset[str]) -> None:
        self.literals |= set(_SLOT.sub(" ", template).split())
        for name in _SLOT.findall(template):
            if "|" in name:
                self.literals |= set(name.replace("|", " ").split())
            elif name not in {*drawn, *self.groups, *self._rules}:
                raise ValueError(f"{{{name}}} is neither a group of words nor a rule")
