"""How a command ends when it does not end well: always one line, never a traceback, and 1 only for a verdict."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from contextlib import suppress
from typing import Any

from spotchange.cli.output import print_error
from spotchange.errors import InputError, MissingExtraError, SpotchangeError

GROUPS = ("data", "models", "config", "scenes")
BAD_INPUT, OUR_MISTAKE, INTERRUPTED, READER_GONE = 2, 70, 130, 141  # the last two as shells count signals
# What the machine refuses rather than what we do wrong.
_OF_THE_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ENOENT,
    errno.ENOTDIR, errno.EISDIR, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ELOOP, errno.EFBIG, errno.EEXIST,
    errno.ENOTEMPTY, errno.EBUSY, errno.EXDEV, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.ENOMEM, errno.EAGAIN,
)  # fmt: skip


def exit_code_of(error: BaseException) -> int:
    """Say what happened, and what the process exits with."""
    # The reader went away (`| head`). The framework would exit with 1, and 0 would be a verdict nobody has read.
    if isinstance(error, BrokenPipeError) or _came_from_pipe(error):
        return READER_GONE
    if isinstance(error, SystemExit):
        code = 0 if error.code is None else error.code
        # Verdicts do not come this way: a library that gave up must not look like one.
        return code if isinstance(code, int) and code != 1 else OUR_MISTAKE
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":  # what the framework makes of it
        return INTERRUPTED
    known = _as_input_error(error)
    with suppress(OSError, SystemExit):  # where nobody can be told (rich exits with 1 then), the exit code still tells
        print_error(known or InputError(_summary(error), hint=_keep(error)))
    return BAD_INPUT if known is not None else OUR_MISTAKE


def open_streams() -> None:
    """Somewhere to write to, where a stream was closed before we began (`>&-`): no file of ours takes its place."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def leave_stdout() -> None:
    """What could not be written is given up, so that the interpreter does not fail over it when it ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _came_from_pipe(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)


def _as_input_error(error: BaseException) -> SpotchangeError | None:
    """What a user can repair, as such an error."""
    if isinstance(error, SpotchangeError):
        return error
    if isinstance(error, ModuleNotFoundError):
        return missing_extra(error, _verb(sys.argv[1:]))
    usage: Any = error
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # a wrong option, in the framework's words
        context = getattr(usage, "ctx", None)
        message = usage.format_message()
        if not message and context is not None:  # called without anything: the help is the answer
            sys.stdout.write(context.get_help() + "\n")
        hint = f"{context.command_path} --help" if context is not None else None
        return InputError(message or "what to do is missing", hint=hint)
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return InputError(f"{name}{error.strerror}")
    if isinstance(error, MemoryError):
        return InputError("this needs more memory than the machine has")
    if isinstance(error, UnicodeError):
        return InputError(
            f"a text or a name of a file is not UTF-8 ({error.reason})" if hasattr(error, "reason") else str(error)
        )
    return None


def _verb(arguments: list[str]) -> str:
    """The words of the command line that name what was asked for: `train`, `data cache`."""
    return " ".join(arguments[: 2 if arguments and arguments[0] in GROUPS else 1])


def _summary(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"this should not have happened: {type(error).__name__}{': ' if text else ''}{text}"


def _keep(error: BaseException) -> str:
    """Write the traceback down, and say where."""
    try:
        handle, name = tempfile.mkstemp(prefix="spotchange-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{' '.join(sys.argv[:2])}\n")
            traceback.print_exception(error, file=file)
    except OSError:
        return "please report it"
    return f"please report it, with {name}"


# What each extra brings, by the name it is imported with.
EXTRAS = {
    "torch": "train",
    "transformers": "train",
    "accelerate": "train",
    "numba": "train",
    "onnx": "train",
    "onnx_ir": "train",
    "onnxscript": "train",
    "pycocoevalcap": "metrics",
    "snowballstemmer": "metrics",
    "fastapi": "serve",
    "uvicorn": "serve",
    "gradio": "serve",
    "multipart": "serve",
    "prometheus_client": "serve",
    "open_clip": "clip",
    "rapidocr": "text",
    "httpx": "vlm",
    "peft": "vlm",
    "ray": "ray",
    "pyarrow": "ray",
}


def missing_extra(error: ModuleNotFoundError, verb: str) -> MissingExtraError | None:
    """The user's side of a failed import; None where it is ours: every other module must be there."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    return None if extra is None else MissingExtraError(f"`spotchange {verb}`", extra=extra)
