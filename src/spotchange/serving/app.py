"""Puts the parts together: API, page and the gateway in front of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import HTMLResponse

from spotchange import __version__
from spotchange.answering import Answerer
from spotchange.serving.api import answers, problems
from spotchange.serving.api.answers import Answering
from spotchange.serving.api.routes import caption_router, health_router, known_parameters, models_router
from spotchange.serving.api.schemas import NamedPairIn, ProblemOut
from spotchange.serving.api.uploads import Decoder
from spotchange.serving.attempts import Attempts
from spotchange.serving.engine.meter import Meter
from spotchange.serving.engine.queue import Batcher
from spotchange.serving.engine.workers import Workers
from spotchange.serving.guard import App, Guard
from spotchange.serving.page.disguise import Disguise
from spotchange.serving.page.gateway import PageGateway
from spotchange.serving.page.sweeping import KEPT_SECONDS, Sweeper
from spotchange.serving.settings import ServerSettings

DESCRIPTION = "Two pictures in, a sentence about what changed out. Errors are problem details (RFC 9457)."


class Service:
    """One server's parts; `app` is what the web server runs."""

    def __init__(self, answerer: Answerer, settings: ServerSettings, *, page_files: Path | None = None) -> None:
        self.settings = settings
        self.meter = Meter()
        # A GPU takes a batch whole; a CPU's cores take a part each.
        self.workers = Workers(answerer) if answerer.workers > 1 else None
        at_once = answerer.card.at_once
        self.batcher = Batcher(
            self.workers or answerer,
            batch_size=settings.batch_size if at_once == 1 else 1,
            at_once=at_once,
            window_seconds=settings.window_seconds,
            places=settings.places,
            observer=self.meter,
        )
        self.meter.watch_places(lambda: self.batcher.places_taken)
        self.decoder = Decoder(settings)
        self.api = self._make_api(answerer)
        self.page: FastAPI | None = None
        self.stop_page: Callable[[], None] = lambda: None  # ends the open streams of pages
        self.sweeper: Sweeper | None = None
        attempts = Attempts()  # of keys, on the page and in the API
        page: App | None = None
        if settings.page:
            # The page's framework takes seconds to import: only where it is wanted.
            from spotchange.serving.page.build import make_page

            self.page, framework = make_page(answerer.card.name, self.batcher, settings)
            self.stop_page = framework.stop_event.set
            page = self.page if page_files is None else Disguise(self.page, page_files)
            self.sweeper = _sweeper(page_files, settings)
            page = PageGateway(
                page,
                framework=framework,
                key_needed=settings.api_key is not None,
                attempts=attempts,
                has_room=self.sweeper.has_room if self.sweeper is not None else lambda _: True,
                largest_upload=settings.max_request_bytes,
            )
        self.app = Guard(api=self.api, page=page, settings=settings, meter=self.meter, attempts=attempts)

    def close(self) -> None:
        """Finish what was accepted, then stop the threads."""
        self.batcher.close()
        self.decoder.close()
        if self.sweeper is not None:
            self.sweeper.close()
        if self.workers is not None:
            self.workers.close()

    def _make_api(self, answerer: Answerer) -> FastAPI:
        # No interactive description: its scripts would come from another host.
        api = FastAPI(
            title="spotchange",
            version=__version__,
            description=DESCRIPTION,
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            lifespan=self._lifespan,
        )
        problems.install(api)
        answers.install(api, self.meter)
        api.include_router(caption_router(Answering(self.batcher, self.decoder, self.settings)))
        api.include_router(models_router(answerer))
        api.include_router(health_router(self.batcher, self.meter))
        _describe(api, key_needed=self.settings.api_key is not None)

        @api.get("/openapi.json", include_in_schema=False, dependencies=[known_parameters()])
        async def description() -> dict[str, Any]:
            return api.openapi()

        @api.get("/docs", include_in_schema=False, dependencies=[known_parameters()])
        async def docs() -> HTMLResponse:
            return HTMLResponse(docs_page(api.openapi()))

        return api

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if self.page is not None:
                await stack.enter_async_context(self.page.router.lifespan_context(self.page))
            yield


def _sweeper(folder: Path | None, settings: ServerSettings) -> Sweeper | None:
    if folder is None:
        return None
    return Sweeper(folder, kept_seconds=KEPT_SECONDS, most_bytes=settings.max_page_bytes)


def _describe(api: FastAPI, *, key_needed: bool) -> None:
    """Complete the OpenAPI description: problems instead of the framework's own errors, and the key."""
    made = api.openapi

    def openapi() -> dict[str, Any]:
        if api.openapi_schema is not None:
            return api.openapi_schema
        description = made()
        schemas = description["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for model in (ProblemOut, NamedPairIn):
            schemas[model.__name__] = model.model_json_schema(ref_template="#/components/schemas/{model}")
        if key_needed:
            description["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            for path, routes in description["paths"].items():
                if path.startswith("/v1/") or path == "/metrics":
                    for route in routes.values():
                        route["security"] = [{"key": []}]
        return description

    api.openapi = openapi  # type: ignore[method-assign]


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>spotchange API</title></head><body>
<h1>spotchange API</h1>
<p>{about} The whole description, for tools that read OpenAPI: <a href="openapi.json">openapi.json</a>.</p>
<table><thead>
<tr><th scope="col">Route</th><th scope="col">What it does</th><th scope="col">Parameters</th></tr></thead>
<tbody>{rows}</tbody></table></body></html>
"""


def docs_page(description: dict[str, Any]) -> str:
    """`/docs`: one row per route of an OpenAPI description, without a script from anywhere."""
    rows = []
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            parameters = ", ".join(str(each["name"]) for each in route.get("parameters", ()))
            cells = (f"{method.upper()} {path}", route.get("description") or route.get("summary", ""), parameters)
            rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return _PAGE.format(about=escape(description["info"].get("description", "")), rows="".join(rows))
