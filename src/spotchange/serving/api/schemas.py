"""What the API takes and gives, for the OpenAPI description; examples are real answers of the real form."""

from __future__ import annotations

import base64
import io
from typing import Annotated, Any, Literal

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from spotchange.results import Box

Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]


class AlternativeOut(BaseModel):
    """Another sentence the model found."""

    text: str
    score: float


class RegionOut(BaseModel):
    """A place where something changed, in pixels of the image that was sent."""

    image: Literal["before", "after"]
    box: tuple[int, int, int, int] = Field(description="x, y, width, height")
    score: float


class FindingOut(BaseModel):
    """One thing the comparison saw."""

    kind: str
    sentence: str
    boxes_before: list[Box]
    boxes_after: list[Box]
    pixels: int
    shift: tuple[int, int] | None
    colours: tuple[str, str] | None
    text_before: str | None
    text_after: str | None


class CaptionOut(BaseModel):
    """What changed between two images."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "schema_version": 2,
                "caption": "the large red metal cube has disappeared",
                "changed": True,
                "change_score": 0.9731,
                "change_type": "drop",
                "alternatives": [{"text": "the big red shiny block is gone", "score": -0.31}],
                "differences": [],
                "regions": [{"image": "before", "box": [120, 64, 48, 52], "score": 0.94}],
                "familiarity": 0.81,
                "source": "model",
                "warnings": [],
                "model": "bundled",
                "seconds": 0.042,
                "identical": False,
                "preset": "exact",
                "findings": [],
                "diff_pixels": 2496,
                "diff_ratio": 0.0163,
                "largest_difference": 0.41,
            }
        }
    )

    schema_version: int
    caption: str
    changed: bool
    change_score: float
    change_type: str | None
    alternatives: list[AlternativeOut]
    differences: list[str] = Field(description="every single difference, where all were asked for")
    regions: list[RegionOut]
    familiarity: float | None
    source: str = Field(description="who answered: model, pixels, or another answerer's kind")
    warnings: list[str]
    model: str
    seconds: float
    identical: bool = Field(description="every pixel is the same")
    preset: str | None = Field(description="tolerances of the verdict, where the comparison gave it")
    findings: list[FindingOut]
    diff_pixels: int | None
    diff_ratio: float | None
    largest_difference: float | None
    heatmap: Base64 | None = Field(default=None, description="A PNG of both images with the change marked.")


class PairIn(BaseModel):
    """Two images in base64."""

    model_config = ConfigDict(extra="forbid")

    before: Base64
    after: Base64


class NamedPairIn(PairIn):
    """Two images and the name their result carries; without one, their number."""

    id: str | None = Field(default=None, max_length=200)


class BatchIn(BaseModel):
    """Many pairs."""

    model_config = ConfigDict(extra="forbid")

    pairs: list[NamedPairIn] = Field(min_length=1)


class ModelOut(BaseModel):
    """A model that answers here."""

    id: str
    architecture: str
    change_types: list[str]
    image_size: tuple[int, int] | None = Field(description="height, width the model looks at")
    device: str


class ModelsOut(BaseModel):
    """The models of this server."""

    models: list[ModelOut]


class StateOut(BaseModel):
    """Whether the server lives or is ready."""

    status: Literal["ok", "ready"]


class ProblemOut(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:spotchange:problem:not-a-picture",
                "title": "Unsupported Media Type",
                "status": 415,
                "detail": "after: picture is not an image",
            }
        }
    )

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None


def example_image(color: str) -> str:
    """A very small PNG in base64."""
    packed = io.BytesIO()
    Image.new("RGB", (8, 8), color).save(packed, "PNG")
    return base64.b64encode(packed.getvalue()).decode("ascii")


def request_body(*, many: bool) -> dict[str, Any]:
    """The two forms a body may have."""
    pair = {"before": example_image("gray"), "after": example_image("red")}
    file = {"type": "string", "contentMediaType": "application/octet-stream", "format": "binary"}
    fields: dict[str, Any] = {"before": file, "after": file}
    if many:
        fields = {name: {"type": "array", "items": file, "minItems": 1} for name in fields}
        fields["id"] = {"type": "array", "items": {"type": "string", "maxLength": 200}}
    form = {"type": "object", "properties": fields, "required": ["before", "after"]}
    model = BatchIn if many else PairIn
    example = {"pairs": [{"id": "first", **pair}]} if many else pair
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": form},
                "application/json": {"schema": schema, "example": example},
            },
        }
    }
