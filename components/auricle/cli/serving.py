"""Commands that run components, profile them, and render manifests."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from auricle.cli.common import (
    FAILED,
    INTERRUPTED,
    OVERRIDABLE,
    Command,
    complete_component,
    complete_graph,
    config_file,
    ending,
    run,
)
from auricle.core.errors import SettingsError

_overrides = click.argument("overrides", nargs=-1, type=click.UNPROCESSED)
_graph = click.argument("graph", shell_complete=complete_graph)


@click.command(
    short_help="Run every component of a graph on this machine.",
    cls=Command,
    context_settings=OVERRIDABLE,
    examples=(
        "auricle serve graphs.e_pd:Frontend -f configs/demo.yaml",
        "auricle serve graphs.e_pd:Frontend -f configs/demo.yaml --Frontend.port=9000",
        "auricle serve graphs.e_pd:Frontend -f configs/whisper.yaml --Common.model=whisper-tiny.en",
    ),
    exits={
        0: "stopped: by SIGTERM after draining, by Ctrl-C without",
        INTERRUPTED: "interrupted by Ctrl-C before the processes started",
    },
)
@_graph
@config_file
@_overrides
def serve(graph: str, config: Path | None, overrides: tuple[str, ...]) -> None:
    """Run every component of GRAPH (such as graphs.e_pd:Frontend) on this machine.

    OVERRIDES are settings of the form --Component.key=value; docs/settings.md lists all.
    """
    from rich.console import Console

    from auricle.launcher.serve import serve as work

    run(lambda: work(graph, config, overrides, console=Console()))


@click.command(
    short_help="Run one component in this process.",
    cls=Command,
    context_settings=OVERRIDABLE,
    examples=(
        "auricle component EncodeWorker -f configs/demo.yaml --Common.discovery_path=/run/auricle",
        "auricle component PdWorker -f configs/demo.yaml --Common.discovery_path=/run/auricle",
        "auricle component PdWorker -f configs/h100-0.6b.yaml --check",
    ),
    exits={
        0: "stopped: by SIGTERM after draining, by Ctrl-C without; with --check: it can run",
        1: "failed; one line on standard error has the reason; with --check: a failed check",
        INTERRUPTED: "interrupted by Ctrl-C during startup",
    },
)
@click.argument("name", shell_complete=complete_component)
@config_file
@click.option(
    "--check",
    "only_check",
    is_flag=True,
    help="check configuration, checkpoint and imports instead: no device, no network",
)
@_overrides
def component(name: str, config: Path | None, only_check: bool, overrides: tuple[str, ...]) -> None:
    """Run the component NAME in this process, as in a container.

    OVERRIDES are settings of the form --Component.key=value; docs/settings.md lists all.
    --check prints a line for each check.
    """
    from auricle.config.settings import refuse_unknown
    from auricle.launcher.component import check_component

    try:
        refuse_unknown(name)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    with ending():
        if only_check:
            sys.exit(0 if check_component(name, config, overrides) else FAILED)
        from auricle.launcher.component import component_settings, run_component

        run_component(name, component_settings(name, config, overrides))


@click.command(
    short_help="Measure the capacity of a worker of each pool.",
    cls=Command,
    context_settings=OVERRIDABLE,
    examples=(
        "auricle profile -f configs/demo.yaml --out profile.json",
        "auricle profile -f configs/h100-0.6b.yaml --out h100.json --audio calls/*.wav",
    ),
)
@config_file
@click.option("--out", type=click.Path(path_type=Path), required=True, help="profile to write")
@click.option(
    "--audio",
    type=click.Path(path_type=Path),
    multiple=True,
    help="typical speech, may be repeated; default: the checkpoint's own recordings",
)
@_overrides
def profile(
    config: Path | None, out: Path, audio: tuple[Path, ...], overrides: tuple[str, ...]
) -> None:
    """Measure the capacity of one worker of each pool on this machine, for the planner.

    Optional pools are measured if their models are set.

    OVERRIDES are settings of the form --Component.key=value; docs/settings.md lists all.
    """
    from rich.console import Console

    from auricle.tools.profiling.run import profile as work

    run(lambda: work(config, overrides, out, audio, Console()))


@click.command(
    short_help="Write Kubernetes manifests.",
    cls=Command,
    context_settings=OVERRIDABLE,
    examples=(
        "auricle render graphs.e_pd:Frontend -f configs/h100-0.6b.yaml",
        "auricle render graphs.e_pd:Frontend -f configs/h100-0.6b.yaml --out manifests",
        "auricle render graphs.e_pd:Frontend -f configs/whisper.yaml --Kubernetes.namespace=speech",
        "auricle render graphs.e_pd_align:Frontend -f mine.yaml --chart --out charts/mine",
    ),
)
@_graph
@click.option("-f", "--config", type=click.Path(path_type=Path), required=True, help="config file")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="folder for the manifests; default: deploy/k8s/NAME-OF-THE-CONFIG, of a chart build/chart",
)
@click.option("--chart", is_flag=True, help="write a Helm chart of the manifests instead")
@_overrides
def render(
    graph: str, config: Path, out: Path | None, chart: bool, overrides: tuple[str, ...]
) -> None:
    """Write Kubernetes manifests for GRAPH (such as graphs.e_pd:Frontend).

    OVERRIDES are settings of the form --Component.key=value; docs/settings.md lists all.
    """
    from auricle.tools.rendering.chart import write_chart
    from auricle.tools.rendering.write import render as work

    with ending():
        if chart:
            written = write_chart(
                out or Path("build/chart"), {config.stem: config}, graph, overrides
            )
        else:
            written = work(graph, config, out or Path("deploy/k8s") / config.stem, overrides)
        for path in written:
            click.echo(path)
