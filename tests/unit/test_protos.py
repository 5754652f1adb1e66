"""Our gRPC services' messages equal protos/ and the messages of the published clients."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from auricle_testing.server import ROOT
from protos.compile import COMPILED, compiled

pytestmark = pytest.mark.unit
# In a separate process: two packages that register the same names cannot be imported together.
_PUBLISHED = """
import json
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from riva.client.proto import riva_asr_pb2, riva_audio_pb2, riva_common_pb2

files = {}
for module in (riva_asr_pb2, riva_audio_pb2, riva_common_pb2):
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    files[file.name] = file.SerializeToString().hex()
print(json.dumps(files))
"""
_TRITON = """
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from tritonclient.grpc import service_pb2

file = FileDescriptorProto()
service_pb2.DESCRIPTOR.CopyToProto(file)
print(file.SerializeToString().hex())
"""


def ours() -> dict[str, FileDescriptorProto]:
    return {file.name: file for file in FileDescriptorSet.FromString(COMPILED.read_bytes()).file}


def test_what_is_compiled_is_current() -> None:
    if importlib.util.find_spec("grpc_tools") is None:
        pytest.skip("run make setup-dev")
    assert COMPILED.read_bytes() == compiled(), "run `python protos/compile.py`"


def test_numbers_and_types_are_those_that_rivas_client_sends() -> None:
    pytest.importorskip("riva", reason="run make setup-dev")
    asked = subprocess.run(
        [sys.executable, "-c", _PUBLISHED], capture_output=True, text=True, check=True, cwd=ROOT
    )
    for name, data in json.loads(asked.stdout).items():
        published = FileDescriptorProto.FromString(bytes.fromhex(data))
        assert shape(ours()[name]) == shape(published)


def test_numbers_and_types_are_those_that_tritons_client_sends() -> None:
    """We implement a part of its interface; all of that part is as published."""
    if importlib.util.find_spec("tritonclient") is None:
        pytest.skip("run make setup-dev")
    asked = subprocess.run(
        [sys.executable, "-c", _TRITON], capture_output=True, text=True, check=True, cwd=ROOT
    )
    published = shape(FileDescriptorProto.FromString(bytes.fromhex(asked.stdout)))
    written = shape(ours()["kserve/inference.proto"])
    assert written["package"] == published["package"]
    assert written["messages"].items() <= published["messages"].items()
    (service,) = written["services"]
    assert written["services"][service].items() <= published["services"][service].items()


def shape(file: FileDescriptorProto) -> dict[str, Any]:
    """Everything that affects the encoding."""
    return {
        "package": file.package,
        "messages": {m.name: message_shape(m) for m in file.message_type},
        "enums": {e.name: {v.name: v.number for v in e.value} for e in file.enum_type},
        "services": {
            s.name: {
                m.name: (m.input_type, m.output_type, m.client_streaming, m.server_streaming)
                for m in s.method
            }
            for s in file.service
        },
    }


def message_shape(message: Any) -> dict[str, Any]:
    return {
        "fields": {
            f.name: (f.number, f.type, f.type_name, f.label, f.HasField("oneof_index"))
            for f in message.field
        },
        "messages": {m.name: message_shape(m) for m in message.nested_type},
    }
