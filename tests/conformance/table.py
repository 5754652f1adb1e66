"""The visible result of each behaviour, for each protocol.

A row has up to four parts. First the client's view: how its session or connection ends (the status
of a refused handshake, a close code, a gRPC status), the error's code if it gets one, and final
texts. Then the frontend's log: `session` and an outcome for a session that ended, `client` and a
code for a refused client. The metric of ended sessions agrees with the first of these, unless the
row has a count. Then the protocols, where SOCKETS are the WebSocket protocols with a key at the
handshake, and a remark: "no reason" where a protocol differs from the others without a reason.
"""

from __future__ import annotations

from typing import NamedTuple

SOCKETS = "stream realtime translations listen flux assemblyai vapi"


class Seen(NamedTuple):
    """One cell."""

    client: str
    log: str


TABLE = """
words: speech that silence has ended
  1000 'word' | session done | stream listen flux assemblyai twilio
  1000 'WORD' | session done | translations
  left 'word' | session client_gone | realtime vapi | only the client ends them
  left 'word' | session done | wyoming | a connection has several sessions
  hung up 'word' | session done | audiosocket
  OK 'word' | session done | riva kserve

silence: no words
  1000 | session done | stream translations listen flux assemblyai twilio
  left input_audio_buffer_commit_empty | session client_gone | realtime | it commits nothing
  left | session client_gone | vapi
  left | session done | wyoming
  hung up | session done | audiosocket
  OK | session done | riva kserve

stall: nothing follows speech, which becomes final all the same
  1000 'word' | session done | stream listen flux assemblyai twilio
  1000 'WORD' | session done | translations
  left 'word' | session client_gone | realtime vapi
  left 'word' | session done | wyoming
  hung up 'word' | session done | audiosocket
  OK 'word' | session done | riva kserve

speech after a stall: is a segment of its own
  1000 'word' 'word' | session done | stream listen flux assemblyai twilio
  1000 'WORD' ' WORD' | session done | translations
  left 'word' 'word' | session client_gone | realtime vapi
  left 'word word' | session done | wyoming
  hung up 'word' 'word' | session done | audiosocket
  OK 'word' 'word' | session done | riva kserve

half a sample: at the end of the audio, where it is dropped
  1000 'word' | session done | stream listen flux assemblyai
  1000 'WORD' | session done | translations
  left 'word' | session client_gone | realtime
  left | session client_gone | vapi
  - | - | twilio | its samples have a byte each
  left 'word' | session done | wyoming
  hung up 'word' | session done | audiosocket
  OK 'word' | session done | riva
  OK unsupported_value 'word' | session unsupported_value | kserve | a request has whole samples

audio after the end: is ignored, or belongs to something else
  1000 'word' | session done | stream listen flux assemblyai twilio
  1000 'WORD' | session done | translations
  left 'word' | session client_gone | realtime | another turn
  - | - | vapi riva | no end message, and no messages after the end
  - | - | wyoming kserve | another command, and a request of no sequence
  hung up 'word' | session done | audiosocket

second end: changes nothing
  1000 'word' | session done | stream listen flux assemblyai twilio
  1000 'WORD' | session done | translations
  left input_audio_buffer_commit_empty 'word' | session client_gone | realtime | no turn is open
  - | - | vapi riva kserve
  left 'word' | session done | wyoming
  hung up 'word' | session done | audiosocket

file: in a container, instead of samples
  1008 protocol | session protocol | stream listen flux vapi
  1008 invalid_event | session protocol | translations
  3006 3006 | session protocol | assemblyai
  - | - | realtime twilio | an error leaves the session open, and other samples
  INVALID_ARGUMENT protocol | session protocol | riva
  OK protocol | session protocol | kserve
  closed protocol | session protocol | wyoming
  hung up | session protocol | audiosocket

no key: where there are keys
  http 401 invalid_api_key | client invalid_api_key | stream vapi
  1008 invalid_api_key | client invalid_api_key | realtime translations listen flux
  1008 1008 | client invalid_api_key | assemblyai
  1008 | client invalid_api_key | twilio
  UNAUTHENTICATED invalid_api_key | client invalid_api_key | riva kserve
  - | - | wyoming audiosocket | they have no keys, but a tenant

wrong key:
  http 401 invalid_api_key | client invalid_api_key | stream vapi
  1008 invalid_api_key | client invalid_api_key | realtime translations listen flux
  1008 1008 | client invalid_api_key | assemblyai
  1008 | client invalid_api_key | twilio
  UNAUTHENTICATED invalid_api_key | client invalid_api_key | riva kserve
  - | - | wyoming audiosocket

key for recordings: of another scope
  http 403 forbidden | client forbidden | stream vapi
  1008 forbidden | client forbidden | realtime translations listen flux
  1008 1008 | client forbidden | assemblyai
  1008 | client forbidden | twilio
  PERMISSION_DENIED forbidden | client forbidden | riva kserve
  closed forbidden | client forbidden | wyoming
  hung up | client forbidden | audiosocket

server full: Frontend.max_sessions
  http 503 overloaded | client overloaded | stream vapi
  1013 overloaded | client overloaded | realtime translations listen flux
  1013 1013 | client overloaded | assemblyai
  1013 | client overloaded | twilio
  RESOURCE_EXHAUSTED overloaded | client overloaded | riva
  OK overloaded | client overloaded | kserve
  closed overloaded | client overloaded | wyoming
  hung up | client overloaded | audiosocket

key full: max_sessions of the key; no reason to accept the handshake first
  1013 rate_limited | client rate_limited | stream listen flux vapi
  1013 rate_limit_exceeded | client rate_limited | realtime translations
  1013 1013 | client rate_limited | assemblyai
  1013 | client rate_limited | twilio
  RESOURCE_EXHAUSTED rate_limited | client rate_limited | riva
  OK rate_limited | client rate_limited | kserve
  closed rate_limited | client rate_limited | wyoming
  hung up | client rate_limited | audiosocket

connections of key full: Frontend.max_connections_per_key
  http 429 rate_limited | client rate_limited | stream vapi
  1013 rate_limited | client rate_limited | listen flux
  1013 rate_limit_exceeded | client rate_limited | realtime translations
  1013 1013 | client rate_limited | assemblyai
  1013 | client rate_limited | twilio
  RESOURCE_EXHAUSTED rate_limited | client rate_limited | riva
  OK rate_limited | client rate_limited | kserve
  closed rate_limited | client rate_limited | wyoming
  hung up | client rate_limited | audiosocket

audio of key used: a session that runs is slowed down, and another refused
  1013 rate_limited | client rate_limited | stream listen flux vapi
  1013 rate_limit_exceeded | client rate_limited | realtime translations
  1013 1013 | client rate_limited | assemblyai
  1013 | client rate_limited | twilio
  RESOURCE_EXHAUSTED rate_limited | client rate_limited | riva
  OK rate_limited | client rate_limited | kserve
  closed rate_limited | client rate_limited | wyoming
  hung up | client rate_limited | audiosocket

server draining: before the client came
  http 503 overloaded | client overloaded | stream vapi twilio
  1013 overloaded | client overloaded | realtime translations listen flux
  1013 1013 | client overloaded | assemblyai
  UNAVAILABLE overloaded | client overloaded | riva
  UNAVAILABLE overloaded | client overloaded | kserve
  closed overloaded | client overloaded | wyoming
  hung up | client overloaded | audiosocket

pool missing: no PD worker is running
  http 503 unavailable | client unavailable | stream vapi
  1011 unavailable | client unavailable | realtime translations listen flux
  3005 3005 | client unavailable | assemblyai
  1011 | client unavailable | twilio
  UNAVAILABLE unavailable | client unavailable | riva
  OK unavailable | client unavailable | kserve
  closed unavailable | client unavailable | wyoming
  hung up | client unavailable | audiosocket

no start: the client sends nothing
  1008 deadline | session deadline | stream realtime translations vapi
  1011 no_audio | session no_audio | listen flux
  4031 4031 | session deadline | assemblyai
  1008 | client deadline | twilio
  DEADLINE_EXCEEDED deadline | session deadline | riva
  DEADLINE_EXCEEDED deadline | client deadline | kserve
  closed deadline | client deadline | wyoming
  hung up | client deadline | audiosocket

idle: nothing follows speech; its text comes before the error
  1008 deadline 'word' | session deadline | stream realtime vapi
  1008 deadline 'WORD' | session deadline | translations
  1011 no_audio 'word' | session no_audio | listen flux
  4031 4031 'word' | session deadline | assemblyai
  1008 'word' | session deadline | twilio
  DEADLINE_EXCEEDED deadline 'word' | session deadline | riva
  OK deadline 'word' | session deadline | kserve
  closed deadline | session deadline | wyoming | half a command must not look like a whole one
  hung up 'word' | session deadline | audiosocket

long message: Frontend.max_frame_bytes, of gRPC grpc_max_message_bytes
  1009 | session too_large | SOCKETS twilio
  RESOURCE_EXHAUSTED too_large | client too_large, session too_large | riva
  RESOURCE_EXHAUSTED too_large | client too_large, counted: nothing | kserve | no sequence has begun
  closed too_large | session too_large | wyoming
  - | - | audiosocket | the length of a frame has 16 bits

drained when quiet: at once
  1012 'word' | session done | stream realtime listen flux assemblyai vapi twilio
  1012 'WORD' | session done | translations
  UNAVAILABLE overloaded 'word' | session done | riva kserve
  hung up 'word' | session done | audiosocket
  - | - | wyoming | a command is whole or there is none

drained in speech: at the deadline only
  1012 'word' | session done | stream realtime listen flux assemblyai vapi twilio
  1012 'WORD' | session done | translations
  UNAVAILABLE overloaded 'word' | session done | riva kserve
  closed overloaded | session overloaded | wyoming
  hung up 'word' | session done | audiosocket

processor lost: and no other takes the session
  1011 unavailable | session unavailable | stream translations listen flux vapi
  left unavailable | session client_gone | realtime | a turn fails, not the session
  3005 3005 | session unavailable | assemblyai
  1011 | session unavailable | twilio
  UNAVAILABLE unavailable | session unavailable | riva
  OK unavailable | session unavailable | kserve
  closed unavailable | session unavailable | wyoming
  hung up | session unavailable | audiosocket

processor fails: the session, by its last event
  1011 internal | session internal | stream translations listen flux vapi
  left internal | session client_gone | realtime
  3005 3005 | session internal | assemblyai
  1011 | session internal | twilio
  INTERNAL internal | session internal | riva
  OK internal | session internal | kserve
  closed internal | session internal | wyoming
  hung up | session internal | audiosocket

unforeseen error: an exception of any kind within the session
  1011 internal | session internal | stream realtime translations listen flux vapi
  3005 3005 | session internal | assemblyai
  1011 | session internal | twilio
  INTERNAL internal | session internal | riva
  OK internal | session internal | kserve
  closed internal | session internal | wyoming
  hung up | session internal | audiosocket

client vanishes: within speech
  left | session client_gone | SOCKETS riva kserve wyoming
  left | session done | twilio audiosocket | callers hang up, and wait for no text

place wanted: by a tenant with fewer sessions, after 30 s without speech
  1013 overloaded | session overloaded | stream realtime translations listen flux vapi
  1013 1013 | session overloaded | assemblyai
  1013 | session overloaded | twilio
  RESOURCE_EXHAUSTED overloaded | session overloaded | riva
  OK overloaded | session overloaded | kserve
  closed overloaded | session overloaded | wyoming
  hung up | session overloaded | audiosocket

key withdrawn: while a session runs
  1008 invalid_api_key | session invalid_api_key | stream realtime translations listen flux vapi
  1008 1008 | session invalid_api_key | assemblyai
  1008 | session invalid_api_key | twilio
  UNAUTHENTICATED invalid_api_key | session invalid_api_key | riva kserve
  closed invalid_api_key | session invalid_api_key | wyoming
  hung up | session invalid_api_key | audiosocket
"""


def _parsed() -> tuple[dict[tuple[str, str], Seen], set[tuple[str, str]]]:
    found: dict[tuple[str, str], Seen] = {}
    impossible: set[tuple[str, str]] = set()
    behaviour = ""
    for line in filter(None, TABLE.splitlines()):
        if not line.startswith(" "):
            behaviour = line.partition(":")[0]
            continue
        client, log, protocols = (part.strip() for part in line.split("|")[:3])
        for protocol in protocols.replace("SOCKETS", SOCKETS).split():
            assert (protocol, behaviour) not in found.keys() | impossible
            if client == "-":
                impossible.add((protocol, behaviour))
            else:
                found[protocol, behaviour] = Seen(client, log)
    return found, impossible


EXPECTED, IMPOSSIBLE = _parsed()
