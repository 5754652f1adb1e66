"""Help, completion, and output of the command line for terminals and files."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from auricle.cli import main
from auricle.cli.common import Command
from auricle.cli.page import PAGE, cli_page, commands
from auricle_testing.server import READY_SECONDS, ROOT

pytestmark = pytest.mark.unit
COMMANDS = dict(commands())


def test_the_page_is_current() -> None:
    assert (ROOT / PAGE).read_text() == cli_page(), "run: make interfaces"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_and_exit_statuses(name: str) -> None:
    done = CliRunner().invoke(main, [*name.split()[1:], "--help"])
    assert done.exit_code == 0
    assert COMMANDS[name].short_help
    assert f"Examples:\n  {COMMANDS[name].examples[0]}" in done.output
    assert {0, 1, 2, 130} <= COMMANDS[name].exits.keys()
    assert "Exit status:\n  0 " in done.output


EXAMPLES = [(name, example) for name, command in COMMANDS.items() for example in command.examples]


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_every_example_is_one_that_the_command_takes(
    name: str, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test parses the examples and does not run them: it detects renamed options."""
    (tmp_path / "key.txt").touch()
    monkeypatch.chdir(tmp_path)
    line = example.removeprefix('eval "$(').removesuffix(')"').partition(" |")[0].partition(" >")[0]
    words = shlex.split(line.replace("*", "1"))
    assert words[: len(name.split())] == name.split()
    COMMANDS[name].make_context(name, words[len(name.split()) :])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_arguments_are_exit_status_2_and_do_nothing(name: str) -> None:
    words = name.split()[1:]
    wrong = {"serve": ["--config"], "component": ["Nobody"], "profile": ["--out"]}
    done = CliRunner().invoke(main, [*words, *wrong.get(words[-1], ["--nothing-such"])])
    assert (done.exit_code, done.stdout) == (2, ""), done.output


def completed(words: str, shell: str = "bash") -> list[str]:
    """The shell's completions of a command line for its last word."""
    given = {
        "_AURICLE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = CliRunner().invoke(main, [], prog_name="auricle", env=given)
    lines = done.stdout.splitlines()
    return [line.partition(",")[2] for line in lines] if shell == "bash" else lines


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("auricle ser", ["serve"]),
        ("auricle models ch", ["check"]),
        ("auricle models pull whisper-t", ["whisper-tiny.en"]),
        ("auricle component Enc", ["EncodeWorker"]),
        (
            "auricle serve graphs.e_pd",
            [
                f"graphs.e_pd{name}:"
                for name in ("", "_align", "_align_diarize", "_diarize", "_translate", "_words")
            ],
        ),
        ("auricle serve graphs.e_pd:Frontend --Plan", ["--Planner."]),
        ("auricle serve graphs.e_pd:Frontend --Frontend.tls_", None),
        ("auricle check-config x.yaml --Planner.pd.max", ["--Planner.pd.maximum="]),
        ("auricle check-config x.yaml --js", ["--json"]),
        ("auricle completion z", ["zsh"]),
    ],
)
def test_commands_graphs_components_and_settings_are_completed(
    line: str, found: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    expected = found or ["--Frontend.tls_certificate=", "--Frontend.tls_key="]
    assert completed(line) == expected


def test_bash_takes_the_script_and_asks_the_command(tmp_path: Path) -> None:
    program = tmp_path / "auricle"
    code = "from auricle.cli import main; main(prog_name='auricle')"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    program.chmod(0o700)
    line = "COMP_WORDS=(auricle check-c); COMP_CWORD=1; _auricle_completion auricle; "
    script = f'eval "$(auricle completion bash)"; {line} echo "${{COMPREPLY[@]}}"'
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=READY_SECONDS,
        check=True,
    )
    assert done.stdout.strip() == "check-config", done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_AURICLE_COMPLETE={shell}_complete" in done.stdout


def on_a_terminal(*arguments: str, **variables: str) -> str:
    """A command's output on a terminal."""
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", **variables}
    code = (
        "from rich.console import Console\n"
        "from auricle.launcher.output import StatusBoard\n"
        "board = StatusBoard(['Frontend'], Console(), quiet=False)\n"
        "board.log('Frontend', '\\x1b[31ma line\\x1b[0m')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=theirs, env=environment
    ) as process:
        process.wait(READY_SECONDS)
    os.close(theirs)
    try:
        return os.read(ours, 65536).decode()
    finally:
        os.close(ours)


def test_colours_are_for_terminals_without_no_color() -> None:
    assert "\x1b[" in on_a_terminal()
    assert on_a_terminal(NO_COLOR="1").split() == ["Frontend", "a", "line"]


def test_there_is_no_colour_without_a_terminal() -> None:
    for arguments in (["--help"], ["models", "check", str(ROOT / "models/demo")]):
        done = subprocess.run(
            [sys.executable, "-m", "auricle", *arguments],
            env={**os.environ, "TERM": "xterm-256color"},
            capture_output=True,
            text=True,
            timeout=READY_SECONDS,
            check=True,
        )
        assert "\x1b" not in done.stdout


def test_the_commands_are_all_of_the_kind_that_has_examples() -> None:
    assert all(isinstance(command, Command) for command in COMMANDS.values())
    assert {"auricle serve", "auricle models check", "auricle status"} <= COMMANDS.keys()


def test_auricle_bench_becomes_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("os.execv", lambda _program, command: became.append(command))
    url = "http://127.0.0.1:1"
    assert CliRunner().invoke(main, ["bench", "--url", url, "--out", "here"]).exit_code == 0
    (command,) = became
    assert command[1:] == ["-m", "benchmarks.two_minutes", "--out", "here", "--url", url]


def test_auricle_bench_says_where_it_is_at_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["bench"])
    assert done.exit_code == 1
    assert "run auricle bench in the folder of auricle's repository" in done.output
