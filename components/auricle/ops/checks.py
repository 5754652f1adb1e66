"""From a diagnosis to findings: a pure function, made of one rule per defect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from auricle.ops.finding import (
    ALIGNERS,
    DIARIZERS,
    SILENT_SECONDS,
    TRANSLATORS,
    Finding,
    NamedProcess,
    Processes,
    listed,
    title,
)
from auricle.ops.read_rates import causes, least_rate
from auricle.protocol.diagnosis import (
    Diagnosis,
    KvRoom,
    ProbeAnswer,
    Probed,
    ProcessAnswer,
    RunningModel,
    SegmentNeed,
    Transfers,
)

# Findings on what processes must agree about: versions, checkpoint, clocks, transports.

# A message older than 60 s is refused; half of that leaves room for clocks to drift further.
_CLOCK_SECONDS = 30.0
_SHORT = 12  # hex digits of a fingerprint
# Who reads embeddings of whom, and what follows if that is not possible.
_READS = (
    ("encode_worker", "pd_worker", "every decode fails"),
    ("align_encode_worker", "align_worker", "words have no times"),
)


# The components that each component calls for sessions.
_CALLED = {
    "frontend": ("processor",),
    "processor": ("encode_worker", "pd_worker", *ALIGNERS, *DIARIZERS, *TRANSLATORS),
}


def versions(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Libraries whose version differs between processes."""
    libraries = {
        library for _, description in processes.described() for library in description.versions
    }
    for library in sorted(libraries):
        found = [
            (p, s.versions[library]) for p, s in processes.described() if library in s.versions
        ]
        for usual, others in _deviating(found):
            yield Finding(
                f"{listed(p.name for p, _ in others)} {_verb(others, 'run')} {library} "
                f"{listed(sorted({v for _, v in others}))}, the others {usual}.",
                "Embeddings or text may differ between versions, and nothing else checks that they "
                "do not.",
                f"Install {library} {usual} there too, or finish the update in progress.",
            )


