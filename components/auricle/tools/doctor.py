"""The commands `auricle doctor` and `auricle status`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

import httpx
import msgspec
from rich.console import Console
from rich.text import Text

from auricle.core.errors import AuricleError, BadRequest
from auricle.core.sanitize import escaped, one_line, quoted
from auricle.ops.checks import findings, total
from auricle.ops.finding import SILENT_SECONDS, Finding, Processes, listed, title
from auricle.protocol.diagnosis import (
    Description,
    Diagnosis,
    KvRoom,
    LoadNow,
    Probed,
    ProcessAnswer,
    SlabState,
    Transfers,
)

# Asks a frontend for a diagnosis.

# A diagnosis takes the frontend up to a minute.
_ANSWER_SECONDS = 90.0
_CONNECT_SECONDS = 10.0
# How long others' diagnoses are waited for.
_PATIENCE_SECONDS = 60.0
_MAX_BYTES = 16 << 20


async def ask(url: str, api_key: str | None) -> Diagnosis:
    """Return the diagnosis of the frontend at `url`.

    Waits for up to a minute while it makes one for another client. Raises BadRequest if `url` is
    malformed, AuricleError without an answer or if it is not a diagnosis.
    """
    base = _checked(url)
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        raise BadRequest("that is no API key: it has line breaks or characters beyond ASCII")
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
    patient_until = time.monotonic() + _PATIENCE_SECONDS
    async with httpx.AsyncClient(headers=headers, timeout=timeout) as client:
        while True:
            status, body, wait = await _once(client, f"{base}/v1/diagnosis")
            if status != 429 or time.monotonic() + wait > patient_until:
                return _diagnosis(status, body)
            await asyncio.sleep(wait)


async def _once(client: httpx.AsyncClient, address: str) -> tuple[int, bytes, float]:
    """Return status, body, and after how many seconds to ask again."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS), client.stream("GET", address) as answer:
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > _MAX_BYTES:
                    raise AuricleError(f"the answer has more than {_MAX_BYTES >> 20} MiB")
            after = answer.headers.get("retry-after", "")
            wait = float(after) if after.isdecimal() and len(after) < 4 else 1.0
            return answer.status_code, bytes(body), max(wait, 1.0)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        said = str(error) or type(error).__name__
        raise AuricleError(f"no answer from {address}: {said}") from None


def _diagnosis(status: int, body: bytes) -> Diagnosis:
    if status == 404:
        raise AuricleError("there is no /v1/diagnosis: not auricle, or an older version of it")
    if status != 200:
        raise AuricleError(f"the server refused with {status}: {_message(body)}")
    try:
        return msgspec.json.decode(body, type=Diagnosis)
    except msgspec.DecodeError as error:
        raise AuricleError(f"the answer is not a diagnosis of this version: {error}") from None


