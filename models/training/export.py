"""Write a trained model as a checkpoint in the original Qwen3-ASR format.

python -m models.training.export --work build/demo --output models/demo
"""

from __future__ import annotations

import argparse
import json
import shutil
import string
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from models.training.languages import codes_of, language
from models.training.model import DemoModel
from models.training.sentences import vocabulary
from models.training.sources.card import with_table, without_table

# Template for a checkpoint without a card.
_CARD = Path(__file__).with_name("card.md")
_RECORDED = ", but for some seventy recorded words of English"
_PREPROCESSOR = {
    "chunk_length": 30,
    "dither": 0.0,
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 128,
    "hop_length": 160,
    "n_fft": 400,
    "n_samples": 480000,
    "nb_max_frames": 3000,
    "padding_side": "right",
    "padding_value": 0.0,
    "processor_class": "Qwen3ASRProcessor",
    "return_attention_mask": True,
    "sampling_rate": 16000,
}
_CHAT_TEMPLATE = (
    "{%- set ns = namespace(system_text='') -%}"
    "{%- for m in messages if m.role == 'system' -%}"
    "{%- if m.content is string -%}{%- set ns.system_text = ns.system_text + m.content -%}"
    "{%- else -%}{%- for c in m.content if c.type == 'text' -%}"
    "{%- set ns.system_text = ns.system_text + c.text -%}{%- endfor -%}{%- endif -%}{%- endfor -%}"
    "<|im_start|>system\n{{ ns.system_text }}<|im_end|>\n<|im_start|>user\n"
    "{%- for m in messages if m.content is not string -%}{%- for c in m.content "
    "if c.type == 'audio' or 'audio' in c or 'audio_url' in c -%}"
    "<|audio_start|><|audio_pad|><|audio_end|>{%- endfor -%}{%- endfor -%}"
    "<|im_end|>\n{%- if add_generation_prompt -%}<|im_start|>assistant\n{%- endif -%}"
)


def export(work: Path, output: Path) -> None:
    """Write the weights in bfloat16 and every other file of the published checkpoints."""
    output.mkdir(parents=True, exist_ok=True)
    config = json.loads((work / "config.json").read_text())
    model = DemoModel(config)
    state = torch.load(work / "checkpoint.pt", weights_only=True)
    model.load_state_dict(state["model"])
    weights = output / "model.safetensors"
    save_file(model.published_weights(), weights, metadata={"format": "pt"})
    weights.chmod(0o644)
    for name in ("config.json", "vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copyfile(work / name, output / name)
    write_processor_files(output)
    names = config["support_languages"]
    (output / "vocabulary.txt").write_text("\n".join(vocabulary(codes_of(names))) + "\n")
    card, sources = output / "README.md", state.get("sources", ())
    if not card.exists():
        text = _card(names, sum(value.numel() for value in model.parameters()), sources)
        card.write_text(with_table(text, sources) if sources else without_table(text))
    elif sources:
        card.write_text(with_table(card.read_text(), sources))


def _card(names: Sequence[str], parameters: int, sources: Sequence[str]) -> str:
    """The model card, into which the evaluation writes its figures."""
    codes = codes_of(names)
    words = ", ".join(
        f"{len(language(code).vocabulary)} in {language(code).name}" for code in codes
    )
    return string.Template(_CARD.read_text()).substitute(
        languages=", ".join(names),
        codes=",".join(codes),
        words=words,
        parameters=f"{parameters / 1e6:.1f} million",
        recorded=_RECORDED if "people" in sources else "",
    )


def write_processor_files(output: Path) -> None:
    """Write the published files other than config, tokenizer and weights."""
    tokens = json.loads((output / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    ids = {entry["content"]: int(number) for number, entry in tokens.items()}
    _write(output / "preprocessor_config.json", _PREPROCESSOR)
    _write(output / "chat_template.json", {"chat_template": _CHAT_TEMPLATE})
    generation = {
        "do_sample": False,
        "eos_token_id": [ids["<|endoftext|>"], ids["<|im_end|>"]],
        "pad_token_id": ids["<|endoftext|>"],
    }
    _write(output / "generation_config.json", generation)


def _write(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    export(arguments.work, arguments.output)
