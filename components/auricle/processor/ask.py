"""What asks for a decode, and may be wrapped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from auricle.messages.decoding import DecodeReply
from auricle.processor.actions import Decode

# Decodes; the second argument is whether the reply has log probabilities.
Ask = Callable[[Decode, bool], Awaitable[DecodeReply]]