def _message(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return escaped(body[:200].decode(errors="replace"), 200)


def _checked(url: str) -> str:
    example = "a server's address is like http://127.0.0.1:8080"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadRequest(f"{quoted(url)} is not an address; {example}")
    return url.rstrip("/")


# A diagnosis and its findings as lines of text.


def report(url: str, diagnosis: Diagnosis, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines, without control sequences of terminals."""
    yield from map(one_line, _lines(url, diagnosis, findings))


def _lines(url: str, diagnosis: Diagnosis, findings: Sequence[Finding]) -> Iterator[str]:
    processes = Processes(diagnosis)
    yield f"{url}, namespace {diagnosis.namespace}: {_census(diagnosis)}"
    for process, said in processes.described():
        versions = ", ".join(f"{name} {version}" for name, version in said.versions.items())
        oldest, newest = said.wires
        wire = f"wire {newest}" if oldest == newest else f"wire {oldest} to {newest}"
        yield f"  {process.name}: {versions}, {wire}{_own(said.parts.transfers)}"
        for owner, _, read in processes.read_by(said):
            if read.seconds is not None:
                yield f"    reads from {owner.name}: {read.size / read.seconds / 1e9:.2f} GB/s"
    for probe in diagnosis.probes:
        if probe.steps is not None and not probe.steps.failed:
            names = (
                processes.name(component, instance).partition(" (")[0]
                for component, instance in (
                    ("processor", probe.processor),
                    ("encode_worker", probe.encode_worker),
                    ("pd_worker", probe.pd_worker),
                )
            )
            yield f"  probe by {listed(names)}: {_times(probe.steps)}"
    for finding in findings:
        yield ""
        yield f"{'WRONG' if finding.wrong else 'Notice'}: {finding.what}"
        yield f"  Why it matters: {finding.why}"
        yield f"  What to do: {finding.remedy}"
    wrong = sum(finding.wrong for finding in findings)
    yield ""
    yield "Nothing is wrong." if not wrong else f"{wrong} wrong."


def _census(diagnosis: Diagnosis) -> str:
    counted = Counter(answer.component for answer in diagnosis.processes)
    return ", ".join(
        f"{number} {title(component)}{'' if number == 1 else 's'}"
        for component, number in counted.items()
    )


def _own(transfers: Transfers | None) -> str:
    if transfers is None:
        return ""
    *several, last = transfers.possible or ("nothing",)
    which = f"unknown ({', '.join(several)} or {last})" if several else last
    nixl = f"NIXL over {', '.join(transfers.backends) or 'nothing'}, transport {which}"
    return f"; embeddings in memory of the {transfers.memory}; {nixl}"


def _times(steps: Probed) -> str:
    return (
        f"{1000 * total(steps):.0f} ms (log-mel {1000 * steps.mel_seconds:.0f}, "
        f"encode {1000 * steps.encode_seconds:.0f}, decode {1000 * steps.decode_seconds:.0f}, "
        f"in which {steps.bytes_read} bytes were read in {1000 * steps.read_seconds:.1f})"
    )


# A deployment in a few lines: its pools, who is in them, how they are and how busy. Pure.

_POOLS = {
    "frontend": "frontend",
    "processor": "processors",
    "encode_worker": "encode workers",
    "pd_worker": "PD workers",
    "planner": "planners",
}
_HEAD = ("", "processes", "state", "in work", "busy", "slots used (leased)", "KV tokens")


class ProcessSeen(msgspec.Struct, frozen=True):
    """One process; `where` is its host and pid, or its instance if it did not answer.

    `state` is `well`, `draining`, `silent`, or the code of the error that was the answer.
    """

    where: str
    state: str
    load: LoadNow | None = None
    slab: SlabState | None = None
    kv: KvRoom | None = None


class PoolSeen(msgspec.Struct, frozen=True):
    """The processes of a component."""

    component: str
    processes: tuple[ProcessSeen, ...]


class Overview(msgspec.Struct, frozen=True):
    """What `auricle status --json` prints; `wrong` are sentences of `auricle doctor`."""

    url: str
    namespace: str
    well: bool
    wrong: tuple[str, ...]
    pools: tuple[PoolSeen, ...]


def overview(url: str, diagnosis: Diagnosis, wrong: Sequence[str]) -> Overview:
    """Return the pools of a diagnosis in the order of a chunk's way, then others."""
    there: dict[str, list[ProcessSeen]] = {c: [] for c in _POOLS if c != "planner"}
    for answer in diagnosis.processes:
        there.setdefault(answer.component, []).append(_seen(answer))
    pools = tuple(PoolSeen(component, tuple(its)) for component, its in there.items())
    return Overview(url, diagnosis.namespace, not wrong, tuple(wrong), pools)


def status_lines(seen: Overview) -> Iterator[str]:
    """Yield the lines, without control sequences of terminals."""
    state = "well" if seen.well else f"{len(seen.wrong)} wrong"
    yield one_line(f"{seen.url}, namespace {seen.namespace}: {state}")
    rows: list[Sequence[str]] = [_HEAD]
    for pool in seen.pools:
        rows.append(_pool_row(pool))
        if len(pool.processes) > 1:
            rows += [_process_row(process) for process in pool.processes]
    yield from map(one_line, _columns(rows))
    for what in seen.wrong:
        yield one_line(f"WRONG: {what}")
    if seen.wrong:
        yield one_line(f"`auricle doctor {seen.url}` explains why it matters and what to do.")


def _seen(answer: ProcessAnswer) -> ProcessSeen:
    said = answer.description
    if said is None:
        return ProcessSeen(f"instance {answer.instance}", answer.fault)
    parts = said.parts
    where = f"{said.host}, pid {said.pid}"
    return ProcessSeen(where, _state(said), parts.load, parts.slab, parts.kv)


def _state(said: Description) -> str:
    if said.silent_seconds >= SILENT_SECONDS:
        return "silent"
    return "draining" if said.draining else "well"


def _pool_row(pool: PoolSeen) -> tuple[str, ...]:
    name = _POOLS.get(pool.component, pool.component)
    states = ", ".join(dict.fromkeys(p.state for p in pool.processes)) or "none there"
    parts = [[getattr(p, part) for p in pool.processes] for part in ("load", "slab", "kv")]
    return (name, str(len(pool.processes)), states, *_amounts(*parts))


def _process_row(process: ProcessSeen) -> tuple[str, ...]:
    amounts = _amounts([process.load], [process.slab], [process.kv])
    return (f"  {process.where}", "", process.state, *amounts)


def _amounts(
    loads: Iterable[LoadNow | None],
    slabs: Iterable[SlabState | None],
    rooms: Iterable[KvRoom | None],
) -> tuple[str, str, str, str]:
    """Return the sums of work in progress, slots and KV tokens, and the mean busy share."""
    load, slab = [one for one in loads if one], [one for one in slabs if one]
    work, busy = "", [one.busy for one in load if one.busy is not None]
    if load:
        work = f"{sum(o.now for o in load)} of {sum(o.limit for o in load)} {load[0].unit}"
    slots, leased = sum(one.slots for one in slab), sum(one.leased for one in slab)
    tokens = sum(one.tokens for one in rooms if one)
    return (
        work,
        f"{100 * sum(busy) / len(busy):.0f}%" if busy else "",
        f"{sum(one.used for one in slab)} of {slots} ({leased})" if slab else "",
        str(tokens) if tokens else "",
    )


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


async def _asked(url: str, api_key: str | None) -> Diagnosis:
    with Console(stderr=True).status(Text(f"asking {one_line(url)}")):  # nothing without a terminal
        return await ask(url, api_key)


async def doctor(url: str, api_key: str | None, *, as_json: bool) -> bool:
    """Print the findings about the deployment at `url`; return whether all is well.

    Raises AuricleError if it could not be asked.
    """
    diagnosis = await _asked(url, api_key)
    found = findings(diagnosis)
    if as_json:
        print(msgspec.json.encode({"findings": found, "diagnosis": diagnosis}).decode())
    else:
        print("\n".join(report(url, diagnosis, found)))
    return not any(finding.wrong for finding in found)


async def status(url: str, api_key: str | None, *, as_json: bool) -> bool:
    """Print who runs in the deployment at `url` and how busy they are; return whether all is well.

    Raises AuricleError if it could not be asked.
    """
    diagnosis = await _asked(url, api_key)
    wrong = [finding.what for finding in findings(diagnosis) if finding.wrong]
    seen = overview(url, diagnosis, wrong)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(seen)).decode())
    else:
        print("\n".join(status_lines(seen)))
    return not wrong
