"""What a service is made of: components and which calls which.

A graph file declares them in a few lines (graphs/e_pd.py); `auricle serve
graphs.e_pd:Frontend` starts everything the named component links to.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import SettingsError
from auricle.settings import SECTIONS


@dataclass(frozen=True)
class Component:
    """A process type; `name` is also its section in config files."""

    name: str
    links: tuple[Component, ...] = ()

    def link(self, *others: Component) -> Component:
        """This component, calling `others`."""
        return Component(self.name, (*self.links, *others))

    def in_start_order(self) -> list[str]:
        """Names of all components reachable from here, callees before callers."""
        order: list[str] = []
        for other in self.links:
            order += [name for name in other.in_start_order() if name not in order]
        return [*order, self.name]


def component(name: str) -> Component:
    """Declare a component; raises SettingsError for a name auricle does not have."""
    if name not in SECTIONS:
        raise SettingsError(f"unknown component {name!r}; known: {', '.join(SECTIONS)}")
    return Component(name)


def load_graph(target: str) -> Component:
    """`package.module:Name` → the component; raises SettingsError saying what is missing."""
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
