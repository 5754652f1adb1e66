"""Frontends of one deployment in one process, which ask each other as over a network."""

from __future__ import annotations

import asyncio
import random

import msgspec

from auricle.core.errors import DeadlineExceeded
from auricle.frontend.transport.peers import Peers
from auricle.protocol.frontends import AskUse, KeyUse

_SLOWEST_SECONDS = 0.05


class Deployment:
    """The endpoint of several frontends, whose `peers` these are. Those in `silent` do not answer,
    and those in `gone` are not registered. `asked` has the receiver of each question.

    Questions and answers take times of their own, so that they overtake each other.
    """

    def __init__(self, frontends: int, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.silent: set[int] = set()
        self.gone: set[int] = set()
        self.asked: list[int] = []
        self.peers = [Peers() for _ in range(frontends)]
        for number, one in enumerate(self.peers):
            one.join(self, number)

    def known(self) -> list[int]:
        return [one for one in range(len(self.peers)) if one not in self.gone]

    async def instances(self) -> list[int]:
        return self.known()

    def suspected(self, _instance: int) -> bool:
        return False

    async def call(
        self, message: msgspec.Struct, reply: type, instance: int, seconds: float
    ) -> KeyUse:
        assert isinstance(message, AskUse)
        self.asked.append(instance)
        if instance in self.silent:
            await asyncio.sleep(seconds)
            raise DeadlineExceeded("no answer")
        await self._travel()
        answer = await self.peers[instance].answer(message)
        await self._travel()
        return answer

    async def _travel(self) -> None:
        await asyncio.sleep(self._random.random() * _SLOWEST_SECONDS)
