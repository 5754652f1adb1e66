"""Deepgram's protocols: `/v1/listen`, live and for recordings, and `/v2/listen` for turns."""

from auricle.frontend.capabilities import ProtocolCapabilities

CAPABILITIES = (
    ProtocolCapabilities(
        route="WS /v1/listen",
        page="deepgram.md",
        partials="interim_results",
        turns="speech_final",
        language="language",
        keywords="keyterm",
        words="words",
        confidence="confidence",
        speakers="diarize",
        channels="multichannel",
    ),
    ProtocolCapabilities(
        route="WS /v2/listen",
        page="deepgram.md",
        partials="Update",
        turns="EndOfTurn",
        keywords="keyterm",
        confidence="confidence",
    ),
    ProtocolCapabilities(
        route="POST /v1/listen",
        page="deepgram.md",
        language="language",
        keywords="keyterm",
        words="words",
        confidence="confidence",
        speakers="diarize",
        channels="multichannel",
    ),
)
