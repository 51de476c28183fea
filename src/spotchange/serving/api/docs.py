"""`/docs`: the API's description as a plain page, without a script from anywhere."""

from __future__ import annotations

from html import escape
from typing import Any

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>spotchange API</title></head><body>
<h1>spotchange API</h1>
<p>{about} The whole description, for tools that read OpenAPI: <a href="openapi.json">openapi.json</a>.</p>
<table><thead>
<tr><th scope="col">Route</th><th scope="col">What it does</th><th scope="col">Parameters</th></tr></thead>
<tbody>{rows}</tbody></table></body></html>
"""


def docs_page(description: dict[str, Any]) -> str:
    """HTML with one row a route of an OpenAPI description."""
    rows = []
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            parameters = ", ".join(str(each["name"]) for each in route.get("parameters", ()))
            cells = (f"{method.upper()} {path}", route.get("description") or route.get("summary", ""), parameters)
            rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return _PAGE.format(about=escape(description["info"].get("description", "")), rows="".join(rows))
