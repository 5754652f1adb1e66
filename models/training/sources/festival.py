"""festival: a process of its own, which is told what to say and answers with the words' ends."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import IO

import soundfile

from models.training.espeak import Speech
from models.training.packages import libraries, unpacked
from models.training.sources.engines import speech

PACKAGES = ("festival", "festvox-kallpc16k", "festvox-kdlpc16k", "festvox-us-slt-hts")
# As festival names them: diphones of two people, and a statistical voice.
_VOICES = {
    "kal": "voice_kal_diphone",
    "ked": "voice_ked_diphone",
    "slt_hts": "voice_cmu_us_slt_arctic_hts",
}
_SAY = """
(define (say voice stretch text path)
  (voice)
  (Parameter.set 'Duration_Stretch stretch)
  (let ((utt (eval (list 'Utterance 'Text text))))
    (utt.synth utt)
    (utt.save.wave utt path 'riff)
    (format t "said %l\\n" (mapcar
      (lambda (w) (item.feat w "R:SylStructure.daughtern.daughtern.R:Segment.end"))
      (utt.relation.items utt 'Word)))
    (fflush nil)))
"""


def fetch() -> Path:
    """Return the folder it is unpacked in. Raises NoPackages."""
    return unpacked("festival", PACKAGES)


class Festival:
    """A synthesiser; voices are `kal`, `ked` and `slt_hts`, whose speed is always its own."""

    def __init__(self) -> None:
        root = fetch()
        shared = ["--datadir", root / "usr/share/festival", "--libdir", root / "usr/lib/festival"]
        self._process = subprocess.Popen(
            [root / "usr/bin/festival", *shared, "--pipe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=libraries(root),
            text=True,
        )
        self._folder = tempfile.TemporaryDirectory()
        self._ask(_SAY)

    def words(self, voice: str) -> None:
        """Any word."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """Raises ValueError for a voice it does not have; RuntimeError if it has ended."""
        if voice not in _VOICES:
            raise ValueError(f"festival has no voice {voice!r}; there are: {', '.join(_VOICES)}")
        if not all(word.isalpha() for word in text.split()):
            raise ValueError(f"{text!r} is not made of words alone")
        path = Path(self._folder.name) / "said.wav"
        self._ask(f'(say {_VOICES[voice]} {1 / speed:.3f} "{text}" "{path}")')
        ends = self._answer()
        samples, rate = soundfile.read(path, dtype="int16")
        return speech(samples, rate, text, ends)

    def close(self) -> None:
        """End the process."""
        _stream(self._process.stdin).close()
        self._process.wait(timeout=10)
        _stream(self._process.stdout).close()
        self._folder.cleanup()

    def _ask(self, command: str) -> None:
        stream = _stream(self._process.stdin)
        stream.write(command + "\n")
        stream.flush()

    def _answer(self) -> list[float]:
        for line in _stream(self._process.stdout):
            if line.startswith("said "):
                return [float(end) for end in line.removeprefix("said ").strip(" ()\n").split()]
        raise RuntimeError(f"festival has ended with {self._process.wait()}")


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # both are pipes
    return stream
