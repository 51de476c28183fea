"""What a setting means: its docstring, type, default and an example, read from the settings themselves."""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from spotchange.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One setting."""

    key: str
    meaning: str
    type: str
    default: str
    example: str  # as it is given to --set
    section: bool  # has settings of its own

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))


def explain(model: type[BaseModel], key: str) -> list[Explanation]:
    """The setting `key` ("stage.ema"), or, for a section, the section and everything directly in it.

    An empty key is the whole recipe. Where a section has variants (objectives, sources), all are shown.
    """
    if not key:
        return [each for name in model.model_fields for each in _explanations([model], name, name)]
    owners: list[type[BaseModel]] = [model]
    *parents, last = key.split(".")
    for depth, part in enumerate(parents):
        owners = _sections(owners, part, ".".join(parents[: depth + 1]))
    found = list(_explanations(owners, last, key))
    if not found:
        raise _unknown(owners, key)
    inner = [each for owner in owners if last in owner.model_fields for each in _models(_annotation(owner, last))]
    names = dict.fromkeys(name for each in inner for name in each.model_fields)
    return [*found, *(each for name in names for each in _explanations(inner, name, f"{key}.{name}"))]


def _sections(owners: list[type[BaseModel]], part: str, key: str) -> list[type[BaseModel]]:
    inner = [each for owner in owners if part in owner.model_fields for each in _models(_annotation(owner, part))]
    if not inner:
        raise _unknown(owners, key)
    return inner


def _explanations(owners: list[type[BaseModel]], name: str, key: str) -> Iterator[Explanation]:
    """A setting of the same name may mean different things in variants of a section: each meaning once."""
    seen = set()
    for owner in owners:
        field = owner.model_fields.get(name)
        if field is None:
            continue
        explained = _explanation(field, key, _docstring(owner, name))
        if explained not in seen:
            seen.add(explained)
            yield explained


def _explanation(field: FieldInfo, key: str, docstring: str) -> Explanation:
    if field.default is not PydanticUndefined:
        default = _plain(field.default)
    elif field.default_factory is not None:
        default = _plain(field.default_factory())  # type: ignore[call-arg]
    else:
        default = "(required)"
    example = next(iter(field.examples or []), None)
    shown = _plain(example) if example is not None else (default if default != "(required)" else "...")
    return Explanation(
        key=key,
        meaning=" ".join((docstring or _of_section(field.annotation)).split()),
        type=_type_name(field.annotation),
        default=default,
        example=f"--set {key}={shown}",
        section=bool(_models(field.annotation)),
    )


def _docstring(owner: type[BaseModel], name: str) -> str:
    """What stands below the setting in its class, or in the one it is inherited from; nothing where nothing does."""
    return next((_docstrings(each)[name] for each in owner.__mro__ if name in inspect.get_annotations(each)), "")


@cache
def _docstrings(owner: type) -> dict[str, str]:
    """By setting. pydantic would read them too, but as each class is made, which takes 30 ms of every `caption`."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(made, ast.ClassDef)
    found = dict.fromkeys(owner.__annotations__, "")
    for one, below in pairwise(made.body):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and isinstance(below, ast.Expr):
            found[one.target.id] = str(ast.literal_eval(below.value))
    return found


def _of_section(annotation: Any) -> str:
    """A section needs no docstring of its own where its class has one."""
    return (next(iter(_models(annotation))).__doc__ or "") if _models(annotation) else ""


def _unknown(owners: list[type[BaseModel]], key: str) -> ConfigError:
    known = [name for owner in owners for name in owner.model_fields]
    close = difflib.get_close_matches(key.rpartition(".")[2], known, n=1, cutoff=0.5)
    return ConfigError(f"unknown setting '{key}'" + (f", did you mean '{close[0]}'?" if close else ""))


def _annotation(owner: type[BaseModel], name: str) -> Any:
    return owner.model_fields[name].annotation


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The settings classes inside an annotation, through unions and containers."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for each in typing.get_args(annotation) for found in _models(each)]


def _plain(value: Any) -> str:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_defaults=True)
    elif isinstance(value, tuple):
        value = list(value)
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _type_name(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is typing.Annotated:
        return _type_name(arguments[0])
    if origin is typing.Literal:
        return " | ".join(str(each) for each in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type_name(each) for each in arguments)
    if origin is not None:
        inner = ", ".join("..." if each is Ellipsis else _type_name(each) for each in arguments)
        return f"{getattr(origin, '__name__', origin)}[{inner}]"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.__name__.removesuffix("Settings").lower() + " (section)"
    return getattr(annotation, "__name__", str(annotation))
