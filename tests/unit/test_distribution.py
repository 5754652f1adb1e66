"""The distribution of tests starts few graphs, and limits those that run at a time."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdist.remote import Producer

from auricle_testing.server import ROOT
from tests.distribution import (
    GRAPHS_OF_THEIR_OWN,
    GRAPHS_ON_ETCD,
    ByGraph,
    graph_of,
)
from tests.structure import imports

pytestmark = pytest.mark.unit
MODULES = (
    *(f"tests/faults/test_{n}.py" for n in "ab"),
    *(f"tests/graph/test_{n}.py" for n in "cdefg"),
    "tests/integration/observed/test_h.py",
    *(f"tests/integration/{name}" for name in sorted(GRAPHS_OF_THEIR_OWN | GRAPHS_ON_ETCD)),
    "tests/integration/test_i.py",
    *(f"tests/unit/test_{n}.py" for n in "jklmn"),
)


class Process:
    """Like xdist's: it runs a test after it has received the next one, or the end."""

    gateway = SimpleNamespace(id="test")

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()
        self.ran: list[str] = []  # modules of its tests
        self.shutting_down = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.waiting.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_run(self) -> bool:
        return len(self.waiting) > 1 or bool(self.waiting and self.shutting_down)

    @property
    def starts(self) -> list[str]:
        """The graphs that it has started, in order."""
        graphs = [graph_of(module) for module in self.ran]
        before = [None, *graphs]
        return [now for now, then in zip(graphs, before, strict=False) if now and now != then]


class Run:
    """A run of all `tests`; `chance` decides which process finishes next."""

    def __init__(
        self, tests: Sequence[str], processes: int, graphs: int, chance: random.Random
    ) -> None:
        self.processes = [Process() for _ in range(processes)]
        self.most_graphs = 0
        self._tests = tests
        config = SimpleNamespace(
            option=SimpleNamespace(loadscopereorder=True), getvalue=lambda _: ["popen"] * processes
        )
        self._scheduling = ByGraph(cast(Any, config), Producer("test", enabled=False), graphs)
        for process in self.processes:
            self._scheduling.add_node(cast(Any, process))
        for process in self.processes:
            self._scheduling.add_node_collection(cast(Any, process), tests)
        self._scheduling.schedule()
        while self._scheduling.has_pending:
            self._finish_one(chance)

    def _finish_one(self, chance: random.Random) -> None:
        if self._scheduling.tests_finished:
            for process in self.processes:
                process.shutdown()
        self.most_graphs = max(self.most_graphs, sum(map(self._has_graph, self.processes)))
        able = [process for process in self.processes if process.can_run]
        assert able, "all processes wait for each other"
        process = chance.choice(able)
        index = process.waiting.popleft()
        process.ran.append(self._module(index))
        self._scheduling.mark_test_complete(cast(Any, process), index)

    def _module(self, index: int) -> str:
        return self._tests[index].split("::")[0]

    def _has_graph(self, process: Process) -> bool:
        """Whether its graph runs: the current test needs it, or the next one does."""
        graph = graph_of(self._module(process.waiting[0])) if process.waiting else None
        kept = bool(process.ran) and graph == graph_of(process.ran[-1])
        return graph is not None and (kept or process.can_run)


def collected(modules: Sequence[str]) -> list[str]:
    """A test for each occurrence of a module, in the order of a collection."""
    return [f"{m}::test_{n}" for n, m in enumerate(sorted(modules, key=MODULES.index))]


@given(
    st.lists(st.sampled_from(MODULES), min_size=1).map(collected),
    st.integers(1, 5),
    st.integers(1, 3),
    st.randoms(),
)
def test_every_test_is_run_once_and_few_graphs_at_a_time(
    tests: list[str], processes: int, graphs: int, chance: random.Random
) -> None:
    run = Run(tests, processes, graphs, chance)
    ran = [module for process in run.processes for module in process.ran]
    assert sorted(ran) == sorted(test.split("::")[0] for test in tests)
    assert run.most_graphs <= graphs
    starts = [graph for process in run.processes for graph in process.starts]
    # Only the graph whose tests leave it unchanged may run in a second process.
    assert sorted(starts) in (sorted({*starts}), sorted([*{*starts}, "tests/graph"]))
    assert all(len(process.starts) == len({*process.starts}) for process in run.processes)


def test_the_third_process_does_meanwhile_what_needs_no_graph() -> None:
    tests = collected(MODULES * 5)
    for seed in range(20):
        first, second, third = Run(tests, 3, 2, random.Random(seed)).processes
        assert (first.starts[0], second.starts[0]) == ("tests/faults", "tests/graph")
        assert set(third.starts) <= {"tests/graph"}
        assert graph_of(third.ran[0]) is None


def test_who_would_be_idle_takes_a_part_of_the_modules_that_share_a_graph() -> None:
    tests = collected([module for module in MODULES if "tests/graph/" in module] * 5)
    first, second, third = Run(tests, 3, 2, random.Random(0)).processes
    assert first.starts == second.starts == ["tests/graph"]
    assert not third.ran
    assert len({*first.ran} & {*second.ran}) == 0


def test_modules_that_start_a_graph_are_known() -> None:
    modules = (ROOT / "tests/integration").glob("test_*.py")
    found = {
        module.name for module in modules if "auricle_testing.server.serving" in imports(module)
    }
    # These modules start a graph with the command that a user types.
    assert found == (GRAPHS_OF_THEIR_OWN | GRAPHS_ON_ETCD) - {"test_commands.py"}


def test_ci_runs_what_make_test_leaves_out() -> None:
    recipe = r'^([\w-]+):.*\n\t\$\(BIN\)/pytest -n [34] -m "?([\w ]+?)"?(?: tests/.*)?$'
    chosen = dict(re.findall(recipe, (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert chosen == {"test": "not deployment", "test-deployments": "deployment"}
    run = [line.split(" || ")[0] for line in (ROOT / ".ci/run").read_text().splitlines()]
    assert {f"make {target}" for target in chosen} <= {*run}


def test_the_graph_of_a_folder_is_not_started_once_more_for_a_module_in_the_other_run() -> None:
    """Both `tests/faults` and `tests/graph` have tests in both runs."""
    for folder in {path.parent for path in (ROOT / "tests/integration").glob("*/test_*.py")}:
        files = folder.glob("test_*.py")
        marked = {file.name: "pytest.mark.deployment" in file.read_text() for file in files}
        assert len({*marked.values()}) == 1, marked
