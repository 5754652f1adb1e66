"""A microphone as a source, for programs with `pip install auricle[client,microphone]`."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from auricle.audio.constants import SAMPLE_RATE
from auricle.errors import BadRequest

_PACKETS_PER_SECOND = 10


class Microphone:
    """What a microphone hears, until `stop`. Each iteration opens the device anew.

    `lost` counts packets before which audio was lost, as nobody had taken it in time.
    """

    live = True

    def __init__(self, device: int | str | None = None, sample_rate: int = SAMPLE_RATE) -> None:
        """`device` is a number or a name that `python -m sounddevice` lists; None: the default."""
        self.sample_rate = sample_rate
        self.lost = 0
        self._device = device
        self._stopped = threading.Event()

    def stop(self) -> None:
        """The audio ends here: the rest of the text and `done` follow. Any thread may call this."""
        self._stopped.set()

    def __iter__(self) -> Iterator[bytes]:
        """Yield 100 ms at a time; blocks. Raises BadRequest if there is no such device."""
        try:
            import sounddevice
        except (ImportError, OSError) as error:  # OSError: PortAudio is not installed
            raise BadRequest(
                f"a microphone needs sounddevice and PortAudio ({error}): "
                "pip install 'auricle[client,microphone]', and libportaudio2 on Debian and Ubuntu"
            ) from None
        packet = self.sample_rate // _PACKETS_PER_SECOND
        try:
            with sounddevice.RawInputStream(
                samplerate=self.sample_rate,
                blocksize=packet,
                device=self._device,
                channels=1,
                dtype="int16",
            ) as stream:
                while not self._stopped.is_set():
                    data, overflowed = stream.read(packet)
                    self.lost += bool(overflowed)
                    yield bytes(data)
        except (sounddevice.PortAudioError, ValueError) as error:
            raise BadRequest(f"the microphone cannot be used: {error}") from None
