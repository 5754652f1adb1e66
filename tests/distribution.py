"""Distribution of the tests over pytest's processes.

Tests of a graph wait more than they compute, so there are more processes than cores. However, only
some graphs with file discovery run at a time (`graphs_at_a_time`).
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# A graph takes about 30 inotify instances, with several frontends more. Linux grants a user 128 by
# default, which is enough for two graphs.
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
_FOR_THREE_GRAPHS = 256
# In each other folder, all tests share a graph.
FOLDERS_WITHOUT_GRAPH = {"unit", "integration", "tests"}
# Modules in those folders that start graphs of their own.
GRAPHS_OF_THEIR_OWN = {
    *("test_commands.py", "test_dynamo_frontend.py", "test_languages.py", "test_ops_page.py"),
    *("test_planner.py", "test_sglang_graph.py", "test_transformers_graph.py"),
    "test_translation.py",
    *("test_ordinary_speech.py", "test_whisper_graph.py"),
}
# Processes of this module's graphs use etcd for discovery, which takes no inotify instances.
GRAPHS_ON_ETCD = {"test_etcd_nats.py"}
# The tests of this folder leave the graph unchanged. A process without work starts the same graph
# once more for some of its modules, if at least this number of modules is left.
SHARED_OUT, WORTH_A_GRAPH = "graph", 3


class ByGraph(LoadScopeScheduling):
    """Gives each process one module at a time, first of the graph that it has.

    After that it takes a graph that no process has, and last the modules without a graph: they are
    many and short, so that all processes end at about the same time.
    """

    def __init__(self, config: pytest.Config, log: Any, graphs: int) -> None:
        super().__init__(config, log)
        self._most_graphs = graphs
        # Keep the order of names: the module with the most tests is not the slowest.
        config.option.loadscopereorder = False

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Record the end of a test, and assign work to the processes that waited for it."""
        super().mark_test_complete(node, item_index, duration)
        for other in self.nodes:
            # A process that replaces a crashed one has not collected its tests yet.
            if other is not node and other in self.registered_collections:
                self._reschedule(other)

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        module = self._next_module(node)
        if module is not None:
            self.workqueue.move_to_end(module, last=False)
            super()._assign_work_unit(node)

    def _next_module(self, node: WorkerController) -> str | None:
        """The next module for the process; None if all remaining ones need one graph too many."""
        others = [self._graphs(other) for other in self.nodes if other is not node]
        own, taken = self._graphs(node), set[str]().union(*others)
        may_start = sum(map(bool, others)) < self._most_graphs
        left: dict[str | None, list[str]] = {None: []}
        for module in self.workqueue:
            left.setdefault(graph_of(module), []).append(module)
        graphs = {name: modules for name, modules in left.items() if name is not None}
        choices = [modules for name, modules in graphs.items() if name in own]
        if may_start:
            choices += [modules for name, modules in graphs.items() if name not in taken]
        choices.append(left[None])
        if may_start:
            choices += [modules for name, modules in graphs.items() if _is_shared(name, modules)]
        return next((modules[0] for modules in choices if modules), None)

    def _graphs(self, node: WorkerController) -> set[str]:
        """The graphs of a process that run or will run: some of its tests are not done."""
        assigned = self.assigned_work[node].items()
        pending = (module for module, done in assigned if not all(done.values()))
        return {graph for module in pending if (graph := graph_of(module)) is not None}


def graphs_at_a_time(processes: int) -> int:
    """Return the number of graphs with file discovery that may run at a time.

    With three processes, one is left to tests without a graph.
    """
    return 3 if processes > 3 and int(_INSTANCES.read_text()) >= _FOR_THREE_GRAPHS else 2


def graph_of(module: str) -> str | None:
    """The name of the graph of a module's tests, if it has one with file discovery."""
    path = PurePath(module)
    if path.parent.name not in FOLDERS_WITHOUT_GRAPH:
        return str(path.parent)
    return module if path.name in GRAPHS_OF_THEIR_OWN else None


def _is_shared(graph: str, modules: list[str]) -> bool:
    return PurePath(graph).name == SHARED_OUT and len(modules) >= WORTH_A_GRAPH
