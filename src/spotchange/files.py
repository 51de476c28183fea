"""Writing files and folders so that no reader ever meets half of one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spotchange.errors import InputError
from spotchange.locks import only_one_process
from spotchange.storage import StoreError, StorePath, as_place
from spotchange.storage.writing import upload

LARGEST_INPUT = 2**30  # bytes of a text file


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `target`; rename it there on success, delete it on any failure.

    The temporary name keeps the suffix, because image and archive writers choose their format by it.
    """
    target = as_place(target)
    if isinstance(target, StorePath):
        with _uploaded(target) as temporary:
            yield temporary
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}.", suffix=target.suffix)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files private
        os.replace(temporary, target)
    except Exception as error:
        _raise_refusal(error, target)
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _uploaded(target: StorePath) -> Iterator[Path]:
    """A local file that goes to a store when it is whole."""
    with tempfile.TemporaryDirectory(prefix="spotchange-") as folder:
        temporary = Path(folder) / (target.name or "file")
        yield temporary
        try:
            upload(temporary, target)
        except OSError as error:
            raise InputError(f"cannot write {target}: {error.strerror or error}") from error


def read_input(path: str | os.PathLike[str], *, most_bytes: int = LARGEST_INPUT) -> str:
    """The text of a file somebody gives us: a real file, of a size that makes sense, in UTF-8.

    Raises:
        ValueError: it is none of that; the text says which.
        OSError: it cannot be read.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # whoever reads a pipe waits until somebody writes into it
        raise ValueError("is a folder" if path.is_dir() else "is not a file")
    if path.stat().st_size > most_bytes:
        raise ValueError(f"has more than {most_bytes:,} bytes")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text (byte {error.start})") from None


def load_json(text: str | bytes, **options: Any) -> Any:
    """`json.loads` whose only error is `json.JSONDecodeError`, however deep or long the text makes its values."""
    try:
        return json.loads(text, **options)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", "", 0) from None
    except ValueError as error:  # a number of thousands of digits, or bytes that are no text
        raise json.JSONDecodeError(str(error), "", 0) from None


def json_text(value: Any) -> str:
    """One line of JSON that can be written as UTF-8, whatever names of files it holds."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return json.dumps(value, allow_nan=False)
    return text


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8, all or nothing."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(target: str | os.PathLike[str], content: bytes) -> None:
    """Write `content`, all or nothing."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)


@contextmanager
def new_folder(target: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield an empty folder beside `target` that takes its name on success and is deleted on any failure.

    A folder of that name stays usable until then and goes afterwards. With `durable` everything is flushed to the
    disk before the rename; if the machine dies between two renames, `recover_folder` puts the old folder back.
    """
    previous = target.with_name(f".{target.name}.previous")
    fresh: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_dir():
            raise InputError(f"cannot write the folder {target}: a file is in its place")
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.new-"))
        yield fresh
        fresh.chmod(0o777 & ~_umask())  # mkdtemp makes folders private
        if durable:
            for path in (*fresh.rglob("*"), fresh):
                _flush(path)
        if target.exists():
            target.rename(previous)
        fresh.rename(target)
        if durable:
            _flush(target.parent)
        shutil.rmtree(previous, ignore_errors=True)
    except Exception as error:
        _raise_refusal(error, target)
        raise
    finally:
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)


def recover_folder(target: Path) -> None:
    """Undo a replacement that was cut off: the old folder goes back to its place, half-written ones go away."""
    previous = target.with_name(f".{target.name}.previous")
    if previous.exists():
        if target.exists():
            shutil.rmtree(previous)
        else:
            previous.rename(target)
    for unfinished in target.parent.glob(f".{target.name}.new-*"):
        shutil.rmtree(unfinished, ignore_errors=True)


def _raise_refusal(error: Exception, target: Path) -> None:
    """Raise an `InputError` if the machine refused to write; writers of tensors have words of their own for that."""
    if isinstance(error, OSError):
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    if type(error).__name__ == "SafetensorError" or "inline_container.cc" in str(error):
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"cannot write {target}: {reason}", hint="is the disk full?") from error


def fetched_folder(address: str) -> Path:
    """A folder of a store, on this machine: fetched once, and again when a file there is another."""
    source = StorePath(address)
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spotchange" / "fetched"
    try:
        listed = source.listing()
        if not listed:
            raise InputError(f"{address} holds no files")
        mark = hashlib.sha256(json.dumps([address, listed]).encode()).hexdigest()[:32]
        target = kept / mark / source.name  # results call a model by the name of its folder
        target.parent.mkdir(parents=True, exist_ok=True)
        with only_one_process(kept / f".{mark}.lock"):  # the workers of a cluster all begin at once
            if not target.is_dir():
                with new_folder(target) as fresh:
                    source.download(fresh)
        return target
    except StoreError as error:
        raise InputError(f"cannot read {address}: {error.strerror}") from error
    except OSError as error:
        raise InputError(f"cannot write {kept}: {error.strerror or error}") from error


def remove_folder(folder: Path) -> None:
    """A folder of ours with all that is in it, if it is there."""
    if isinstance(folder, StorePath):
        folder.remove_all()
        return
    shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    """The permissions that new files do not get; it can only be read by setting it."""
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _flush(path: Path) -> None:
    """Onto the disk, so that a rename never outruns its contents."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
