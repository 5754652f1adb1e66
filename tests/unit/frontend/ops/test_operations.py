"""The operators' view of the deployment: its contents, access control and rate limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import jsonschema
import msgspec
import pytest

from auricle.core.errors import AuricleError, DeadlineExceeded, RateLimited, WorkerUnavailable
from auricle.frontend.exporters.timing import TextLags
from auricle.frontend.ops.dashboard import (
    EVERY_SECONDS,
    MAX_VIEWERS,
    Dashboard,
    document,
)
from auricle.frontend.ops.documents import (
    ChosenSession,
    FrontendState,
    Operations,
    TextLag,
    WorkerState,
)
from auricle.frontend.ops.gatherer import Gatherer, Snapshot
from auricle.frontend.ops.history import LoadHistory
from auricle.frontend.ops.routes import OperationsRoutes, schemas
from auricle.frontend.transport.access.keys import ApiKey, new_key
from auricle.load.report_cache import ProcessorLoads
from auricle.load.reports import ProcessorLoad
from auricle.protocol.control import Decisions, PastDecision
from auricle.protocol.diagnosis import (
    Description,
    Diagnosis,
    DiscoveryState,
    KvRoom,
    Parts,
    ProcessAnswer,
    SlabState,
)
from auricle.protocol.views import (
    STEPS_KEPT_SECONDS,
    AskView,
    SeenWorker,
    SessionState,
    SessionSteps,
    View,
)
from tests.fakes.clock import Clock
from tests.fakes.front import Front
from tests.waiting import until

pytestmark = pytest.mark.unit
OWN = FrontendState(3, 100, 5, draining=False)
SESSION = SessionState("sess_a", "acme", 9.0, 8.0, 2, 1.5, True, False, 12, 1, 0.14, "e1", "d1")
STEPS = SessionSteps("sess_a", ())
PAST = PastDecision(1_000.0, "pd_worker", 1, 2, "forecast", "demand 1.4", 1, True)


def said(pid: int, *, draining: bool = False, **parts: Any) -> Description:
    versions = {"auricle": "0.1.0"}
    return Description("host-a", pid, 0.0, versions, 0.0, "", draining, Parts(**parts))


def worker(component: str, instance: str, age: float = 1.0, **other: Any) -> SeenWorker:
    numbers = (0.5, 2.0, 0.0, 0.0, 0.1, 0.01, 3.0, 32, 0.25, 0.02, False)
    seen = SeenWorker(component, instance, age, 5.0, *numbers)
    return msgspec.structs.replace(seen, **other)


def view(*workers: SeenWorker, others: int = 0) -> View:
    return View((SESSION,), others, 1, 0.5, 8, 0.125, (STEPS,), workers)


def diagnosis(*answers: ProcessAnswer) -> Diagnosis:
    return Diagnosis("auricle", 0.0, 0.1, answers, 0, (), DiscoveryState("file", "up"))


ALL = diagnosis(
    ProcessAnswer("frontend", "", 0.0, said(1)),
    ProcessAnswer("processor", "a1", 0.0, said(2)),
    ProcessAnswer("encode_worker", "e1", 0.0, said(3, slab=SlabState(256, 40, 4))),
    ProcessAnswer("pd_worker", "d1", 0.0, said(4, kv=KvRoom(4_096, 2_048, 32))),
    ProcessAnswer("planner", "f1", 0.0, said(5)),
)
VIEWS = {"a1": view(worker("encode_worker", "e1"), worker("pd_worker", "d1"))}
DECISIONS = {"f1": Decisions(("pd_worker: 1 → 2",), True, (PAST,), 30.0)}


def gathered(
    found: Diagnosis = ALL,
    views: Mapping[str, View] = VIEWS,
    decisions: Mapping[str, Decisions] = DECISIONS,
) -> Snapshot:
    return Snapshot(1_700_000_000.0, found, 1.5, views, decisions)


def shown(*given: Any, **named: Any) -> Operations:
    return document(gathered(*given, **named), OWN, every_seconds=2.0, keys=True)


def pd_worker(found: Operations) -> WorkerState:
    assert [pool.component for pool in found.pools] == ["encode_worker", "pd_worker"]
    (only,) = found.pools[1].workers
    return only


# ── the document ────────────────────────────────────────────────────────────


def test_all_processes_are_shown_with_what_they_said() -> None:
    found = shown()
    assert (found.namespace, found.keys, found.frontend) == ("auricle", True, OWN)
    (processor,), (encode,), pd = found.processors, found.pools[0].workers, pd_worker(found)
    assert (processor.place.name, processor.place.state) == ("processor 1", "ready")
    assert (processor.sessions, processor.speaking, processor.admits) == (1, 1, 8)
    assert encode.slab == SlabState(256, 40, 4) and encode.place.pid == 3
    assert pd.kv == KvRoom(4_096, 2_048, 32)
    assert pd.load is not None and pd.load.kv_usage == 0.25
    (row,) = found.sessions
    assert (row.processor, row.state.session) == ("a1", "sess_a")
    (planner,) = found.planners
    assert planner.leads and planner.past == (PAST,) and planner.step_seconds == 30.0
    assert (found.health.wrong, found.health.findings, found.health.age_seconds) == (0, (), 1.5)


def test_health_is_what_doctor_says() -> None:
    found = shown(diagnosis(*ALL.processes[:3], *ALL.processes[4:]))
    (finding,) = found.health.findings
    assert found.health.wrong == 1 and "No PD worker is running" in finding.what
    assert finding.remedy


def test_the_youngest_report_of_a_worker_counts() -> None:
    views = {"a1": view(worker("pd_worker", "d1", 4.0)), "a2": view(worker("pd_worker", "d1", 0.5))}
    pd = pd_worker(shown(views=views))
    assert pd.load is not None and pd.load.age_seconds == 0.5


@pytest.mark.parametrize(
    ("answer", "seen", "state"),
    [
        (said(4), worker("pd_worker", "d1"), "ready"),
        (said(4), worker("pd_worker", "d1", 16.0), "silent"),
        (said(4, draining=True), worker("pd_worker", "d1"), "draining"),
        (said(4), worker("pd_worker", "d1", draining=True), "draining"),
        (None, worker("pd_worker", "d1"), "unreachable"),
    ],
)
def test_a_process_that_serves_nobody_is_said_to(
    answer: Description | None, seen: SeenWorker, state: str
) -> None:
    one = ProcessAnswer("pd_worker", "d1", 0.0, answer, fault="" if answer else "unavailable")
    pd = pd_worker(shown(diagnosis(*ALL.processes[:3], one), {"a1": view(seen)}))
    assert pd.place.state == state


def test_a_processor_and_a_planner_that_do_not_answer_are_silent() -> None:
    found = shown(views={}, decisions={})
    assert found.processors[0].place.state == found.planners[0].place.state == "silent"
    assert (found.sessions, pd_worker(found).load) == ((), None)


def test_a_pool_that_is_beside_the_path_is_shown_and_one_that_is_needed_even_if_empty() -> None:
    other = ProcessAnswer("tag_worker", "t1", 0.0, said(9))
    found = shown(diagnosis(*ALL.processes[:3], other))
    assert [(pool.name, len(pool.workers)) for pool in found.pools] == [
        ("encode workers", 1),
        ("PD workers", 0),
        ("tag_workers", 1),
    ]


def test_sessions_that_are_left_out_are_counted() -> None:
    found = shown(views={"a1": view(others=7), "a2": view(others=1)})
    assert found.sessions_left_out == 8 and found.processors[0].sessions == 8


# ── gathering ───────────────────────────────────────────────────────────────


class Endpoint:
    """Instances with scripted answers."""

    def __init__(self, answers: Mapping[int, msgspec.Struct | AuricleError] | None) -> None:
        self.answers = answers
        self.asked: list[msgspec.Struct] = []

    async def listed(self) -> list[int]:
        if self.answers is None:
            raise WorkerUnavailable("discovery cannot be followed")
        return list(self.answers)

    async def call(
        self, message: msgspec.Struct, reply: type, instance: int, seconds: float
    ) -> msgspec.Struct:
        self.asked.append(message)
        assert self.answers is not None
        answer = self.answers[instance]
        if isinstance(answer, AuricleError):
            raise answer
        return answer


class Deployment(Gatherer):
    """Counts the inventories it makes."""

    made = 0

    async def inventory(self) -> Diagnosis:
        self.made += 1
        return ALL


def deployment(processors: Endpoint, planners: Endpoint, clock: Clock) -> Deployment:
    unused: Any = None
    return Deployment(unused, {}, unused, processors, planners, unused, unused, clock, lambda: 5.0)


async def test_a_snapshot_omits_instances_that_do_not_answer() -> None:
    processors = Endpoint({16: view(), 17: DeadlineExceeded("no answer")})
    found = await deployment(processors, Endpoint(None), Clock()).snapshot(("sess_a",))
    assert (found.at, list(found.views), found.decisions) == (5.0, ["10"], {})
    assert processors.asked == [AskView(("sess_a",))] * 2


async def test_descriptions_are_requested_less_often_than_views() -> None:
    clock = Clock()
    gatherer = deployment(Endpoint({}), Endpoint({}), clock)
    ages = []
    for _ in range(4):
        ages.append((await gatherer.snapshot(())).diagnosis_age)
        clock.now += 2.0
    assert (gatherer.made, ages) == (2, [0.0, 2.0, 4.0, 0.0])


# ── sharing ─────────────────────────────────────────────────────────────────


class Source:
    """A scripted gatherer that records the sessions whose steps were requested."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.clock = Clock()
        self.session = "sess_a"
        self.lags = TextLags(STEPS_KEPT_SECONDS, self.clock)

    async def gather(self, steps_of: tuple[str, ...]) -> Snapshot:
        self.asked.append(steps_of)
        steps = SessionSteps(self.session, ())
        views = {"a1": msgspec.structs.replace(VIEWS["a1"], steps=(steps,))}
        return gathered(views=views)

    def dashboard(self) -> Dashboard:
        return Dashboard(self.gather, lambda: OWN, lambda: True, self.lags.watch, self.clock)


