"""Write a trained translator as a checkpoint in the published Qwen3 format.

python -m models.training.translate.export --work build/translate --output models/demo-translate
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from models.training.translate.geometry import CHAT_TEMPLATE

# The model card; the evaluation writes its figures into the copy.
_CARD = Path(__file__).with_name("card.md")
_TIED = "lm_head.weight"


def export(work: Path, output: Path) -> None:
    """Write the weights in bfloat16 and every other file of the published checkpoints."""
    output.mkdir(parents=True, exist_ok=True)
    state = torch.load(work / "checkpoint.pt", weights_only=True)["model"]
    published = {
        name: value.to(torch.bfloat16).contiguous()
        for name, value in state.items()
        if name != _TIED
    }
    weights = output / "model.safetensors"
    save_file(published, weights, metadata={"format": "pt"})
    weights.chmod(0o644)
    for name in ("config.json", "vocab.json", "merges.txt"):
        shutil.copyfile(work / name, output / name)
    tokenizer = json.loads((work / "tokenizer_config.json").read_text())
    _write(output / "tokenizer_config.json", tokenizer | {"chat_template": CHAT_TEMPLATE})
    config = json.loads((work / "config.json").read_text())
    generation = {
        "do_sample": False,
        "eos_token_id": [config["pad_token_id"], config["eos_token_id"]],
        "pad_token_id": config["pad_token_id"],
    }
    _write(output / "generation_config.json", generation)
    shutil.copyfile(_CARD, output / "README.md")


def _write(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    export(arguments.work, arguments.output)
