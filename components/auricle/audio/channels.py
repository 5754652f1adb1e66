"""Channels that are heard apart. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from auricle.errors import TooCostly, UndecodableAudio


@dataclass
class PickedChannel:
    """One channel of a recording that may have `most`. `count` is how many it has, once known."""

    number: int
    most: int
    count: int = 0

    def found(self, channels: int, name: str) -> None:
        """The recording, whose file has this name, has so many channels from here on.

        Raises TooCostly if those are more than `most`, and UndecodableAudio if they were others
        before: then nobody could say which is which.
        """
        if channels > self.most:
            raise TooCostly(
                f"{name} has {channels} channels; {self.most} can be transcribed apart "
                "(max_channels)"
            )
        if self.count not in (0, channels):
            raise UndecodableAudio(
                f"{name} has {self.count} channels and then {channels}; they cannot be told apart"
            )
        self.count = channels
