"""Dynamo, imported here and nowhere else.

Everything between our components is "one message in, one message or a stream of messages
out". Errors of auricle's tree cross the wire as `Refusal` and come out as themselves.
"""

from auricle.runtime.kv_plane import KvIndex
from auricle.runtime.process import Route, Runtime, dynamo_environment
from auricle.runtime.realtime import RealtimeModel
from auricle.runtime.remote import RemoteEndpoint

__all__ = ["KvIndex", "RealtimeModel", "RemoteEndpoint", "Route", "Runtime", "dynamo_environment"]
