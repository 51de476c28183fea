"""The weights of a TorchScript archive (OpenAI's downloads), read without running anything in it.

Such an archive holds code beside the tensors, and torch's own reader runs parts of it. This one knows the few pickle
instructions that describe tensors and plain containers; any other ends the reading. Each instruction is looked at
once and each number is held once, so the file's length bounds time and memory.
"""

from __future__ import annotations

import pickletools
import re
import zipfile
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LARGEST_DESCRIPTION = 64 * 2**20  # bytes of data.pkl and of the code's headings; OpenAI's have 0.2 MB
MOST_PARTS = 100_000
_DTYPES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
_PLAIN = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE")
_VALUES: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_HEADING = re.compile(r"^class (\w+)\(Module\):\n  __parameters__ = \[([^\]]*)\]\n  __buffers__ = \[([^\]]*)\]", re.M)


class UnsafeArchiveError(Exception):
    """The archive holds, or is, something else than described weights."""


@dataclass
class _Name:
    """A global the pickle names; never looked up."""

    text: str


@dataclass
class _Part:
    """An object of a class in the archive: its attributes and nothing of its code."""

    kind: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Storage:
    content: Tensor


_MARK = object()


def read_script_archive(path: Path) -> dict[str, Tensor]:
    """Parameters and buffers by name.

    Raises:
        UnsafeArchiveError: says what does not belong into such an archive.
    """
    with zipfile.ZipFile(path) as archive:
        described = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(described) != 1:
            raise UnsafeArchiveError("it has no single data.pkl")
        root = described[0].removesuffix("data.pkl")
        if _order(archive, root) != b"little":
            raise UnsafeArchiveError("its numbers are not little-endian")
        reader = _Reader(archive, root, most_bytes=path.stat().st_size)
        content = reader.read(_member(archive, described[0], LARGEST_DESCRIPTION))
        return _weights(content, _kept_names(archive, root))


def _order(archive: zipfile.ZipFile, root: str) -> bytes:
    return _member(archive, f"{root}byteorder", 16) if f"{root}byteorder" in archive.namelist() else b"little"


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    try:
        member = archive.getinfo(name)
    except KeyError:
        raise UnsafeArchiveError(f"it has no {name}") from None
    with archive.open(member) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise UnsafeArchiveError(f"its {name} has more than {limit:,} bytes")
    return content


def _kept_names(archive: zipfile.ZipFile, root: str) -> dict[str, set[str]]:
    """Which attributes are parameters or buffers, from the headings of the classes; their code is not parsed."""
    found: dict[str, set[str]] = {}
    for name in archive.namelist():
        if name.startswith(f"{root}code/") and name.endswith(".py"):
            text = _member(archive, name, LARGEST_DESCRIPTION).decode("utf-8", "replace")
            module = name.removeprefix(f"{root}code/").removesuffix(".py").replace("/", ".")
            for kind, parameters, buffers in _HEADING.findall(text):
                found[f"{module}.{kind}"] = set(re.findall(r'"([^"]*)"', f"{parameters},{buffers}"))
    return found


def _weights(content: Any, kept: dict[str, set[str]]) -> dict[str, Tensor]:
    if not isinstance(content, _Part):
        raise UnsafeArchiveError("it does not describe a module")
    tensors: dict[str, Tensor] = {}
    waiting = [("", content)]
    seen = 0
    while waiting:
        prefix, part = waiting.pop()
        seen += 1
        if seen > MOST_PARTS:
            raise UnsafeArchiveError("its parts have no end")
        names = kept.get(part.kind, set())
        for name, value in part.values.items():
            if isinstance(value, _Part):
                waiting.append((f"{prefix}{name}.", value))
            elif isinstance(value, Tensor) and name in names:
                tensors[prefix + name] = value
    return tensors


