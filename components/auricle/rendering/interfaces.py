"""Writes what is generated from the code of ways in and of settings: `make interfaces`."""

from __future__ import annotations

import json
from pathlib import Path

from auricle.frontend.abilities import schemas as abilities_schemas
from auricle.frontend.operations.routes import schemas as operations_schemas
from auricle.frontend.stream.asyncapi import asyncapi, names, schemas
from auricle.rendering.settings_page import settings_page
from auricle.rendering.typescript import declarations
from auricle.rendering.ways import ways_page

_HEADER = "// Messages of /v1/audio/stream. Written by `make interfaces`; not to be edited.\n\n"
_OPERATIONS = "// Documents of /v1/operations. Written by `make interfaces`; not to be edited.\n\n"
_MODELS = "// Parts of /v1/models. Written by `make interfaces`; not to be edited.\n\n"
_PAGES = Path("components/auricle/frontend/page")


def interfaces() -> dict[Path, str]:
    """Return the files' contents, by their paths from the repository's root."""
    client, server = names()
    unions = {"ClientMessage": client, "StreamEvent": server}
    return {
        Path("docs/ways_in.md"): ways_page(),
        Path("docs/settings.md"): settings_page(),
        Path("docs/asyncapi.json"): json.dumps(asyncapi(), indent=2) + "\n",
        _PAGES / "assets/messages.d.ts": _HEADER + declarations(schemas(), unions),
        _PAGES / "assets/models.d.ts": _MODELS + declarations(abilities_schemas(), {}),
        _PAGES / "operations/operations.d.ts": _OPERATIONS + declarations(operations_schemas(), {}),
    }


if __name__ == "__main__":
    for path, text in interfaces().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)
