"""vLLM's connector for decoders that attend to their audio: it only checks slots.

The PD worker pins a request's windows before the request reaches vLLM. The scheduler's side checks
the headers of their slots before the request's first pass, so that a wrong slot fails that request
alone. The model copies them (`whisper_model.py`); later passes have their own keys and values.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.request import Request

from auricle.workers.pd.vllm.connector import LandingSlabConnector, Location

# The name of a request's input: slot and length of each of its windows, int64 (windows, 2).
PLACES = "places"


class CrossAttentionConnector(LandingSlabConnector):
    """The scheduler's side alone: for encoder-decoder models vLLM has no other."""

    def ensure_cache_available(self, request: Request, num_computed_tokens: int) -> bool:
        """Return whether every window is in the slot that the request names."""
        if num_computed_tokens > 0:
            return True
        for key, *where in self._windows(request):
            location = Location(*where)
            if (wrong := self._check(key, location, location.length)) is not None:
                self._refuse(request, key, wrong)
                return False
        return True

    def has_cache_item(self, identifier: str) -> bool:
        """Return False, so that vLLM has the model copy the windows."""
        return False

    def update_state_after_alloc(self, request: Request, index: int) -> None:
        """Do nothing: nothing is loaded for the model."""

    def request_finished(self, request: Request) -> tuple[bool, dict[str, Any] | None]:
        """Do nothing: nothing is kept of a request."""
        return False, None