async def test_all_who_look_share_what_is_gathered_every_two_seconds() -> None:
    source = Source()
    dashboard = source.dashboard()
    assert source.asked == []
    await asyncio.gather(*(dashboard.now() for _ in range(5)))
    assert len(source.asked) == 1
    source.clock.now += EVERY_SECONDS
    await dashboard.now()
    assert len(source.asked) == 2


async def test_the_steps_of_a_session_are_asked_for_while_it_is_chosen() -> None:
    source = Source()
    dashboard = source.dashboard()
    assert (await dashboard.now("sess_a")).chosen == ChosenSession("sess_a", (), ())
    assert (await dashboard.now("other")).chosen is None
    assert (await dashboard.now()).chosen is None
    source.clock.now += EVERY_SECONDS
    await dashboard.now("sess_a")
    source.clock.now += STEPS_KEPT_SECONDS
    await dashboard.now("other")
    assert source.asked == [("sess_a",), ("sess_a", "other"), ("other",)]


@pytest.mark.parametrize("name", ["sess_a", "sess_a.1"], ids=["here", "moved"])
async def test_texts_are_said_to_be_as_late_as_this_frontend_found_them(name: str) -> None:
    source = Source()
    source.session = name
    dashboard = source.dashboard()
    source.lags.record("sess_a", 640, 9.0)  # before the first view
    await dashboard.now(name)
    source.lags.record("sess_a", 1_280, 0.25)
    source.lags.record("sess_b", 640, 8.0)
    found = (await dashboard.now(name)).chosen
    assert found is not None and found.lags == (TextLag(1.28, 0.25),)
    source.clock.now += STEPS_KEPT_SECONDS
    found = (await dashboard.now(name)).chosen
    assert found is not None and found.lags == ()