def wires(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Processes that others do not call, because they do not accept the version of the wire."""
    senders: dict[tuple[str, int], list[NamedProcess]] = {}
    for process, said in processes.described():
        sent = process.answer.component, said.wires[1]
        senders.setdefault(sent, []).append(process)
    for (component, wire), callers in senders.items():
        for called in _CALLED.get(component, ()):
            there = [(p, s.wires) for p, s in processes.described() if p.answer.component == called]
            others = [p for p, (oldest, newest) in there if not oldest <= wire <= newest]
            if not others:
                continue
            alone = len(others) == len(there)
            yield Finding(
                f"{listed(p.name for p in callers)} {'send' if len(callers) > 1 else 'sends'} "
                f"version {wire} of the wire, which {listed(p.name for p in others)} "
                f"{'do' if len(others) > 1 else 'does'} not accept.",
                f"No other {title(called)} is there, so sessions wait and fail."
                if alone
                else "They do not call each other, so each needs processes of its own version.",
                "Finish the upgrade in progress, or roll it back (docs/upgrades.md).",
                wrong=alone,
            )


def checkpoints(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Processes with another checkpoint or data type than most."""
    models = [(p, s.parts.model) for p, s in processes.described() if s.parts.model is not None]
    aligners = [one for one in models if one[0].answer.component in ALIGNERS]
    diarizers = [one for one in models if one[0].answer.component in DIARIZERS]
    translators = [one for one in models if one[0].answer.component in TRANSLATORS]
    others = (*aligners, *diarizers, *translators)
    text = [one for one in models if one not in others]
    yield from _alike(text, "model", "PD workers")
    yield from _alike(aligners, "align_model", "Align workers")
    yield from _alike(diarizers, "speaker_model", "Processors")
    yield from _translating_alike(translators)


def _translating_alike(models: list[tuple[NamedProcess, RunningModel]]) -> Iterator[Finding]:
    for usual, others in _deviating([(p, model.checkpoint) for p, model in models]):
        yield Finding(
            f"{listed(f'{p.name} runs checkpoint {c[:_SHORT]}…' for p, c in others)}; the "
            f"others run {usual[:_SHORT]}….",
            "Another worker may continue a translation in other words.",
            "Restart with the same Common.translate_model everywhere, or finish the update "
            "in progress.",
        )


def _alike(
    models: list[tuple[NamedProcess, RunningModel]], setting: str, readers: str
) -> Iterator[Finding]:
    fingerprints = [(p, model.checkpoint) for p, model in models]
    for usual, others in _deviating(fingerprints):
        yield Finding(
            f"{listed(f'{p.name} runs checkpoint {c[:_SHORT]}…' for p, c in others)}; the "
            f"others run {usual[:_SHORT]}….",
            f"{readers} refuse embeddings of another checkpoint, so requests that meet them fail.",
            f"Restart with the same Common.{setting} everywhere; the fingerprint is of the files' "
            "content, whatever the directory is called.",
        )
    for usual, others in _deviating([(p, model.dtype) for p, model in models]):
        yield Finding(
            f"{listed(f'{p.name} runs as {d}' for p, d in others)}; the others run as {usual}.",
            f"{readers} refuse embeddings of another data type, so requests that meet them fail.",
            "Restart with the same Common.dtype everywhere.",
        )


def clocks(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Wall clocks that differ, by more than the question's way there and back explains."""
    for process in processes:
        answer = process.answer
        ahead, unsure = answer.clock_ahead_seconds, answer.seconds / 2
        if answer.description is not None and abs(ahead) - unsure > _CLOCK_SECONDS:
            yield Finding(
                f"The clock of {process.name} is {abs(ahead):.0f} s (±{unsure:.1f}) "
                f"{'ahead of' if ahead > 0 else 'behind'} the frontend's.",
                "Beyond 60 s every message between the two is refused as too old.",
                "Synchronise the hosts' clocks (NTP).",
            )


def transports(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """NIXL without a backend, and pools that have no kind of transport in common."""
    ends: dict[str, set[str]] = {}
    for process, description in processes.described():
        transfers = description.parts.transfers
        if transfers is None:
            continue
        ends.setdefault(process.answer.component, set()).update(transfers.possible)
        if not transfers.backends or not transfers.possible:
            yield _without_transport(process, transfers)
    for writers, readers, then in _READS:
        encode, decode = ends.get(writers), ends.get(readers)
        if not encode or not decode or encode & decode:
            continue
        name = title(writers)
        yield Finding(
            f"{name[0].upper()}{name[1:]}s can transfer by {listed(sorted(encode))}, "
            f"{title(readers)}s by {listed(sorted(decode))}: they have nothing in common.",
            f"No embeddings can be read, so {then}.",
            "Set UCX_TLS and UCX_NET_DEVICES alike for both, or leave them unset.",
        )


def _without_transport(process: NamedProcess, transfers: Transfers) -> Finding:
    if not transfers.backends:
        return Finding(
            f"NIXL has no backend in {process.name}.",
            "Embeddings cannot be transferred to or from it.",
            "Install nixl with its UCX plug-in there; its log names the missing part.",
        )
    return Finding(
        f"UCX has nothing to transfer with in {process.name}: UCX_TLS is "
        f"{transfers.allowed!r}, UCX_NET_DEVICES {transfers.devices!r}.",
        "They allow only RDMA, and no such RDMA device is visible there.",
        "Give the process its RDMA device, or allow tcp in UCX_TLS.",
    )


def slow_reads(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Reads of embeddings that are slow for the memory of both ends, or could not be timed."""
    for reader, description in processes.described():
        for owner, owned, read in processes.read_by(description):
            if read.seconds is None:
                yield Finding(
                    f"{reader.name} could not time reads from {owner.name}: {read.fault}.",
                    "Whether embeddings are read fast enough is not known.",
                    f"If this repeats after a restart, see the log of {reader.name}.",
                    wrong=False,
                )
                continue
            mine = description.parts.transfers
            memory = "host" if mine is None else mine.memory
            least, rate = least_rate(read.memory, memory), read.size / read.seconds
            if rate < least:
                yield Finding(
                    f"{reader.name} reads from {owner.name} at {rate / 1e9:.2f} GB/s, from memory "
                    f"of the {read.memory} to memory of the {memory}; {least / 1e9:g} is the least "
                    "to expect.",
                    "Decodes that read embeddings take longer, and reads use cores.",
                    causes(read.memory, memory, same_host=owned.host == description.host),
                    wrong=False,
                )


def _deviating(
    found: list[tuple[NamedProcess, str]],
) -> Iterator[tuple[str, list[tuple[NamedProcess, str]]]]:
    """Yield the commonest value and those that have another one, unless all agree."""
    if not found:
        return
    usual = Counter(value for _, value in found).most_common(1)[0][0]
    if others := [(process, value) for process, value in found if value != usual]:
        yield usual, others


def _verb(others: list[tuple[NamedProcess, str]], verb: str) -> str:
    return verb if len(others) > 1 else f"{verb}s"


# Findings on who is missing, silent or leaving, and on discovery and the transcript bus.

_NEEDED = ("processor", "encode_worker", "pd_worker")
# The consequence of a missing optional pool.
_MISSED = {
    **dict.fromkeys(ALIGNERS, "Words have no times."),
    **dict.fromkeys(DIARIZERS, "Text has no speakers."),
    **dict.fromkeys(TRANSLATORS, "Nothing is translated."),
}


def discovery(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    state = diagnosis.discovery
    if state.state == "down":
        yield Finding(
            f"The discovery backend ({state.backend}) is not there.",
            "Processes that start now are not found, and those that end are still called.",
            "Restore the directory Common.discovery_path."
            if state.backend == "file"
            else "Check the servers in Common.etcd_endpoints and the way to them.",
        )
    for component in state.unlisted:
        yield Finding(
            f"Discovery did not say which {title(component)}s there are.",
            "Without an answer no new one is found; these were not examined.",
            "See the frontend's log, and the limits of its host on open files and inotify "
            "instances (fs.inotify.max_user_instances).",
        )


def missing(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Whether every needed component has a process."""
    there = {answer.component for answer in diagnosis.processes}
    for component in _NEEDED:
        if component not in there and component not in diagnosis.discovery.unlisted:
            yield Finding(
                f"No {title(component)} is running.",
                "No session can be served.",
                f"Start one with the same Common.namespace ({diagnosis.namespace}) and the same "
                "discovery; if one is running, see its log.",
            )


def wordless(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Whether a half of the align pool is missing, or all of it though there is a checkpoint for
    it. An aligner that is the model has one half only.

    All of it is a notice where there is a planner, which empties unused pools.
    """
    there = {answer.component for answer in diagnosis.processes}
    due = set(diagnosis.optional_pools) & set(ALIGNERS)
    if not due and there & set(ALIGNERS):
        due = set(ALIGNERS)
    gone = [c for c in ALIGNERS if c in due and c not in {*there, *diagnosis.discovery.unlisted}]
    if gone and len(gone) == len(due) and "planner" in there:
        yield Finding(
            f"{' and '.join(f'no {title(c)}' for c in reversed(gone)).capitalize()} is running.",
            "If the planner has emptied the pool, the first session that asks for words starts it; "
            "until then its words are missing.",
            "Nothing, if no session requested words lately; otherwise see the planner's log.",
            wrong=False,
        )
        return
    for component in gone:
        yield Finding(
            f"No {title(component)} is running.",
            "Text comes as before, but words have no times: their events say `unavailable`.",
            f"Start one with the same Common.namespace ({diagnosis.namespace}) and the same "
            "Common.align_model; if one is running, see its log.",
        )


def untranslated(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Whether the translate pool is missing though there is a checkpoint for it.

    That is a notice where there is a planner, which empties unused pools.
    """
    there = {answer.component for answer in diagnosis.processes}
    absent = set(TRANSLATORS) - there - set(diagnosis.discovery.unlisted)
    due = set(diagnosis.optional_pools) & absent
    if not due:
        return
    if "planner" in there:
        yield Finding(
            "No translate worker is running.",
            "If the planner has emptied the pool, the first session that asks for translations "
            "starts it; until then they are missing.",
            "Nothing, if no session requested translations lately; otherwise see the planner's "
            "log.",
            wrong=False,
        )
        return
    yield Finding(
        "No translate worker is running.",
        "Text comes as before, but without translations: their events say `unavailable`.",
        f"Start one with the same Common.namespace ({diagnosis.namespace}), with "
        "graphs.e_pd_translate; if one is running, see its log.",
    )


def silent(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Processes, or parts of them, that do not answer."""
    for process in processes:
        if process.answer.description is None:
            yield _without_answer(process.name, process.answer)
    for process, description in processes.described():
        if description.silent_seconds >= SILENT_SECONDS:
            yield Finding(
                f"A part of {process.name}, {description.silent_part}, has not answered for "
                f"{description.silent_seconds:.0f} s.",
                "What waits for it is repeated elsewhere, if there is an elsewhere.",
                "After Common.liveness_seconds the process ends itself and is started again; "
                "its log then has its stack.",
            )


def leaving(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Processes that drain, and pools without any other process."""
    staying = {
        p.answer.component for p, description in processes.described() if not description.draining
    }
    gone = {p.answer.component for p, _ in processes.described()} - staying
    for component in sorted(gone):
        yield Finding(
            f"every {title(component)} that answers is draining.",
            _MISSED.get(component, "New clients are refused."),
            "Start others, or wait for those that replace them.",
        )
    for process, description in processes.described():
        if description.draining:
            yield Finding(
                f"{process.name} is draining.",
                "It accepts nothing new and ends when its present sessions or requests have ended.",
                "Nothing, if its stop is intended.",
                wrong=False,
            )


def unasked(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    """Processes that were too many to be asked."""
    if diagnosis.unasked:
        yield Finding(
            f"{diagnosis.unasked} processes were not asked: there are too many.",
            "This report does not cover them.",
            "Look at their metrics.",
            wrong=False,
        )


def bus(diagnosis: Diagnosis, _processes: Processes) -> Iterator[Finding]:
    if diagnosis.bus is not None and not diagnosis.bus.up:
        yield Finding(
            f"NATS does not take transcripts; {diagnosis.bus.waiting} wait for it.",
            "Clients still get their text; beyond Frontend.max_queued_transcripts the oldest are "
            "dropped from the transcript bus.",
            "Check the server in Common.nats_server, and that it has JetStream.",
        )


def _without_answer(name: str, answer: ProcessAnswer) -> Finding:
    if answer.fault == "untrusted_caller":
        return Finding(
            f"{name} refuses the frontend's messages.",
            "It has another secret, or its clock differs from the frontend's by more than a "
            "minute: nothing it is sent is accepted.",
            "Give it the frontend's Common.secret_file, or set its host's clock.",
        )
    if answer.fault == "deadline":
        return Finding(
            f"{name} is in discovery but did not answer within {answer.seconds:.0f} s.",
            "It hangs, or is starved of CPU; sessions leave it for others, if there are others.",
            "See its log; if it does not come back, end it: whoever watches it starts it again.",
        )
    return Finding(
        f"{name} is in discovery but cannot be reached ({answer.fault}).",
        "It died, or the network between it and the frontend is closed.",
        "Its record goes within half a minute if it died. If it is alive, open its host's ports "
        "to the other processes (docs/observability.md lists them).",
    )


# Findings on room: slots of slabs, KV cache, the longest prompt.

_FULL_SHARE = 0.9
_SETTINGS = {
    "encode_worker": "EncodeWorker.slots",
    "pd_worker": "PdWorker.landing_slots",
    "align_encode_worker": "AlignEncodeWorker.slots",
    "align_worker": "AlignWorker.landing_slots",
}


def slots(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """Slabs in which nearly every slot is leased. (That all have content is usual: a cache.)"""
    for process, description in processes.described():
        slab = description.parts.slab
        if slab is not None and slab.leased >= _FULL_SHARE * slab.slots:
            setting = _SETTINGS.get(process.answer.component, "the slab")
            yield Finding(
                f"{slab.leased} of {slab.slots} slots of {process.name} are leased.",
                "With all of them leased, requests are refused as overloaded.",
                f"Raise {setting}, or add workers. If sessions are few, something keeps leases: "
                "see the logs of its readers.",
            )


def prompts(_diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    """PD workers that cannot take the longest segment."""
    if (need := _need(processes)) is None:
        return
    for process, description in processes.described():
        if (room := description.parts.kv) is not None:
            yield from _too_small(process, room, need)


def _too_small(process: NamedProcess, room: KvRoom, need: SegmentNeed) -> Iterator[Finding]:
    segment = (
        f"a segment of {need.seconds:g} s needs {need.tokens} tokens in addition to its context"
    )
    lower = "or lower Common.max_segment_seconds, the same in all processes."
    taken = need.tokens + room.attended
    if room.max_model_len < need.tokens:
        yield Finding(
            f"{process.name} takes {room.max_model_len} tokens, but {segment}.",
            "The decodes at the end of long segments are refused, which ends their sessions.",
            f"Raise PdWorker.max_model_len, {lower}",
        )
    if room.tokens < taken:
        attended = f" (and {room.attended} positions that it attends to)" * (room.attended > 0)
        yield Finding(
            f"The KV cache of {process.name} holds {room.tokens} tokens, but {segment}{attended}.",
            "The end of a long segment cannot be decoded, even if nothing else is.",
            f"Raise PdWorker.kv_blocks (or kv_cache_gib, on a GPU gpu_memory_share), {lower}",
        )
    elif room.tokens < taken * room.max_requests:
        at_once = room.tokens // taken
        yield Finding(
            f"The KV cache of {process.name} holds {at_once} of the longest segments, and "
            f"{room.max_requests} requests are taken at a time.",
            "If that many segments are long at once, some are prefilled again and again.",
            "Raise PdWorker.kv_blocks (or kv_cache_gib, on a GPU gpu_memory_share), or lower "
            "PdWorker.max_requests.",
            wrong=False,
        )


def _need(processes: Processes) -> SegmentNeed | None:
    needs = [s.parts.segment for _, s in processes.described() if s.parts.segment is not None]
    return max(needs, key=lambda need: need.tokens, default=None)


# Findings on probes: a second of noise that was encoded, transferred and decoded.

# Slower than that, the workers fall behind one live session.
_REAL_TIME_SECONDS = 1.0


def probes(diagnosis: Diagnosis, processes: Processes) -> Iterator[Finding]:
    for probe in diagnosis.probes:
        if probe.steps is None:
            yield _unanswered(probe, processes)
        elif probe.steps.failed:
            yield _failed(probe, probe.steps, processes)
        elif (seconds := total(probe.steps)) > _REAL_TIME_SECONDS:
            yield Finding(
                f"A second of audio took {seconds:.1f} s by way of {_way(probe, processes)}.",
                "Live text lags while it takes longer than the audio lasts.",
                "Once may be chance: ask again. If it stays so, add workers or CPUs.",
                wrong=False,
            )


def total(steps: Probed) -> float:
    """Return the duration of a whole probe in seconds."""
    return steps.mel_seconds + steps.encode_seconds + steps.decode_seconds


def _unanswered(probe: ProbeAnswer, processes: Processes) -> Finding:
    name = processes.name("processor", probe.processor)
    if probe.fault == "not_reached":
        return Finding(
            f"Time ran out before a probe by way of {_way(probe, processes)}.",
            "Whether these work together is not known.",
            "Mend the other findings first, then ask again.",
            wrong=False,
        )
    return Finding(
        f"A probe failed ({probe.fault}): {name} did not answer.",
        "Sessions on this processor may hang too.",
        "See the processor's log.",
    )


def _failed(probe: ProbeAnswer, steps: Probed, processes: Processes) -> Finding:
    encode = processes.name("encode_worker", probe.encode_worker)
    decode = processes.name("pd_worker", probe.pd_worker)
    at = encode if steps.failed == "encode" else decode
    if steps.fault == "overloaded":
        return Finding(
            f"{at} refused a probe because it is full.",
            "It refuses sessions' work too: text is late, or clients are turned away.",
            "Add workers to this pool.",
        )
    if steps.fault.startswith("windows_"):
        return Finding(
            f"{decode} could not read embeddings from {encode} ({steps.fault}).",
            "Sessions placed on these two fail, or move to others.",
            f"See the log of {decode}. The hosts must reach each other over what UCX_TLS and "
            "UCX_NET_DEVICES allow, and run the same checkpoint and dtype.",
        )
    name = processes.name("processor", probe.processor)
    return Finding(
        f"A probe failed at {at} ({steps.fault}), called by {name}.",
        "Sessions placed there fail, or move to others.",
        f"See the logs of {at} and of {name}; if the worker answers otherwise, look at the "
        "network between the two.",
    )


def _way(probe: ProbeAnswer, processes: Processes) -> str:
    return (
        f"{processes.name('processor', probe.processor)}, "
        f"{processes.name('encode_worker', probe.encode_worker)} and "
        f"{processes.name('pd_worker', probe.pd_worker)}"
    )


_RULES = (
    discovery,
    missing,
    wordless,
    untranslated,
    silent,
    versions,
    wires,
    checkpoints,
    clocks,
    transports,
    slow_reads,
    slots,
    prompts,
    probes,
    bus,
    leaving,
    unasked,
)


def findings(diagnosis: Diagnosis) -> list[Finding]:
    """Return the defects first, then notices; empty if all is well."""
    processes = Processes(diagnosis)
    found = [_capital(finding) for rule in _RULES for finding in rule(diagnosis, processes)]
    return sorted(found, key=lambda finding: not finding.wrong)


def _capital(finding: Finding) -> Finding:
    """Many sentences begin with the name of a process."""
    return replace(finding, what=finding.what[:1].upper() + finding.what[1:])
