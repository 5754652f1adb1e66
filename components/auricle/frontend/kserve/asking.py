"""What an inference request asks for, besides its audio. No I/O.

What changes the text is honoured or refused. What does not is taken, and `warnings` name it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import field
from msgspec.structs import replace

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import UnsupportedValue
from auricle.frontend.doors.options import (
    Context,
    Language,
    Others,
    SampleRate,
    names,
    read,
    text,
    without_region,
)
from auricle.frontend.kserve.tensors import OUTPUTS
from auricle.live_settings import SilenceMs
from auricle.quoting import quoted
from auricle.text_bounds import EVENT_ID, MODEL, check

VERSION = "1"  # of the only model
_OTHERS = Others(advisory=("priority", "timeout"))
# Every sequence here ends with a response that is marked as its last.
_IMPLIED = "triton_enable_empty_final_response"


class SpeechOptions(msgspec.Struct, frozen=True):
    """`sample_rate` is that of samples, in Hz. Without `silence_ms` the server's endpointing
    applies; with `partials` text comes that may still change."""

    sample_rate: SampleRate = SAMPLE_RATE
    language: Language | None = None
    context: Context = ""
    silence_ms: SilenceMs | None = field(default=None, name="min_silence_ms")
    partials: bool = True


class _Sequence(msgspec.Struct, frozen=True):
    sequence_id: int | Annotated[str, text(EVENT_ID)] | None = None
    sequence_start: bool = False
    sequence_end: bool = False


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
    given.pop(_IMPLIED, None)
    honoured, warnings = _OTHERS.sifted(given, (*names(_Sequence), *names(SpeechOptions)))
    sequence = read(_Sequence, honoured)
    if sequence.sequence_id and not sequence.sequence_start:
        for name in names(SpeechOptions):
            if name in honoured:
                raise UnsupportedValue(f"{name} can be sent with sequence_start only", name)
    options = read(SpeechOptions, honoured)
    return Asked(
        request.model_name,
        request.id,
        _outputs(request),
        sequence.sequence_id or None,
        sequence.sequence_start,
        sequence.sequence_end,
        replace(options, language=without_region(options.language)),
        tuple(warnings),
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
