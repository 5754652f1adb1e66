"""`auricle component NAME --check` checks all requirements of a component, and reports problems."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auricle.checkpoints.files import open_checkpoint
from auricle.config.settings import SECTIONS, CommonSettings, EncodeWorkerSettings, FrontendSettings
from auricle.core.errors import CheckpointError, SettingsError
from auricle.frontend.needs import needs as needs_of_a_frontend
from auricle.launcher import component
from auricle.launcher.component import check_component, needs_of
from auricle.process.needs import Need, check_compiler, checkpoint, imports
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
# Only environments for GPUs have the first two; the last one has a substitute.
OPTIONAL = {"pynvml", "torch.nn.attention.varlen", "websockets.speedups"}


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """A check sets variables, like the component; this restores them."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def source(module: str) -> Path | None:
    path = ROOT / "components" / module.replace(".", "/")
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def names(node: ast.AST) -> list[str]:
    """Modules that a statement imports; names from our own modules may be modules, too."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        inside = [f"{node.module}.{alias.name}" for alias in node.names]
        return [node.module, *(name for name in inside if source(name))]
    return []


def imported(tree: ast.AST, late: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the imported modules, and whether the import is inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield from ((name, late) for name in names(node))
        yield from imported(node, late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def late_libraries(main: str) -> set[str]:
    """Library modules that only late imports load, among the modules that `main` reaches."""
    waiting, seen = [main], set[str]()
    found: set[tuple[str, bool]] = set()
    while waiting:
        name = waiting.pop()
        path = source(name)
        if path is not None and name not in seen:
            seen.add(name)
            inside = set(imported(ast.parse(path.read_text())))
            found |= inside
            waiting += [other for other, _ in inside]
    at_once = {name for name, late in found if not late}
    ours = {"auricle", *sys.stdlib_module_names}
    return {n for n, late in found if late and n.partition(".")[0] not in ours} - at_once


def modules_of(needs: Any) -> tuple[str, ...]:
    (modules,) = next(need.check.args for need in needs if need.what == "imports")
    return tuple(modules)


def settings_of(name: str) -> CommonSettings:
    demo = ROOT / "models/demo"
    return SECTIONS[name](
        align_model=demo, speaker_model=ROOT / "models/speakers", translate_model=demo
    )


@pytest.mark.parametrize("name", SECTIONS)
def test_what_a_component_imports_late_is_looked_at(name: str) -> None:
    """Otherwise the missing module would be found only by a session or in a deployment."""
    main = f"{component.PACKAGES[name]}.main"
    looked_at = modules_of(needs_of(name, settings_of(name)))
    assert looked_at[0] == main
    covered = {".".join(m.split(".")[: n + 1]) for m in looked_at for n in range(m.count(".") + 1)}
    ours = [m for m in looked_at if m.startswith("auricle")]
    late = set[str]().union(*map(late_libraries, ours))
    # The vLLM plug-in is imported as a whole, and its late imports of vLLM are available by then.
    late = {m for m in late if not m.startswith("vllm.") or "vllm" not in covered}
    assert late - covered - OPTIONAL == set()


def test_a_gpu_needs_more() -> None:
    found = needs_of("EncodeWorker", EncodeWorkerSettings(device="cuda"))
    assert {"pynvml", "torch.nn.attention.varlen"} <= set(modules_of(found))
    with pytest.raises(SettingsError, match="device is cuda, but the installed PyTorch is built"):
        found[-1].check()


def test_modules_that_can_be_imported_are_counted() -> None:
    assert imports("json", "torch").check().startswith("2 modules, torch ")


def test_a_package_that_is_missing_is_named_once_with_all_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("needing_one", "needing_two"):
        (tmp_path / f"{name}.py").write_text("import not_installed.part")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError) as caught:
        imports("needing_one", "json", "needing_two").check()
    said = str(caught.value)
    assert said.startswith("no module named not_installed (needing_one, needing_two). Install ")
    assert "requirements/gpu.txt" in said


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "raise OSError('libcuda.so.1: no such file\\nmore')",
            "OSError: libcuda.so.1: no such file ",
        ),
        ("raise SystemExit", "SystemExit: no reason given"),
        ("from json import no_such_name", "ImportError: cannot import name 'no_such_name'"),
    ],
)
def test_a_library_that_is_broken_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, says: str
) -> None:
    (tmp_path / "broken_library.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError) as caught:
        imports("broken_library").check()
    assert f"broken_library fails with {says}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_is_read() -> None:
    known = open_checkpoint(ROOT / "models/demo").fingerprint
    assert checkpoint(ROOT / "models/demo").check().endswith(known)
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        checkpoint(ROOT / "docs").check()


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "certificate.pem"
    path.write_text("none")
    settings = FrontendSettings(tls_certificate=path, tls_key=path)
    needed = {need.what: need for need in needs_of_a_frontend(settings)}
    with pytest.raises(SettingsError, match=rf"Frontend\.tls_certificate {path} .* cannot be used"):
        needed["TLS"].check()


def test_all_that_is_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> str:
        raise SettingsError("no")

    needs = [Need("first", fails), Need("second", lambda: "well"), Need("third", fails)]
    monkeypatch.setattr(component, "needs_of", lambda *_: needs)
    assert not check_component("Processor", None, ["--Common.dtype=bfloat16"])
    said = "configuration: the command line is valid\nfirst: FAILED: no\nsecond: well\n"
    assert capsys.readouterr().out == said + "third: FAILED: no\n"
    monkeypatch.setattr(component, "needs_of", lambda *_: needs[1:2])
    assert check_component("Processor", None, [])


@pytest.mark.parametrize(
    ("name", "override", "says"),
    [
        ("Procesor", "--Common.dtype=bfloat16", "unknown component 'Procesor'; known: Frontend"),
        ("Processor", "--Common.dtyp=bfloat16", "Common.dtyp: unknown key; did you mean dtype?"),
        ("Processor", "--Common.discovery=etcd", "Common.secret_file is not set"),
    ],
)
def test_a_configuration_that_is_wrong_is_one_line(
    name: str,
    override: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(component, "needs_of", lambda *_: [])
    assert not check_component(name, None, [override])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("configuration: FAILED: ") and says in line


def test_a_gpu_needs_a_compiler_and_the_headers_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "gcc"
    compiler.write_text("")
    compiler.chmod(0o700)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match=r"Python's headers are missing .*: install python3"):
        check_compiler(tmp_path)
    (tmp_path / "Python.h").touch()
    check_compiler(tmp_path)
    monkeypatch.setenv("CC", "clang-99")
    with pytest.raises(SettingsError, match="clang-99 is not installed: install gcc"):
        check_compiler(tmp_path)
    compiler.unlink()
    monkeypatch.delenv("CC")
    with pytest.raises(SettingsError, match="gcc or clang is not installed"):
        check_compiler(tmp_path)
