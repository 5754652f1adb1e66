"""festival, in a separate process: it receives commands and answers with the words' ends."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO

import soundfile

from models.training.espeak import Speech
from models.training.packages import libraries, unpacked
from models.training.sources.engines import speech

PACKAGES = ("festival", "festvox-kallpc16k", "festvox-kdlpc16k", "festvox-us-slt-hts")
# festival's names: diphones of two people, and a statistical voice.
_VOICES = {
    "kal": "voice_kal_diphone",
    "ked": "voice_ked_diphone",
    "slt_hts": "voice_cmu_us_slt_arctic_hts",
}
_ANSWER_SECONDS = 120.0  # for one sentence, which normally takes less than a second
_END_SECONDS = 10.0
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
    """Return the folder with the unpacked package. Raises NoPackages."""
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
        # This also runs at the end of a pool's process, where atexit does nothing.
        self._end = Finalize(None, _ended, (self._process, self._folder), exitpriority=0)
        self._ask(_SAY)

    def words(self, voice: str) -> None:
        """The voice can say any word."""

    def say(self, text: str, voice: str, speed: float) -> Speech:
        """Raises ValueError for an unknown voice, RuntimeError if festival ends or is too late."""
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
        """End the synthesiser. This also happens when this process ends."""
        self._end()

    def _ask(self, command: str) -> None:
        stream = _stream(self._process.stdin)
        stream.write(command + "\n")
        stream.flush()

    def _answer(self) -> list[float]:
        late = threading.Event()
        timer = threading.Timer(_ANSWER_SECONDS, lambda: (late.set(), self._process.kill()))
        timer.start()
        try:
            for line in _stream(self._process.stdout):
                if line.startswith("said "):
                    ends = line.removeprefix("said ").strip(" ()\n").split()
                    return [float(end) for end in ends]
            status = self._process.wait(_END_SECONDS)
        finally:
            timer.cancel()
        if late.is_set():
            raise RuntimeError(f"festival has not answered within {_ANSWER_SECONDS:g} s")
        raise RuntimeError(f"festival has ended with {status}")


def _ended(process: subprocess.Popen[str], folder: tempfile.TemporaryDirectory[str]) -> None:
    try:
        process.communicate(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    folder.cleanup()


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # both are pipes
    return stream
