"""Requests, load reports and discovery over TLS, with certificates as in examples/several_hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from auricle_testing.server import READY_SECONDS, ROOT, free_port
from auricle_testing.services import BIN, running

pytestmark = [pytest.mark.integration, pytest.mark.deployment]
CERTIFICATES = ROOT / "examples/several_hosts/certificates.sh"
# Without these a process presents no certificate to the others.
OF_CLIENT = ("DYN_TCP_TLS_CLIENT_CERT_PATH", "DYN_TCP_TLS_CLIENT_KEY_PATH")


@dataclass(frozen=True)
class Encrypted:
    """An encode worker with etcd and NATS; all of them require a certificate of their callers."""

    settings: tuple[str, ...]
    variables: dict[str, str]

    def called(self, *without: str) -> list[str]:
        """The output of another process that calls the worker, without some of the variables."""
        variables = {name: value for name, value in self.variables.items() if name not in without}
        command = [sys.executable, "-m", "tests.integration.encrypted_caller", *self.settings]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=READY_SECONDS,
        )
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([CERTIFICATES, "host=127.0.0.1"], cwd=folder, check=True, timeout=60)
    secret = folder / "secret"
    secret.write_text("s" * 64)
    secret.chmod(0o600)
    etcd, peer, etcd_health, nats, nats_health, system = (free_port() for _ in range(6))
    authority, own, key = (str(folder / name) for name in ("ca.crt", "host.crt", "host.key"))
    peers = f"http://127.0.0.1:{peer}"
    settings = (
        "--Common.discovery=etcd",
        f"--Common.etcd_endpoints=https://127.0.0.1:{etcd}",
        "--Common.event_plane=nats",
        f"--Common.nats_server=tls://127.0.0.1:{nats}",
        f"--Common.secret_file={secret}",
        "--Common.internal_host=127.0.0.1",
        "--Common.load_report_seconds=0.5",
    )
    with ExitStack() as stack:
        stack.enter_context(
            running(
                *(str(BIN / "etcd"), "--data-dir", str(folder / "etcd")),
                *("--listen-client-urls", f"https://127.0.0.1:{etcd}"),
                *("--advertise-client-urls", f"https://127.0.0.1:{etcd}"),
                *("--cert-file", own, "--key-file", key),
                *("--trusted-ca-file", authority, "--client-cert-auth"),
                *("--listen-metrics-urls", f"http://127.0.0.1:{etcd_health}"),
                *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
                *("--initial-cluster", f"default={peers}"),
                health=f"http://127.0.0.1:{etcd_health}/health",
            )
        )
        stack.enter_context(
            running(
                *(str(BIN / "nats-server"), "-a", "127.0.0.1", "-p", str(nats)),
                *("-m", str(nats_health), "--tlsverify"),
                *("--tlscert", own, "--tlskey", key, "--tlscacert", authority),
                health=f"http://127.0.0.1:{nats_health}/healthz",
            )
        )
        variables = {
            "DYN_TCP_TLS_CERT_PATH": own,
            "DYN_TCP_TLS_KEY_PATH": key,
            "DYN_TCP_TLS_CLIENT_CA_CERT_PATH": authority,
            "DYN_TCP_TLS_CA_CERT_PATH": authority,
            "DYN_TCP_TLS_CLIENT_CERT_PATH": own,
            "DYN_TCP_TLS_CLIENT_KEY_PATH": key,
            "DYN_TCP_TLS_SERVER_NAME": "auricle",
            "NATS_TLS_CA_CERT_PATH": authority,
            "NATS_TLS_CLIENT_CERT_PATH": own,
            "NATS_TLS_CLIENT_KEY_PATH": key,
            # Dynamo takes the text of these, not a path.
            "ETCD_AUTH_CA": Path(authority).read_text(),
            "ETCD_AUTH_CLIENT_CERT": Path(own).read_text(),
            "ETCD_AUTH_CLIENT_KEY": Path(key).read_text(),
        }
        command = (sys.executable, "-m", "auricle", "component", "EncodeWorker")
        stack.enter_context(
            running(
                *(*command, "-f", str(ROOT / "configs/demo.yaml"), *settings),
                f"--EncodeWorker.system_port={system}",
                health=f"http://127.0.0.1:{system}/health",
                environment=os.environ | variables,
                seconds=READY_SECONDS,
            )
        )
        yield Encrypted(settings, variables)


def test_a_process_with_a_certificate_calls_and_hears_another(encrypted: Encrypted) -> None:
    assert encrypted.called() == ["answered", "reported"]


def test_a_worker_refuses_a_process_without_a_certificate(encrypted: Encrypted) -> None:
    (line,) = encrypted.called(*OF_CLIENT)
    assert line.endswith("cannot be reached")
