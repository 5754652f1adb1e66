"""Every published measurement has a short form, and its runner detects failures."""

from __future__ import annotations

import pytest

from auricle_testing.server import ROOT
from benchmarks.smoke.commands import SHORT
from benchmarks.smoke.published import published

pytestmark = pytest.mark.unit


def test_every_published_command_has_a_short_form_and_every_short_form_a_published_command() -> (
    None
):
    covered = {command for short in SHORT for command in short.stands_for}
    assert published(ROOT) == covered
