"""Write a trained aligner as a checkpoint in the original format.

python -m models.training.align.export --work build/aligner --output models/demo-aligner
"""

from __future__ import annotations

import argparse
import json
import shutil
import string
from pathlib import Path

import torch
from safetensors.torch import save_file

from models.training.align.model import Aligner
from models.training.export import write_processor_files
from models.training.sentences import vocabulary

# The model card; the evaluation writes its figures into the copy.
_CARD = Path(__file__).with_name("card.md")


def export(work: Path, output: Path) -> None:
    """Write the weights in bfloat16 and every other file of the published checkpoint."""
    output.mkdir(parents=True, exist_ok=True)
    config = json.loads((work / "config.json").read_text())
    model = Aligner(config)
    model.load_state_dict(torch.load(work / "checkpoint.pt", weights_only=True)["model"])
    weights = output / "model.safetensors"
    save_file(model.published_weights(), weights, metadata={"format": "pt"})
    weights.chmod(0o644)
    for name in ("config.json", "vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copyfile(work / name, output / name)
    write_processor_files(output)
    (output / "vocabulary.txt").write_text("\n".join(vocabulary()) + "\n")
    parameters = sum(value.numel() for value in model.parameters())
    card = string.Template(_CARD.read_text()).substitute(
        parameters=f"{parameters / 1e6:.1f}",
        layers=config["thinker_config"]["audio_config"]["encoder_layers"],
    )
    (output / "README.md").write_text(card)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    export(arguments.work, arguments.output)
