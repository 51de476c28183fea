"""The stores behind addresses: fsspec's file systems, tries with pauses, and errors as a disk would raise them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from spotchange.errors import InputError, MissingExtraError

Result = TypeVar("Result")

# Address scheme -> extra that brings what reads it.
SCHEMES = {"s3": "s3", "gs": "gs", "az": "az", "abfs": "az", "hf": "train", "http": "http", "https": "http"}
TRIES = 5
FIRST_PAUSE = 0.2  # seconds; doubles with every further try
LONGEST = 200  # characters of what a store says: some send a page
# s3fs would ask how long a file is before it reads it, and hold ten parts of 50 MiB of one that goes up.
_SETTINGS = {"s3": {"max_concurrency": 1}}
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "GatedRepoError")
_NOT_THERE = ("RepositoryNotFoundError", "RevisionNotFoundError", "EntryNotFoundError", "ResourceNotFoundError")
_FINAL = (IsADirectoryError, NotADirectoryError, FileExistsError, ValueError, TypeError, NotImplementedError)


class StoreError(InputError, OSError):
    """What a disk would raise, and one clear line where nobody expects it."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.strerror = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return InputError, (self.message,)


class StoreNotFoundError(StoreError, FileNotFoundError):
    """There is no such file, folder or bucket."""


class StorePermissionError(StoreError, PermissionError):
    """The store knows us and refuses, or does not know us."""


def tried(address: str, do: Callable[[Any, str], Result], *, fresh: bool = False) -> Result:
    """Do something with the store of an address and the path in it; again, with pauses, unless that cannot help.

    `fresh` asks the store anew what there is; only the hub's file system remembers, whatever it is told.
    """
    scheme, _, inside = address.partition("://")
    pause = FIRST_PAUSE
    for left in reversed(range(TRIES)):
        try:
            store = _store_of(scheme)
            if fresh and scheme == "hf":
                store.invalidate_cache()
            return do(store, address if scheme.startswith("http") else inside)
        except MissingExtraError:
            raise
        except Exception as error:
            _raise_if_final(address, error)
            if not left:
                raise StoreError(address, f"{_told(error)} (tried {TRIES} times)") from error
            time.sleep(pause)
            pause *= 2
    raise AssertionError("unreachable")


def _raise_if_final(address: str, error: Exception) -> None:
    """Raise what a disk would raise, where trying again cannot help."""
    names = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(getattr(error, "response", None), "status_code", None)
    status = status or getattr(error, "status", None) or getattr(error, "status_code", None) or _code(error)
    if isinstance(error, PermissionError) or status in (401, 403) or names.intersection(_NO_CREDENTIALS):
        raise StorePermissionError(address, f"no permission ({_told(error)})") from error
    if isinstance(error, FileNotFoundError) or status == 404 or names.intersection(_NOT_THERE):
        raise StoreNotFoundError(address, f"does not exist ({_told(error)})") from error
    if isinstance(error, _FINAL):
        raise StoreError(address, _told(error)) from error


def _code(error: Exception) -> int | None:
    """gcsfs numbers its errors in `code`; others have words there."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


def _store_of(scheme: str) -> Any:
    """fsspec's file system; one a process and kind, kept by fsspec itself."""
    try:
        import fsspec

        # What another process wrote a moment ago must be seen.
        return fsspec.filesystem(scheme, use_listings_cache=False, **_SETTINGS.get(scheme, {}))
    except ImportError as error:
        raise MissingExtraError(f"{scheme}://...", extra=SCHEMES[scheme]) from error


def _told(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:LONGEST] or type(error).__name__
