"""The message of `Recognize`: parsed, checked and written to disk, in a worker thread."""

from __future__ import annotations

from auricle.audio.wav import is_wav, wav_header
from auricle.frontend.doors.rpc.schema import parsed
from auricle.frontend.recordings.received import Received, stored
from auricle.frontend.riva.options import audio_format, parse_config
from auricle.frontend.riva.results import PACKAGE, Results
from auricle.text_bounds import EVENT_ID, check

_AUDIO_FIELD = 2


def received(data: bytes) -> Received:
    """Take a RecognizeRequest. Samples get a WAV header, so that they can be decoded as a file.

    Raises BadRequest, naming what is wrong, and StorageFull.
    """
    message = parsed(f"{PACKAGE}.RecognizeRequest", data, bulk=_AUDIO_FIELD)
    request = message.id.value if message.HasField("id") else None
    check("id", request, EVENT_ID)
    options = parse_config(message.config, streaming=False)
    audio: bytes = message.audio
    header = b""
    if options.encoding is not None and not is_wav(audio):
        header = wav_header(*audio_format(options, None), len(audio))
    return Received(
        stored(header, audio),
        len(audio),
        Results(request, options.word_offsets).recording,
        options.model,
        options.language,
        options.context,
        options.silence_ms,
        options.warnings,
        grid_words=True,
        words=options.word_offsets,
    )
