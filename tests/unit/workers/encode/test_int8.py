"""Linear layers of 8 bits, and where they are available."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from auricle.checkpoints.files import open_checkpoint
from auricle.config.settings import EncodeWorkerSettings
from auricle.core.errors import SettingsError
from auricle.workers.encode.int8 import Int8Linear, quantise
from auricle.workers.encode.main import encoder_for
from auricle_testing.server import ROOT

pytestmark = pytest.mark.unit
DEMO = ROOT / "models/demo"


def rows(number: int, width: int) -> torch.Tensor:
    """Rows of very different magnitudes, the last of zeros."""
    made = torch.randn(number, width, generator=torch.Generator().manual_seed(1))
    return (
        made * torch.logspace(-3, 2, number)[:, None] * (torch.arange(number) < number - 1)[:, None]
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("levels", ["with VNNI", "without"])
def test_each_row_is_close_whatever_the_others_are(
    bias: bool, levels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vnni = levels == "with VNNI"
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_vnni": vnni})
    torch.manual_seed(0)
    layer = nn.Linear(96, 40, bias=bias)
    with torch.inference_mode():
        inputs = rows(12, 96)
        exact, found = layer(inputs), Int8Linear(layer)(inputs)
        if bias:
            exact, found = exact - layer.bias, found - layer.bias
        errors = (found - exact).norm(dim=1) / exact.norm(dim=1).clamp_min(1e-9)
    assert errors.max() < (0.02 if vnni else 0.04)


def test_a_row_alone_gives_the_same_values() -> None:
    layer, inputs = Int8Linear(nn.Linear(96, 40)), rows(12, 96)
    with torch.inference_mode():
        together = layer(inputs)
        for number, row in enumerate(inputs):
            assert torch.equal(layer(row[None])[0], together[number])


def test_linear_layers_at_any_depth_are_replaced() -> None:
    block = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Sequential(nn.Linear(8, 4)))
    quantise(block)
    kinds = [type(module) for module in block.modules() if not isinstance(module, nn.Sequential)]
    assert kinds == [Int8Linear, nn.LayerNorm, Int8Linear]


def test_a_compute_type_is_for_whisper_in_float32_on_a_cpu() -> None:
    def settings(**values: str) -> EncodeWorkerSettings:
        return EncodeWorkerSettings.model_validate(
            {"model": DEMO, "dtype": "float32", "compute_type": "int8"} | values
        )

    with pytest.raises(
        ValidationError, match=r"compute_type is int8, .* device cuda:0: set it to null"
    ):
        settings(device="cuda:0")
    with pytest.raises(ValidationError, match=r"compute_type is int8, .* dtype is bfloat16"):
        settings(dtype="bfloat16")
    with pytest.raises(SettingsError, match="compute_type is int8, a setting of Whisper's encoder"):
        encoder_for(open_checkpoint(DEMO), settings())
