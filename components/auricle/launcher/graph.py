"""Graphs: the components of a service and which component calls which.

A graph file declares them (see graphs/e_pd.py). `auricle serve graphs.e_pd:Frontend` starts
the named component and all components that it links to.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

from auricle.config.settings import refuse_unknown
from auricle.core.errors import SettingsError


@dataclass(frozen=True)
class Component:
    """A type of process; `name` is also its section in config files."""

    name: str
    links: tuple[Component, ...] = ()

    def link(self, *others: Component) -> Component:
        """Return this component with links to `others`, which it calls."""
        return Component(self.name, (*self.links, *others))

    def in_start_order(self) -> list[str]:
        """Return the names of this component and all that it links to, callees first."""
        order: list[str] = []
        for other in self.links:
            order += [name for name in other.in_start_order() if name not in order]
        return [*order, self.name]

    def in_stop_order(self) -> list[list[str]]:
        """Return the names of the same components in groups, callers before all that they call."""
        steps: dict[str, int] = {}

        def follow(component: Component, step: int) -> None:
            steps[component.name] = max(step, steps.get(component.name, 0))
            for other in component.links:
                follow(other, step + 1)

        follow(self, 0)
        return [[n for n in steps if steps[n] == step] for step in range(max(steps.values()) + 1)]


def component(name: str) -> Component:
    """Declare a component. Raises SettingsError for an unknown name."""
    refuse_unknown(name)
    return Component(name)


def load_graph(target: str) -> Component:
    """Return the component that `target`, as `package.module:Name`, names.

    Adds the working directory to `sys.path`. Raises SettingsError if the target has another
    form, or the module or the component does not exist.
    """
    module_name, _, attribute = target.partition(":")
    if not attribute:
        raise SettingsError(f"graph {target!r} must be of the form graphs.e_pd:Frontend")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise SettingsError(f"no graph file {module_name!r}: {error}") from None
    found = getattr(module, attribute, None)
    if not isinstance(found, Component):
        names = [n for n, v in vars(module).items() if isinstance(v, Component)]
        raise SettingsError(f"{module_name} declares no {attribute!r}; it has {', '.join(names)}")
    return found
