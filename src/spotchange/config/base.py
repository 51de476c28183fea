"""How settings work: frozen pydantic models, YAML recipes, `--set key=value` on top, nearest names in errors."""

from __future__ import annotations

import difflib
import os
from typing import Any, ClassVar, Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from spotchange.errors import ConfigError
from spotchange.files import read_input, write_text

LARGEST_RECIPE = 2**20  # bytes
MOST_VALUES = 100_000
# Besides its own errors: numbers of thousands of digits, dates that do not exist, lists in lists in lists.
_YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError)


class Settings(BaseModel):
    """Base of every group of settings: frozen, unknown keys rejected, defaults checked."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
    retired: ClassVar[dict[str, Any]] = {}
    """Names that saved recipes still hold, with the only value they may have: what they set can no longer be set."""

    @model_validator(mode="before")
    @classmethod
    def _drop_retired(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not cls.retired.keys() & values.keys():
            return values
        for name, fixed in cls.retired.items():
            if values.get(name, fixed) != fixed:
                raise ValueError(f"{name} can no longer be set; it is {fixed}")
        return {name: value for name, value in values.items() if name not in cls.retired}

    @classmethod
    def from_mapping(cls, values: dict[str, Any], *, source: str) -> Self:
        """Build from plain values; every mistake is reported in one `ConfigError` line."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problems = "; ".join(_explain(cls, detail) for detail in error.errors())
            raise ConfigError(f"{source}: {problems}") from error

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str], overrides: list[str] | None = None) -> Self:
        """Read a file of settings and put `overrides` ("stage.steps=10") on top."""
        values = read_yaml(path)
        for override in overrides or []:
            apply_override(values, override)
        return cls.from_mapping(values, source=str(path))

    def to_yaml(self) -> str:
        """The resolved settings, as a recipe that gives the same settings again."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the resolved settings beside the weights they made."""
        write_text(path, self.to_yaml())


def read_yaml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A YAML file that must hold a mapping."""
    try:
        text = read_input(path, most_bytes=LARGEST_RECIPE)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} {error}") from error
    try:
        values = _load_yaml(text)
    except _YAML_ERRORS as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(f"{path} is not valid YAML: {reason}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold settings as 'key: value' lines")
    return values


def _load_yaml(text: str) -> Any:
    """`yaml.safe_load` with a bound on what aliases (*name) may stand for: a few lines of them fill any memory."""
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        if _expanded(root, {}) > MOST_VALUES:
            raise yaml.YAMLError(f"it stands for more than {MOST_VALUES:,} values")
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _expanded(node: Any, known: dict[int, int]) -> int:
    """How many values a node stands for, aliases written out."""
    if id(node) not in known:
        known[id(node)] = MOST_VALUES + 1  # until it is counted: a node inside itself has no end
        inner = [each for pair in node.value for each in pair] if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] = 1 + (sum(_expanded(each, known) for each in inner) if not isinstance(inner, str) else 0)
    return known[id(node)]


def apply_override(values: dict[str, Any], override: str) -> None:
    """Set `a.b.c=value` inside nested mappings; the value is read as YAML, so numbers and lists work."""
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"--set {override!r} is not of the form key=value")
    try:
        value = _load_yaml(text)
    except _YAML_ERRORS as error:
        raise ConfigError(f"--set {override!r}: the value is not valid YAML") from error
    *parents, last = key.strip().split(".")
    for parent in parents:
        if not isinstance(values.get(parent), dict):
            values[parent] = {}
        values = values[parent]
    values[last] = value


def _explain(model: type[BaseModel], detail: ErrorDetails) -> str:
    where = ".".join(_written(model, detail["loc"]))
    if detail["type"] == "extra_forbidden":
        known = _fields_at(model, detail["loc"][:-1])
        close = difflib.get_close_matches(str(detail["loc"][-1]), known, n=1, cutoff=0.5)
        return f"unknown setting '{where}'" + (f", did you mean '{close[0]}'?" if close else "")
    message = detail["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _written(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """A place as --set names it: without the tags of unions, which name no field."""
    return [
        str(part)
        for depth, part in enumerate(location)
        if depth == len(location) - 1 or isinstance(part, int) or part in _fields_at(model, location[:depth])
    ]


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Names of the settings at a place in the tree, also through optional and union types."""
    models = [model]
    for part in location:
        inner = [found for each in models if part in each.model_fields for found in _models_in(each, str(part))]
        models = inner or models  # a union's tag is part of the location but names no field
    return [name for each in models for name in each.model_fields]


def _models_in(model: type[BaseModel], field: str) -> list[type[BaseModel]]:
    pending: list[Any] = [model.model_fields[field].annotation]
    found: list[type[BaseModel]] = []
    while pending:
        each = pending.pop()
        if isinstance(each, type) and issubclass(each, BaseModel):
            found.append(each)
        pending.extend(getattr(each, "__args__", ()))
    return found
