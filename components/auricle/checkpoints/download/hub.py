"""Published models from the Hugging Face hub, or one that `HF_ENDPOINT` names."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from auricle.checkpoints.download.catalog import twin
from auricle.checkpoints.download.store import (
    DamagedModel,
    NotReachable,
    Report,
    UnknownName,
    bytes_below,
    check_room,
    reporting,
    sha256,
)
from auricle.core.errors import AuricleError, CheckpointError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

_TEXTS = (".json", ".txt", ".model", ".jinja")
_WHOLE = "model.safetensors"


@dataclass(frozen=True)
class Published:
    """A file of a repository, with the SHA-256 of large files or git's SHA-1 of others."""

    name: str
    size: int
    sha256: str | None
    git: str | None

    def is_in(self, path: Path) -> bool:
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        if self.sha256 is not None:
            return sha256(path) == self.sha256
        digest = hashlib.sha1(f"blob {self.size}\0".encode(), usedforsecurity=False)
        digest.update(path.read_bytes())
        return self.git is None or digest.hexdigest() == self.git


def fetch(name: str, folder: Path, report: Report) -> str:
    """Download a published model to `folder`; returns its revision.

    Existing files and parts of files are not downloaded again. Raises UnknownName, NotReachable,
    DamagedModel, or CheckpointError without supported weights.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    # It would print a progress bar for each file, and hints for its own command.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    disable_progress_bars()
    try:
        info = HfApi(library_name="auricle").model_info(name, files_metadata=True)
        files = chosen(name, [_published(one) for one in info.siblings or ()])
        wanted = {path for file in files for path in (folder / file.name, _part(folder, file))}
        for stale in set(folder.iterdir()) - wanted:  # of another revision
            stale.unlink()
        total = sum(file.size for file in files)
        check_room(folder, total - bytes_below(folder))
        with reporting(folder, total, report):
            for file in files:
                _download(name, str(info.sha), file, folder)
    except GatedRepoError:
        raise AuricleError(
            f"{name} requires that you accept its terms: do so at the hub, and set HF_TOKEN to "
            "your token"
        ) from None
    except (RepositoryNotFoundError, HFValidationError):
        raise UnknownName(
            f"the hub has no model {name}, or HF_TOKEN does not give access to it"
        ) from None
    except (httpx.HTTPError, HfHubHTTPError, OfflineModeIsEnabled, OSError) as error:
        if isinstance(error, OSError) and error.errno and not isinstance(error, ConnectionError):
            raise
        raise NotReachable(_why(name, error)) from None
    return str(info.sha)


def chosen(name: str, files: list[Published]) -> list[Published]:
    """Return a model's files to download; many repositories hold weights several times.

    Raises CheckpointError without supported weights.
    """
    top = [file for file in files if PurePosixPath(file.name).name == file.name]
    tensors = [file for file in top if file.name.endswith(".safetensors")]
    whole = [file for file in tensors if file.name == _WHOLE]
    weights = whole or [file for file in tensors if ".fp32" not in file.name]
    weights = weights or [file for file in top if file.name == "model.bin"]
    if not weights:
        raise CheckpointError(
            f"{name} has neither *.safetensors nor model.bin: auricle reads no other weights"
        )
    texts = [file for file in top if file.name.endswith(_TEXTS) and not file.name.startswith(".")]
    return sorted([*texts, *weights], key=lambda file: file.size)


def _published(file: RepoSibling) -> Published:
    return Published(
        file.rfilename,
        file.size or 0,
        None if file.lfs is None else file.lfs.sha256,
        None if file.lfs is not None else file.blob_id,
    )


def _part(folder: Path, file: Published) -> Path:
    return folder / f"{file.name}.part"


def _download(name: str, revision: str, file: Published, folder: Path) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    path, part = folder / file.name, _part(folder, file)
    if file.is_in(path):
        return
    have = part.stat().st_size if part.is_file() else 0
    if have > file.size:
        part.unlink()
        have = 0
    with part.open("ab") as target:
        http_get(
            hf_hub_url(name, file.name, revision=revision),
            target,
            resume_size=have,
            headers=build_hf_headers(library_name="auricle"),
            expected_size=file.size,
        )
    if not file.is_in(part):
        part.unlink()
        raise DamagedModel(
            f"{file.name} of {name} did not arrive as published, and was removed: pull it again"
        )
    part.rename(path)


def _why(name: str, error: Exception) -> str:
    from huggingface_hub import constants

    lines = str(error).strip().splitlines() or [type(error).__name__]
    other = twin(name)
    instead = f"; `auricle models pull {other}` gets it from a package index" if other else ""
    return f"{name} cannot be had from {constants.ENDPOINT}: {lines[0]}{instead}"
