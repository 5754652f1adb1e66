"""Where the times of words come from."""

from __future__ import annotations

from typing import Literal

# The aligner, or the decodes at which each word had been heard, which are as far apart as decodes
# are.
WordSource = Literal["aligned", "commit_grid"]
