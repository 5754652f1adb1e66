"""The data type `auto`: chosen by the CPU's features, the same in all processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle.config import common
from auricle.config.common import multiplies_bfloat16
from auricle.config.settings import SECTIONS, CommonSettings
from auricle.core.errors import SettingsError
from auricle.launcher.config import load_config, settings_for

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("line", "can"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_tile", True),
        ("flags\t\t: fpu avx512f amx_bf16", True),
        ("flags\t\t: fpu avx2 avx512f avx512_vnni", False),
        ("Features\t: fp asimd bf16 i8mm", True),
        ("model name\t: a processor with bf16 in its name", False),
    ],
)
def test_the_processors_flags_say_whether_it_multiplies_bfloat16(
    tmp_path: Path, line: str, can: bool
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\n{line}\n\nprocessor\t: 1\n{line}\n")
    assert multiplies_bfloat16(cpuinfo) is can


def test_without_flags_it_is_float32(tmp_path: Path) -> None:
    assert not multiplies_bfloat16(tmp_path / "none")


@pytest.mark.parametrize(("can", "dtype"), [(True, "bfloat16"), (False, "float32")])
def test_all_components_have_the_type_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, can: bool, dtype: str
) -> None:
    monkeypatch.setattr(common, "multiplies_bfloat16", lambda: can)
    sections = load_config(None, ["--Common.dtype=auto"])
    assert {settings_for(name, sections, "here").dtype for name in SECTIONS} == {dtype}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["--Common.discovery=etcd"], "works on one machine only, but discovery is etcd"),
        (["--EncodeWorker.device=cuda"], "works on CPUs only, but device is cuda"),
    ],
)
def test_it_is_refused_where_machines_may_differ_and_on_gpus(
    overrides: list[str], said: str
) -> None:
    sections = load_config(None, ["--Common.dtype=auto", *overrides])
    with pytest.raises(SettingsError, match=said):
        settings_for("EncodeWorker", sections, "here")


def test_a_named_type_is_kept() -> None:
    assert CommonSettings(dtype="float16").dtype == "float16"
