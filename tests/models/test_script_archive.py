"""TorchScript archives give their weights and nothing else: what they hold is never run."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spotchange.errors import ModelError
from spotchange.models.weights.published.checkpoint_files import read_checkpoint


class Evil(nn.Module):
    """Its `__setstate__` is what torch's own reader runs: here it never returns."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[Tensor, bool]:
        return self.weight, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[Tensor, bool]) -> None:
        self.weight = state[0]
        self.training = state[1]
        while True:
            self.training = not self.training


class Writer(nn.Module):
    """Its `__setstate__` writes a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, x: Tensor) -> Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.path = state[0]
        self.training = state[1]
        torch.save(torch.ones(3), self.path)


class Tied(nn.Module):
    """Weights in several layouts, a buffer, and a tensor that is neither."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0).reshape(2, 3).T.half())
        self.inner = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 1)])
        self.tied = self.inner[0]
        self.register_buffer("input_resolution", torch.tensor(64))
        self.mask = torch.zeros(3)
        self.sizes = [1, 2]

    def forward(self, x: Tensor) -> Tensor:
        return x


def script(module: nn.Module, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(module).save(str(path))
    return path


def rewritten(path: Path, member: str, content: bytes) -> Path:
    """The archive with one member replaced."""
    changed = path.with_name(f"changed-{path.name}")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, content if name.endswith(f"/{member}") else old.read(name))
    return changed


def test_the_same_tensors_as_torch_reads(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = script(Tied(), tmp_path / "tied.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        expected = torch.jit.load(str(path)).state_dict()
    found = read_checkpoint(path)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
        assert found[name].dtype == value.dtype


def test_code_in_an_archive_is_not_run(tmp_path: Path) -> None:
    for module in (Evil(), Writer(str(tmp_path / "written"))):
        path = script(module, tmp_path / "evil.pt")
        with pytest.raises(ModelError, match=r"cannot be read as weights alone|no weights by name"):
            read_checkpoint(path)
    assert not (tmp_path / "written").exists()


class Call:
    """Pickles as a call of anything."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_calls_in_the_description_are_refused(tmp_path: Path, protocol: int) -> None:
    path = script(Tied(), tmp_path / "tied.pt")
    target = tmp_path / "written"
    evil = rewritten(path, "data.pkl", pickle.dumps(Call(open, str(target), "w"), protocol=protocol))
    with pytest.raises(ModelError, match="weights alone"):
        read_checkpoint(evil)
    assert not target.exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"_rebuild_tensor_v2", b"_rebuild_wrapper_x"),  # another function
        (b"LongStorage", b"EvilStorage"),
        (b"__torch__.torch.nn.modules.linear\nLinear", b"__torch__.torch.nn.modules.linear\nLinea\xff"),
        (b"K\x03K\x02", b"K\xffK\xff"),  # a tensor larger than its numbers
        (b"X\x06\x00\x00\x00weight", b"X\x06\x00\x00\xffweight"),
    ],
)
def test_damaged_descriptions_are_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = script(Tied(), tmp_path / "tied.pt")
    with zipfile.ZipFile(path) as archive:
        content = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    assert old in content
    with pytest.raises(ModelError):
        read_checkpoint(rewritten(path, "data.pkl", content.replace(old, new)))


def test_every_cut_is_refused(tmp_path: Path) -> None:
    path = script(Tied(), tmp_path / "tied.pt")
    whole = path.read_bytes()
    for length in range(0, len(whole), 131):
        (tmp_path / "cut.pt").write_bytes(whole[:length])
        with pytest.raises(ModelError):
            read_checkpoint(tmp_path / "cut.pt")


def test_a_state_dict_with_more_than_weights_is_refused(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(1), "evil": Call(open, str(tmp_path / "written"), "w")}, tmp_path / "a.pt")
    for content in ((tmp_path / "a.pt").read_bytes(), b'{"a": "x"}'):
        (tmp_path / "a.pt").write_bytes(content)
        with pytest.raises(ModelError, match="more than weights") as told:
            read_checkpoint(tmp_path / "a.pt")
        assert "weights_only" not in told.value.message  # nobody is told how to run it nevertheless
    assert not (tmp_path / "written").exists()
    torch.save(torch.ones(1), stream := io.BytesIO())
    (tmp_path / "b.pt").write_bytes(stream.getvalue())
    with pytest.raises(ModelError, match="no weights by name"):
        read_checkpoint(tmp_path / "b.pt")
