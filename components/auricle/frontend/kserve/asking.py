"""What an inference request asks for, besides its audio. No I/O.

What changes the text is honoured or refused. What does not is taken, and `warnings` name it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from auricle.audio.constants import SAMPLE_RATE
from auricle.audio.decode import MAX_RATE, MIN_RATE
from auricle.errors import UnsupportedValue
from auricle.frontend.kserve.tensors import OUTPUTS
from auricle.live_settings import MAX_SILENCE_MS, MIN_SILENCE_MS
from auricle.quoting import escaped, quoted
from auricle.text_bounds import CONTEXT, EVENT_ID, LANGUAGE, MODEL, check

VERSION = "1"  # of the only model
_SEQUENCE = ("sequence_id", "sequence_start", "sequence_end")
_ADVISORY = ("priority", "timeout")
# Every sequence here ends with a response that is marked as its last.
_IMPLIED = "triton_enable_empty_final_response"


@dataclass(frozen=True)
class SpeechOptions:
    """`sample_rate` is that of samples, in Hz. Without `silence_ms` the server's endpointing
    applies; with `partials` text comes that may still change."""

    sample_rate: int = SAMPLE_RATE
    language: str | None = None
    context: str = ""
    silence_ms: int | None = None
    partials: bool = True


@dataclass(frozen=True)
class Asked:
    """One request: `request` is its id, `outputs` are those that it wants.

    `sequence` is the id of the sequence that it is of, None without. Only a request that `starts`
    its sequence has `options` of its own.
    """

    model: str
    request: str
    outputs: tuple[str, ...]
    sequence: int | str | None
    starts: bool
    ends: bool
    options: SpeechOptions
    warnings: tuple[str, ...]


def asked_by(request: Any) -> Asked:
    """Return what a ModelInferRequest asks for. Raises UnsupportedValue, naming what is wrong."""
    check("model_name", request.model_name, MODEL)
    check("id", request.id, EVENT_ID)
    if request.model_version not in ("", VERSION):
        raise UnsupportedValue(
            f"model_version {quoted(request.model_version)} does not exist; there is '{VERSION}'",
            "model_version",
        )
    given = {name: _value(parameter) for name, parameter in request.parameters.items()}
    for name in given:
        if name not in (*_SEQUENCE, *_OPTIONS, *_ADVISORY, _IMPLIED):
            known = ", ".join([*_SEQUENCE, *_OPTIONS])
            raise UnsupportedValue(
                f"the parameter {escaped(name)} is not supported; supported: {known}", escaped(name)
            )
    options = {name: taken for name, taken in _OPTIONS.items() if name in given}
    sequence, starts = _sequence(given), _switch("sequence_start", given)
    if sequence is not None and not starts:
        for name in options:
            raise UnsupportedValue(f"{name} can be sent with sequence_start only", name)
    return Asked(
        request.model_name,
        request.id,
        _outputs(request),
        sequence,
        starts,
        _switch("sequence_end", given),
        SpeechOptions(**dict(taken(name, given[name]) for name, taken in options.items())),
        tuple(f"{name} has no effect" for name in _ADVISORY if given.get(name)),
    )


def unasked(request: Any) -> Asked:
    """Return what can be said of a request about which nothing was checked yet."""
    given = request.parameters.get("sequence_id")
    sequence = None if given is None else _value(given)
    if not isinstance(sequence, int | str) or isinstance(sequence, bool):
        sequence = None
    elif isinstance(sequence, str):
        sequence = sequence[:EVENT_ID]
    return Asked(
        request.model_name[:MODEL],
        request.id[:EVENT_ID],
        tuple(OUTPUTS),
        sequence or None,
        starts=False,
        ends=False,
        options=SpeechOptions(),
        warnings=(),
    )


def _value(parameter: Any) -> Any:
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)


def _sequence(given: dict[str, Any]) -> int | str | None:
    found = given.get("sequence_id")
    if isinstance(found, str):
        check("sequence_id", found, EVENT_ID)
        return found or None
    if found is not None and type(found) is not int:
        raise _wrong("sequence_id", found, "a whole number or text")
    return found or None


def _switch(name: str, given: dict[str, Any]) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def _outputs(request: Any) -> tuple[str, ...]:
    for output in request.outputs:
        if output.name not in OUTPUTS:
            raise UnsupportedValue(
                f"the output {quoted(output.name)} is not supported; "
                f"supported: {', '.join(OUTPUTS)}"
            )
        for name in output.parameters:
            raise UnsupportedValue(
                f"the parameter {quoted(name)} of the output {output.name} is not supported"
            )
    wanted = dict.fromkeys(output.name for output in request.outputs)
    return tuple(wanted) or tuple(OUTPUTS)


# ── options: each returns its name in SpeechOptions, and the value ──────────


def _number(low: int, high: int, field: str) -> Callable[[str, Any], tuple[str, Any]]:
    def taken(name: str, value: Any) -> tuple[str, Any]:
        if type(value) is not int or not low <= value <= high:
            raise _wrong(name, value, f"a whole number from {low} to {high}")
        return field, value

    return taken


def _text(most: int) -> Callable[[str, Any], tuple[str, Any]]:
    def taken(name: str, value: Any) -> tuple[str, Any]:
        if not isinstance(value, str):
            raise _wrong(name, value, "text")
        check(name, value, most)
        return name, value

    return taken


def _language(name: str, value: Any) -> tuple[str, Any]:
    _, text = _text(LANGUAGE)(name, value)
    return name, None if text in ("", "multi") else text.partition("-")[0]


def _partials(name: str, value: Any) -> tuple[str, Any]:
    return name, _switch(name, {name: value})


_OPTIONS: dict[str, Callable[[str, Any], tuple[str, Any]]] = {
    "sample_rate": _number(MIN_RATE, MAX_RATE, "sample_rate"),
    "language": _language,
    "context": _text(CONTEXT),
    "min_silence_ms": _number(MIN_SILENCE_MS, MAX_SILENCE_MS, "silence_ms"),
    "partials": _partials,
}


def _wrong(name: str, value: Any, right: str) -> UnsupportedValue:
    return UnsupportedValue(
        f"the parameter {name} {quoted(value)} cannot be used: it must be {right}", name
    )
