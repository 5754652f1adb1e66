"""Training the demo's recogniser in sittings, from nothing or from published weights."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from models.training import train
from models.training.examples import Example
from models.training.export import export
from models.training.reference import Reference
from models.training.sources.card import named_in
from models.training.train import Trainer

pytestmark = pytest.mark.unit
DEMO = Path(__file__).parents[2] / "models/demo"
NOISE = 0.1 * np.random.default_rng(1).standard_normal(16_000).astype(np.float32)


def test_it_begins_with_published_weights_and_goes_on_with_its_own(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, 4, start=DEMO, sources=("flite",))
    trainer.resume()
    assert_hears_alike(trainer, DEMO)
    assert trainer.longest() == 30.0
    trainer.train_step([Example(NOISE, ("hello", "anna"), "", forced=False)])
    trainer.save()
    again = Trainer(tmp_path, 4, start=DEMO, sources=("pico", "flite"))
    again.resume()
    learned = trainer.model.state_dict()
    assert again.step == 1
    again.save()
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    published = named_in((DEMO / "README.md").read_text())
    assert {"kokoro", "people"} < set(published)
    assert state["sources"] == [*published, "pico"]  # of both sittings, and of those before
    assert all(value.equal(learned[n]) for n, value in again.model.state_dict().items())
    with pytest.raises(ValueError, match=r"checkpoint.pt began with demo: choose another --work"):
        fresh = Trainer(tmp_path, 4)
        assert fresh.longest() == 2.5
        fresh.resume()


def assert_hears_alike(trainer: Trainer, path: Path) -> None:
    published = Reference(path)
    before = published.embeddings(NOISE)
    published.model = trainer.model
    torch.testing.assert_close(published.embeddings(NOISE), before, rtol=0, atol=1e-6)


def test_what_it_begins_with_may_know_fewer_words(tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, 4, ("en", "de"), start=DEMO)
    trainer.resume()
    assert_hears_alike(trainer, DEMO)
    published = Reference(DEMO)
    old = published.model.text.model.embed_tokens.weight
    new = trainer.model.text.model.embed_tokens.weight
    for known in (" hello", "hello", "English", "<|audio_start|>"):
        (before,), (after,) = (t(known).input_ids for t in (published.tokenizer, trainer.tokenizer))
        assert new[after].equal(old[before]), known
    trainer.train_step([Example(NOISE, ("Hund", "Käse"), "", forced=False, language="German")])


def test_weights_that_know_the_languages_are_changed_the_least(tmp_path: Path) -> None:
    rates = [
        Trainer(tmp_path, 4, languages, start=start)._rate()
        for languages, start in ((("en",), DEMO), (("en", "de"), DEMO), (("en",), None))
    ]
    assert 0 < rates[0] < rates[1] < rates[2]


def test_layers_that_the_weights_it_begins_with_lack_add_nothing_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("smaller", "larger"):
        (tmp_path / name).mkdir()
    config = Trainer(tmp_path / "larger", 4).config
    smaller = copy.deepcopy(config)
    audio = smaller["thinker_config"]["audio_config"]
    audio |= {"encoder_layers": 4, "num_hidden_layers": 4, "encoder_ffn_dim": 640}
    with monkeypatch.context() as patched:
        patched.setattr(train, "demo_config", lambda *_: smaller)
        Trainer(tmp_path / "smaller", 4).save()
    export(tmp_path / "smaller", tmp_path / "published")
    trainer = Trainer(tmp_path / "larger", 4, start=tmp_path / "published")
    trainer.resume()
    assert len(trainer.model.encoder.layers) == 6
    assert_hears_alike(trainer, tmp_path / "published")
    trainer.train_step([Example(NOISE, ("hello", "anna"), "", forced=False)])
