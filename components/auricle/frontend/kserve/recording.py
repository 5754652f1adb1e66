"""The message of `ModelInfer`: parsed, checked and written to disk, in a worker thread."""

from __future__ import annotations

from functools import partial

from auricle.audio.wav import wav_header
from auricle.errors import UnsupportedValue
from auricle.frontend.doors.rpc.schema import parsed
from auricle.frontend.kserve.answers import PACKAGE, whole_text
from auricle.frontend.kserve.asking import asked_by
from auricle.frontend.kserve.tensors import audio_of, pcm_of
from auricle.frontend.recordings.received import Received, stored

RAW_FIELD = 7  # raw_input_contents


def received(data: bytes) -> Received:
    """Take a ModelInferRequest. Samples get a WAV header, so that they can be decoded as a file.

    Raises BadRequest, naming what is wrong, and StorageFull.
    """
    request = parsed(f"{PACKAGE}.ModelInferRequest", data, bulk=RAW_FIELD)
    asked = asked_by(request)
    if asked.sequence is not None:
        raise UnsupportedValue(
            "sequence_id is for ModelStreamInfer; ModelInfer takes a whole recording", "sequence_id"
        )
    datatype, content = audio_of(request)
    options = asked.options
    if datatype == "BYTES":
        file = stored(content)
    else:
        samples = pcm_of(datatype, content)
        file = stored(wav_header("pcm_s16le", options.sample_rate, len(samples)), samples)
    return Received(
        file,
        len(content),
        partial(whole_text, asked),
        asked.model,
        options.language,
        options.context,
        options.silence_ms,
        asked.warnings,
    )
