"""The Dynamo runtime, which only this package imports.

An endpoint takes one message and returns one message or a stream of messages. An
`AuricleError` crosses the wire as a `Refusal`, and the caller's side raises it again. Requests
and events are sealed with the deployment's secret (`seals.py`); no component knows of it.
"""

from auricle.runtime.handling import Route
from auricle.runtime.kv_plane import KvIndex
from auricle.runtime.network import dynamo_environment
from auricle.runtime.process import Runtime
from auricle.runtime.pulses import PROCESSOR_PULSE, WORKER_PULSE, Pulses, PulseTimes
from auricle.runtime.realtime import RealtimeModel
from auricle.runtime.remote import RemoteEndpoint
from auricle.runtime.tokens import Tokens
from auricle.runtime.worker import Part, WorkerService, serve_worker

__all__ = [
    "PROCESSOR_PULSE",
    "WORKER_PULSE",
    "KvIndex",
    "Part",
    "PulseTimes",
    "Pulses",
    "RealtimeModel",
    "RemoteEndpoint",
    "Route",
    "Runtime",
    "Tokens",
    "WorkerService",
    "dynamo_environment",
    "serve_worker",
]
