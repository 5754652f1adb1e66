"""Training the demo's recogniser in sittings, from nothing or from published weights."""

from __future__ import annotations

import copy
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from models.training import train
from models.training.corpus import synthesise
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


def test_products_in_bfloat16_teach_what_those_in_float32_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = []
    for can in ({}, {"avx512_bf16": True}):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda can=can: can)
        trainer = Trainer(tmp_path, 4, start=DEMO)
        trainer.resume()
        example = Example(NOISE, ("hello", "anna"), "", forced=False)
        losses.append([trainer.train_step([example]) for _ in range(3)])
        weights = trainer.model.parameters()
        assert {value.dtype for value in weights} == {torch.float32}
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)


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


def test_weights_of_a_larger_network_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("larger", "smaller"):
        (tmp_path / name).mkdir()
    larger = Trainer(tmp_path / "larger", 4)
    larger.save()
    export(tmp_path / "larger", tmp_path / "published")
    smaller = copy.deepcopy(larger.config)
    smaller["thinker_config"]["audio_config"]["encoder_ffn_dim"] = 320
    monkeypatch.setattr(train, "demo_config", lambda *_: smaller)
    with pytest.raises(ValueError, match=r"fc1.weight is \(960, 160\), and \(320, 160\) is to be"):
        Trainer(tmp_path / "smaller", 4, start=tmp_path / "published").resume()


def test_a_checkpoints_card_names_who_it_was_trained_with(tmp_path: Path) -> None:
    output = tmp_path / "checkpoint"
    (tmp_path / "work").mkdir()
    Trainer(tmp_path / "work", 4, sources=("flite",)).save()
    export(tmp_path / "work", output)
    card = (output / "README.md").read_text()
    assert "| flite | flite, libflite1 |" in card and "| festival |" not in card
    assert "Synthetic speech. " in card  # nobody was recorded


def test_the_card_of_a_checkpoint_without_sources_says_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    Trainer(tmp_path / "work", 4, ("de",)).save()
    export(tmp_path / "work", tmp_path / "checkpoint")
    card = (tmp_path / "checkpoint/README.md").read_text()
    assert "Who speaks" not in card and "sources" not in card and "recorded" not in card
    assert re.findall(r"^## .*", card, re.MULTILINE) == ["## Measured", "## Limits"]


def test_a_sitting_ends_in_time_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    synthesise(tmp_path, "train", ("en-us+m1",), ["hello anna", "thank you peter"] * 4, 3)
    work = tmp_path / "work"
    monkeypatch.setattr(train, "_BATCH_SECONDS", 3.0)
    work.mkdir()
    (work / "finished").touch()  # of fewer steps
    command = ["train", "--work", str(work), "--corpus", str(tmp_path), "--sources", ""]
    monkeypatch.setattr(sys, "argv", [*command, "--steps", "1", "--minutes", "0"])
    train.main()
    assert "step 0 of 1: the same command goes on from here" in capsys.readouterr().out
    assert (work / "checkpoint.pt").exists() and not (work / "finished").exists()
    monkeypatch.setattr(sys, "argv", [*command, "--steps", "1"])
    train.main()
    assert (work / "finished").exists()


def test_who_is_told_to_end_keeps_what_was_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(trainer: Trainer, _: list[Example]) -> tuple[float, float]:
        trainer.step += 1
        if trainer.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return 0.0, 0.0

    synthesise(tmp_path, "train", ("en-us+m1",), ["hello anna", "thank you peter"] * 4, 3)
    monkeypatch.setattr(Trainer, "train_step", step)
    monkeypatch.setattr(train, "_BATCH_SECONDS", 3.0)
    command = ["train", "--work", str(tmp_path / "work"), "--corpus", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*command, "--sources", ""])
    before = signal.getsignal(signal.SIGTERM)
    train.main()
    assert "step 3 of 36000: the same command goes on from here" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGTERM) is before
    again = Trainer(tmp_path / "work", 36_000)
    again.resume()
    assert again.step == 3
