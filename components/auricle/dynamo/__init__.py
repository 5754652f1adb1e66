"""The Dynamo runtime, which only this package imports.

An endpoint takes one message and returns one message or a stream of messages. An
`AuricleError` crosses the wire as a `Refusal`, and the caller's side raises it again. Requests
and events are signed with the deployment's secret in this package (`signing.py`).
"""

from auricle.dynamo.handling import RealtimeModel, Route
from auricle.dynamo.health_probes import PROCESSOR_PULSE, WORKER_PULSE, Pulses, PulseTimes
from auricle.dynamo.kv_routing import KvIndex
from auricle.dynamo.network import dynamo_environment
from auricle.dynamo.process import Runtime
from auricle.dynamo.remote import RemoteEndpoint
from auricle.dynamo.signing import Tokens
from auricle.dynamo.worker import Part, WorkerService, serve_worker

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