async def test_steps_are_kept_of_so_many_sessions_only() -> None:
    dashboard = Source().dashboard()
    for n in range(MAX_VIEWERS):
        await dashboard.now(f"s{n}")
    with pytest.raises(RateLimited):
        await dashboard.now("one more")
    await dashboard.now("s0")


# ── over HTTP ───────────────────────────────────────────────────────────────


def key(name: str, *scopes: str) -> tuple[str, ApiKey]:
    return new_key(name, None, scopes)


class Ops(Front):
    """A frontend with the routes of operations."""

    def __init__(self, keys: list[ApiKey] | None = None) -> None:
        super().__init__(keys)
        self.source = Source()
        self.dashboard = self.source.dashboard()
        self.loads = ProcessorLoads()
        self.history = LoadHistory(self.loads.seen)
        routes = OperationsRoutes(
            *(self.access, self.frontend.admission, self.dashboard, self.diagnose),
            *(self.history.now, 0.0),
        )
        self.extend = routes.add_to

    async def diagnose(self) -> Diagnosis:
        return diagnosis()

    @asynccontextmanager
    async def stream(self, path: str, secret: str = "") -> AsyncIterator[httpx.Response]:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=60) as client,
            client.stream("GET", path, headers=headers) as answer,
        ):
            yield answer


