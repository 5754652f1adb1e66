"""The alert rules use existing metrics, and each rule is documented."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from auricle.process.metrics import Registry
from auricle_testing.metric_names import exported
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
FOLDER = ROOT / "deploy/prometheus"
(GROUP,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
RULES: list[dict[str, Any]] = GROUP["rules"]
PAGE = (ROOT / "docs/operations.md").read_text()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_is_of_metrics_that_exist(rule: dict[str, Any]) -> None:
    of_any_process = set(re.findall(r"^(\w+)", Registry().text(), re.MULTILINE)) | {"up"}
    used = set(re.findall(r"\b((?:auricle|process|up)\w*)\b", rule["expr"])) - {"auricle"}
    assert used
    assert used <= exported().keys() | of_any_process


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_has_labels_that_exist(rule: dict[str, Any]) -> None:
    known = set[str]().union(*exported().values()) | {"job", "instance", "le"}
    told = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
    asked = re.findall(r"[{,](\w+)=", rule["expr"]) + re.findall(r"by \((\w+)\)", rule["expr"])
    assert {*told, *asked} <= known
    assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_alert_is_explained_and_no_other() -> None:
    assert re.findall(r"^\| `(Auricle\w+)` \|", PAGE, re.MULTILINE) == [r["alert"] for r in RULES]


def test_the_errors_that_count_as_the_servers_are_codes() -> None:
    from auricle.core.errors import AuricleError

    def codes(kind: type[AuricleError]) -> set[str]:
        return {kind.code}.union(*(codes(one) for one in kind.__subclasses__()))

    (rule,) = (rule for rule in RULES if rule["alert"] == "AuricleSessionsFail")
    (named,) = re.findall(r'result=~"([^"]+)"', rule["expr"])
    assert set(named.split("|")) <= codes(AuricleError)


def test_the_rules_are_those_that_the_example_loads() -> None:
    example = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert all((FOLDER / name).is_file() for name in example["rule_files"])
    (job,) = example["scrape_configs"]
    assert job["job_name"] == "auricle"