class _Reader:
    """Follows the instructions of one pickle."""

    def __init__(self, archive: zipfile.ZipFile, root: str, *, most_bytes: int) -> None:
        self._archive, self._root = archive, root
        self._bytes_left = most_bytes  # members may be packed, or lie on each other
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._storages: dict[str, _Storage] = {}

    def read(self, described: bytes) -> Any:
        try:
            for instruction, argument, _ in pickletools.genops(described):
                if instruction.name == "STOP":
                    (content,) = self._stack
                    return content
                self._follow(instruction.name, argument)
        except UnsafeArchiveError:
            raise
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RuntimeError) as error:
            raise UnsafeArchiveError(f"its description is damaged ({type(error).__name__})") from error
        raise UnsafeArchiveError("its description is cut off")

    def _follow(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _PLAIN:
            stack.append(argument)
        elif name in _VALUES:
            stack.append(_VALUES[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "GLOBAL":
            stack.append(_Name(argument.replace(" ", ".")))
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _BUILDERS:
            _BUILDERS[name](self)
        elif name != "PROTO":
            raise UnsafeArchiveError(f"it holds more than weights (the instruction {name})")

    def _since_mark(self) -> list[Any]:
        place = len(self._stack) - 1 - self._stack[::-1].index(_MARK)
        taken = self._stack[place + 1 :]
        del self._stack[place:]
        return taken

    def _tuple(self, count: int | None = None) -> None:
        taken = self._since_mark() if count is None else [self._stack.pop() for _ in range(count)][::-1]
        self._stack.append(tuple(taken))

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise UnsafeArchiveError("it fills what is no list")
        target.extend(items)

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict):
            raise UnsafeArchiveError("it fills what is no dictionary")
        target.update(zip(items[::2], items[1::2], strict=True))

    def _new(self) -> None:
        arguments, kind = self._stack.pop(), self._stack.pop()
        if not isinstance(kind, _Name) or not kind.text.startswith("__torch__.") or arguments != ():
            raise UnsafeArchiveError("it makes an object of a foreign class")
        self._stack.append(_Part(kind.text))

    def _build(self) -> None:
        values, part = self._stack.pop(), self._stack[-1]
        if not isinstance(part, _Part) or not isinstance(values, dict):
            raise UnsafeArchiveError("it sets the state of what is no module")
        part.values = {str(name): value for name, value in values.items()}

    def _reduce(self) -> None:
        arguments, called = self._stack.pop(), self._stack.pop()
        text = called.text if isinstance(called, _Name) else "?"
        if text == "torch._utils._rebuild_tensor_v2":
            self._stack.append(_tensor(*arguments[:4]))
        elif text == "collections.OrderedDict" and arguments == ():
            self._stack.append({})
        elif text.startswith("torch.jit._pickle."):  # a list, or a value with its type
            self._stack.append(arguments[0])
        else:
            raise UnsafeArchiveError(f"it calls {text}")

    def _storage(self) -> None:
        _, kind, key, _, count = self._stack.pop()
        dtype = _DTYPES.get(kind.text.removeprefix("torch."))
        if dtype is None or not re.fullmatch(r"\w+", key):
            raise UnsafeArchiveError(f"it has numbers of an unknown kind ({kind.text})")
        if key not in self._storages:
            content = _member(self._archive, f"{self._root}data/{key}", min(count * dtype.itemsize, self._bytes_left))
            self._bytes_left -= len(content)
            numbers = torch.frombuffer(bytearray(content), dtype=dtype) if content else torch.empty(0, dtype=dtype)
            self._storages[key] = _Storage(numbers)
        self._stack.append(self._storages[key])


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    """A tensor that lies within its storage and is no larger."""
    numbers = [offset, *size, *stride]
    if not isinstance(storage, _Storage) or any(type(each) is not int or each < 0 for each in numbers):
        raise UnsafeArchiveError("it describes an impossible tensor")
    last = offset + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    available = storage.content.numel()
    if prod(size) > available or (prod(size) and last >= available):
        raise UnsafeArchiveError("it describes a tensor larger than its numbers")
    return storage.content.as_strided(size, stride, offset) if prod(size) else storage.content[:0].reshape(size)


_BUILDERS: dict[str, Any] = {
    "EMPTY_TUPLE": lambda reader: reader._tuple(0),
    "TUPLE": lambda reader: reader._tuple(),
    "TUPLE1": lambda reader: reader._tuple(1),
    "TUPLE2": lambda reader: reader._tuple(2),
    "TUPLE3": lambda reader: reader._tuple(3),
    "EMPTY_LIST": lambda reader: reader._stack.append([]),
    "EMPTY_DICT": lambda reader: reader._stack.append({}),
    "APPENDS": lambda reader: reader._extend(reader._since_mark()),
    "APPEND": lambda reader: reader._extend([reader._stack.pop()]),
    "SETITEMS": lambda reader: reader._set(reader._since_mark()),
    "SETITEM": lambda reader: reader._set([reader._stack.pop(), reader._stack.pop()][::-1]),
    "NEWOBJ": lambda reader: reader._new(),
    "BUILD": lambda reader: reader._build(),
    "REDUCE": lambda reader: reader._reduce(),
    "BINPERSID": lambda reader: reader._storage(),
}