async def events(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in answer.aiter_lines():
        kind, _, value = line.partition(": ")
        if kind == "event":
            name = value
        elif kind == "data":
            yield name, json.loads(value)


def fits(document: object, name: str) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas()}}
    jsonschema.Draft202012Validator(schema).validate(document)


async def test_only_keys_for_operations_may_look() -> None:
    (operator, one), (caller, two) = key("ops", "operations"), key("acme", "live")
    front = Ops([one, two])
    async with front.serving():
        for path in ("", "/events", "/examination"):
            refused = await front.get(f"/v1/operations{path}", caller)
            assert refused.status_code == 403 and "not for operations" in refused.text
            assert (await front.get(f"/v1/operations{path}")).status_code == 401
        assert front.source.asked == []
        found = await front.get("/v1/operations?session=sess_a", operator)
        assert found.status_code == 200 and found.headers["cache-control"] == "no-store"
        fits(found.json(), "Operations")
        assert found.json()["chosen"] == {"session": "sess_a", "chunks": [], "lags": []}
        fits((await front.get("/v1/operations/examination", operator)).json(), "Examination")


async def test_a_name_that_no_session_has_is_refused() -> None:
    front = Ops()
    async with front.serving():
        for path in ("", "/events"):
            refused = await front.get(f"/v1/operations{path}?session={'x' * 129}")
            assert refused.status_code == 400 and refused.json()["error"]["param"] == "session"


async def test_documents_follow_each_other_until_the_frontend_goes() -> None:
    front = Ops()
    async with front.serving(), front.stream("/v1/operations/events?session=sess_a") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        told = events(answer)
        for _ in range(3):
            name, data = await anext(told)
            assert name == "operations" and data["chosen"]["session"] == "sess_a"
            fits(data, "Operations")
        front.frontend.admission.begin_drain(60.0)
        last = [event async for event in told][-1]
        assert last[0] == "end" and last[1]["code"] == "going_away"
        fits(last[1], "StreamEnd")


async def test_a_key_that_is_withdrawn_ends_its_streams() -> None:
    secret, entry = key("ops", "operations")
    front = Ops([entry])
    async with front.serving(), front.stream("/v1/operations/events", secret) as answer:
        told = events(answer)
        assert (await anext(told))[0] == "operations"
        front.access.replace([])
        last = [event async for event in told][-1]
        assert (last[0], last[1]["code"]) == ("end", "invalid_api_key")


async def test_who_has_left_makes_room_for_another() -> None:
    front = Ops()
    async with front.serving():
        others = [front.dashboard.viewer() for _ in range(MAX_VIEWERS - 1)]
        for other in others:
            other.__enter__()
        async with front.stream("/v1/operations/events") as answer:
            await anext(events(answer))
            refused = await front.get("/v1/operations/events")
            assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
        await until(lambda: front.dashboard._viewers == MAX_VIEWERS - 1)
        async with front.stream("/v1/operations/events") as answer:
            assert answer.status_code == 200


async def test_nothing_is_asked_when_nobody_looks() -> None:
    front = Ops()
    async with front.serving():
        await front.get("/health")
        assert front.source.asked == []


async def test_the_documents_are_described() -> None:
    front = Ops()
    async with front.serving():
        described = (await front.get("/openapi.json")).json()
    found = described["components"]["schemas"]
    assert schemas().keys() <= found.keys()
    paths = [path for path in described["paths"] if path.startswith("/v1/operations")]
    assert len(paths) == 4
    answer = described["paths"]["/v1/operations"]["get"]["responses"]["200"]
    (schema,) = [one["schema"] for one in answer["content"].values()]
    assert schema == {"$ref": "#/components/schemas/Operations"}


async def test_the_last_hour_is_for_operators() -> None:
    secret, operator = new_key("ops", None, ["operations"])
    front = Ops([operator])
    front.loads.update(ProcessorLoad(1, 1.0, 3, 2, 0.5, 0.1))
    front.history.record()
    async with asyncio.timeout(60), front.serving():
        assert (await front.get("/v1/operations/history")).status_code == 401
        answer = await front.get("/v1/operations/history", secret)
    fits(answer.json(), "OperationsHistory")
    assert [moment["sessions"] for moment in answer.json()["moments"]] == [3]
