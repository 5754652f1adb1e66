"""Options are parsed with tables: accepted values, and errors for others."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from auricle.core.errors import ProtocolError, UnsupportedValue
from auricle.frontend.transport.options import (
    LENIENT_SWITCHES,
    SWITCHES,
    Language,
    Others,
    gathered,
    one_of,
    read,
    read_query,
)

pytestmark = pytest.mark.unit


class Square(msgspec.Struct, frozen=True, tag="square", forbid_unknown_fields=True):
    side: Annotated[int, Meta(ge=1)]


class Circle(msgspec.Struct, frozen=True, tag="circle", forbid_unknown_fields=True):
    radius: float


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=2, le=8)] | None = None
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    loud: bool = False
    colour: Literal["blue", "green", "red"] = "red"
    kind: Annotated[str, one_of(("b", "a"))] = "a"
    language: Language | None = None
    languages: Annotated[tuple[Language, ...], Meta(max_length=2)] = ()
    shape: Square | Circle | None = None
    either: int | Language | None = None
    terms: dict[str, dict[str, str]] = {}


OTHERS = Others({"slow": "it is fast"}, ("idle", "tag"), ("tag",))


@pytest.mark.parametrize(
    ("given", "said", "param"),
    [
        ({"size": 9}, "size 9 cannot be used: it must be a whole number from 2 to 8", "size"),
        ({"size": True}, "size True cannot be used: it must be a whole number from 2 to 8", "size"),
        ({"share": float("nan")}, "share nan cannot be used: it must be a number from 0", "share"),
        ({"loud": "loud"}, "loud 'loud' cannot be used: it must be true or false", "loud"),
        ({"colour": "x"}, "colour 'x' cannot be used: it must be one of blue, green", "colour"),
        ({"kind": "ab"}, "kind 'ab' cannot be used: it must be b or a", "kind"),
        ({"language": 1}, "language 1 cannot be used: it must be text", "language"),
        ({"language": "x" * 33}, "language has 33 characters, at most 32", "language"),
        ({"language": "a\0"}, "language has a null character at position 1", "language"),
        ({"languages": ["de", 7]}, "languages 7 cannot be used: it must be text", "languages"),
        ({"languages": ["a", "b", "c"]}, "languages has 3 entries, at most 2", "languages"),
        ({"languages": "de"}, "languages 'de' cannot be used: it must be a JSON list", "languages"),
        ({"shape": {"type": "x"}}, "shape.type 'x' cannot be used: it must be ", "shape.type"),
        ({"shape": {"side": 1}}, "shape.type is missing", "shape.type"),
        ({"shape": {"type": "square", "side": 0}}, "must be a whole number of at least 1",
         "shape.side"),
        ({"shape": {"type": "circle"}}, "shape.radius is missing", "shape.radius"),
        ({"shape": {"type": "circle", "side": 1}}, "shape.side is not supported; supported: radius",
         "shape.side"),
        ({"shape": 3}, "shape 3 cannot be used: it must be an object", "shape"),
        ({"either": 1.5}, "either 1.5 cannot be used: it must be a whole number or text", "either"),
        ({"either": "x" * 33}, "either has 33 characters, at most 32", "either"),
        ({"terms": {"de": {"a": 1}}}, "an object whose values are each an object", "terms"),
        ({"sise": 3}, "sise is not supported; supported: colour, either, kind", "sise"),
        ({"a` - at `$.size": 3}, "is not supported; supported: ", "size.a"),
        ({"a` - at `$.languages.a": 3, "languages": []}, "is not supported", "languages.a"),
        ({"a` - at `$.languages[7]": 3, "languages": []}, "is not supported", "languages.a"),
        ({"a` - at `$.shape.b.c": 3, "shape": {}}, "is not supported", "shape.b.a"),
        ({"a\ud800": 3}, "a? is not supported; supported: colour", "a?"),
        ({"colour": "\ud800"}, "colour '?' cannot be used: it must be one of blue", "colour"),
    ],
)  # fmt: skip
def test_an_error_names_the_option_its_value_and_what_is_right(
    given: dict[str, Any], said: str, param: str
) -> None:
    with pytest.raises(ProtocolError) as refused:
        read(Table, given, ProtocolError)
    assert said in str(refused.value)
    assert refused.value.param == param


def test_text_is_converted() -> None:
    given = {
        **{"size": "8.0", "share": ".25", "loud": "TRUE", "languages": '["de", "en"]'},
        "shape": {"type": "square", "side": "3"},
    }
    assert read(Table, given, switches=SWITCHES) == Table(
        size=8, share=0.25, loud=True, languages=("de", "en"), shape=Square(3)
    )
    assert read(Table, {"loud": "on", "size": 4.0}, switches=LENIENT_SWITCHES).loud


def test_null_and_in_text_nothing_leave_an_option_out() -> None:
    nulls = dict.fromkeys(("size", "share", "loud", "colour", "kind", "languages"))
    assert read(Table, nulls) == Table()
    assert read(Table, {"shape": {"type": "square", "side": 2}, "terms": None}).shape == Square(2)
    nothing = dict.fromkeys(("size", "share", "loud", "colour", "kind", "language"), "")
    assert read(Table, nothing, switches=SWITCHES) == Table()
    with pytest.raises(UnsupportedValue, match=r"shape\.side is missing"):
        read(Table, {"shape": {"type": "square", "side": None}})
    with pytest.raises(UnsupportedValue, match="sise is not supported"):
        read(Table, {"sise": None})


@pytest.mark.parametrize("given", [{"size": "8_0"}, {"size": "9" * 5_000}, {"size": "٣"}])
def test_what_is_no_number_is_shown_as_it_was_given(given: dict[str, str]) -> None:
    with pytest.raises(UnsupportedValue, match=r"size '.*cannot be used"):
        read(Table, given, switches=SWITCHES)


def test_options_without_effect_are_refused_or_warned_of() -> None:
    table, warnings = read_query(Table, {"idle": "1", "slow": "False", "tag": ["", "x"]}, OTHERS)
    assert (table, warnings) == (Table(), ["idle has no effect", "tag has no effect"])
    with pytest.raises(UnsupportedValue, match="slow is not supported: it is fast"):
        read_query(Table, {"slow": "1"}, OTHERS)


def test_an_option_is_given_once_unless_it_is_a_list() -> None:
    assert gathered([("tag", "a"), ("tag", "b"), ("c", "d")], ["tag"]) == {
        "tag": ["a", "b"],
        "c": "d",
    }
    with pytest.raises(UnsupportedValue, match="c was given 2 times"):
        gathered([("c", "a"), ("c", "b")])
