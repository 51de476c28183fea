"""Models on the Hugging Face hub, or on a server that speaks its language (`HF_ENDPOINT`): pull and push.

Tokens follow the hub's own conventions (`hf auth login`, `HF_TOKEN`); none is read, kept or shown here.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from spotchange.errors import InputError, ModelError, SpotchangeError
from spotchange.files import new_folder, write_text
from spotchange.models.hub.card import model_card
from spotchange.models.weights.description import (
    AUTO_MAP,
    MODEL_FILES,
    REMOTE_CODE,
    REMOTE_FILE,
    as_json,
    check_sum,
    needed,
    read_description,
    read_json,
    weight_files,
)

_HUB_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>[\w./-]+))?")
_LOGIN = "log in with `hf auth login`, or set HF_TOKEN"
# Code of a repository is never fetched: what a model folder needs is data.
_PULLED = [name for name in MODEL_FILES if not name.endswith(".py")]


def hub_name(text: str) -> tuple[str, str | None] | None:
    """`ORGANISATION/NAME[@REVISION]` as name and revision; None where the text means a folder."""
    found = _HUB_NAME.fullmatch(text)
    if found is None or Path(text).exists() or Path(text.partition("/")[0]).is_dir():
        return None
    return found["name"], found["revision"]


def pull_model(name: str, *, revision: str | None = None) -> Path:
    """The model's folder in the hub's cache; fetched where it is not there or has changed, offline as it was."""
    from huggingface_hub import snapshot_download

    with _in_one_line(name, revision):
        return Path(snapshot_download(name, revision=revision, allow_patterns=_PULLED, endpoint=_endpoint()))


def copy_model(folder: Path, out: Path) -> None:
    """The model's files as a folder of their own, all or nothing, which transformers opens too."""
    with new_folder(out) as fresh:
        for path in _model_files(folder):
            shutil.copyfile(path, fresh / path.name)
        write_text(fresh / REMOTE_FILE, REMOTE_CODE)  # ours, whatever the hub has: config.json may point to it


def push_model(
    folder: Path,
    name: str,
    *,
    revision: str | None = None,
    private: bool = False,
    message: str | None = None,
    results: Path | None = None,
) -> str:
    """Upload a model folder, checked and with a card; returns the address of the commit.

    Args:
        folder: A model folder.
        name: `ORGANISATION/NAME`; made where it is not there.
        revision: Branch to write to; made where it is not there. None: main.
        private: Make a new repository private.
        message: Of the commit.
        results: JSON of `spotchange evaluate`, whose figures go into the card.
    """
    from huggingface_hub import HfApi

    if _HUB_NAME.fullmatch(name) is None or "@" in name:
        raise InputError(f"{name!r} is no name on the hub", hint="ORGANISATION/NAME")
    read_description(folder)  # says what it is where it is no model of ours
    for file, checksum in weight_files(folder).items():  # nobody shall fetch a damaged model
        check_sum(needed(folder, file), checksum, source="its index")
    with tempfile.TemporaryDirectory(prefix="spotchange-push-") as staged, _in_one_line(name, revision):
        _stage(folder, Path(staged), name=name, results=results)
        api = HfApi(endpoint=_endpoint())
        api.create_repo(name, private=private or None, exist_ok=True)
        if revision is not None:
            api.create_branch(name, branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name, folder_path=staged, revision=revision, commit_message=message or "A spotchange model"
        )
        return str(commit.commit_url)


def _stage(folder: Path, staged: Path, *, name: str, results: Path | None) -> None:
    """The folder as the hub shall have it: with the pointer to our classes and a card."""
    for path in _model_files(folder):
        if path.name not in ("training_heads.safetensors", "config.json", "README.md"):
            _link(path, staged / path.name)
    write_text(staged / "config.json", as_json(read_json(folder, "config.json") | {"auto_map": AUTO_MAP}))
    write_text(staged / REMOTE_FILE, REMOTE_CODE)
    write_text(staged / "README.md", model_card(folder, name=name, results=results))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)  # weights need not be copied to be read once
    except OSError:
        shutil.copyfile(source, target)


def _model_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if any(fnmatch(path.name, known) for known in MODEL_FILES)]


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


@contextmanager
def _in_one_line(name: str, revision: str | None) -> Iterator[None]:
    """The hub's errors as ours: what is wrong, what to do."""
    from huggingface_hub import errors

    try:
        yield
    except SpotchangeError:
        raise
    except errors.GatedRepoError as error:
        raise ModelError(f"{name} wants its terms accepted first", hint="on its page on the hub") from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(f"the hub has no model {name}, or not for you", hint=_LOGIN) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(f"{name} has no revision {revision}") from error
    except errors.LocalEntryNotFoundError as error:
        raise ModelError(f"the hub cannot be reached, and {name} is not in its cache") from error
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise ModelError(f"the hub does not let you write to or read {name} ({status})", hint=_LOGIN) from error
        raise ModelError(f"the hub answered {status} about {name}") from error
    except errors.HFValidationError as error:
        raise InputError(f"{name!r} is no name on the hub", hint="ORGANISATION/NAME") from error
    except Exception as error:  # its HTTP library changes with its version, and with that the errors of a lost network
        if not _of_network(error):
            raise
        raise ModelError(f"the hub cannot be reached: {type(error).__name__}") from error


def _of_network(error: Exception) -> bool:
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, Exception):  # of an upload, for any reason
        return True
    kinds = {each.__name__ for each in type(error).__mro__}
    return bool(kinds & {"TransportError", "RequestException", "ConnectionError", "TimeoutError"})
