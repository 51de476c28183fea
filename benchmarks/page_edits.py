"""Edits real HTML pages in a real Chromium by changing the DOM, and keeps what was edited as the truth.

    python benchmarks/page_edits.py OUT --documents FOLDER [--cases 600] [--chromium /usr/bin/chromium]

FOLDER holds unpacked documentation (Debian's `python3.11-doc`, `sqlite3-doc`, `git-doc`, `python-django-doc`,
`postgresql-doc-15`, `apache2-doc`, `python-flask-doc`, `debian-handbook`, `python-pandas-doc` were used, with the
style sheets and scripts they depend on: `libjs-sphinxdoc`, `libjs-jquery`, `libjs-underscore`, `libjs-mathjax`);
each is fetched by `apt-get download NAME` and unpacked by `dpkg-deb -x NAME*.deb FOLDER`. The pages of other kinds
are written by `written_pages.py`. `compare_pages.py` judges the result.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from written_pages import written_pages

KINDS = (
    "text",
    "text colour",
    "ground colour",
    "slight",
    "font size",
    "size",
    "position",
    "removed",
    "removed block",
    "inserted",
    "inserted block",
    "reordered",
    "image",
    "font weight",
    "hidden",
    "z-order",
)
VIEW = {"width": 1280, "height": 800}
ARGUMENTS = ["--no-sandbox", "--disable-lcd-text", "--hide-scrollbars"]
# The same page painted by the GPU path, in software: other rounding of nearly every smoothed pixel.
GPU_RASTER = [
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--enable-gpu-rasterization",
    "--ignore-gpu-blocklist",
]
EDIT = (Path(__file__).parent / "page_edits.js").read_text(encoding="utf-8")


def pages(documents: Path | None, written: Path, *, documents_each: int) -> list[tuple[str, str]]:
    """(name, address) of every page."""
    found = []
    written.mkdir(parents=True, exist_ok=True)
    for name, content in written_pages().items():
        (written / f"{name}.html").write_text(content, encoding="utf-8")
        found.append((name, (written / f"{name}.html").resolve().as_uri()))
    if documents is not None:
        # Without their scripts, pages lie in columns that overlap; the scripts' own pages are no documentation.
        packages = (each for each in documents.rglob("doc/*") if each.is_dir() and not each.name.startswith("libjs-"))
        for package in sorted(packages):
            files = sorted(each for each in package.rglob("*.html") if 8_000 < each.stat().st_size < 300_000)
            for file in random.Random(package.name).sample(files, min(documents_each, len(files))):
                found.append((f"{package.name}-{file.stem}", file.resolve().as_uri()))
    return found


def shoot(page: Any, path: Path, *, full: bool = False) -> None:
    """A screenshot with nothing that moves by itself."""
    page.screenshot(path=str(path), animations="disabled", caret="hide", full_page=full)


def make(
    page: Any, address: str, kind: str, seed: int, folder: Path, name: str, *, full: bool
) -> dict[str, Any] | None:
    """Open, shoot, edit, shoot; the record of the edit, or None if the page has nothing to edit this way."""
    page.goto(address, wait_until="load")
    if full and page.evaluate("document.documentElement.scrollHeight") > 6000:
        full = False
    shoot(page, folder / f"{name}_before.png", full=full)
    record = page.evaluate(f"({EDIT})", [kind, seed])
    if record is None:
        return None
    page.evaluate("Promise.all([...document.images].map(i => i.decode().catch(() => 0)))")
    shoot(page, folder / f"{name}_after.png", full=full)
    return {"name": name, "address": address, "full": full, **record}


def cases(all_pages: list[tuple[str, str]], count: int, seed: int) -> Iterator[tuple[str, str, str, int]]:
    """Every kind as often as every other, over all pages in turn."""
    generator = random.Random(seed)
    order: list[tuple[str, str]] = []
    number = 0
    while number < count:
        for kind in KINDS:
            for _ in range(40):  # some pages have no image, no boards
                order = order or generator.sample(all_pages, len(all_pages))
                page_name, address = order.pop()
                if kind != "z-order" or page_name.startswith("pile"):
                    break
            yield page_name, address, kind, generator.randrange(1, 2**31)
            number += 1


def reloads(browser: Any, all_pages: list[tuple[str, str]], folder: Path) -> None:
    """The same page again, at another device scale, and painted another way: no change."""
    folder.mkdir(parents=True, exist_ok=True)
    for scale in (1, 2):
        page = browser.new_page(viewport=VIEW, device_scale_factor=scale)
        for number, (_, address) in enumerate(all_pages):
            page.goto(address, wait_until="load")
            shoot(page, folder / f"{number:03d}_scale{scale}.png")
            if scale == 1:
                page.goto(address, wait_until="load")
                shoot(page, folder / f"{number:03d}_again.png")
        page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--documents", type=Path)
    parser.add_argument("--documents-each", type=int, default=3)
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--full-share", type=float, default=0.1, help="share of cases that show the full page")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--skip-reloads", action="store_true")
    options = parser.parse_args()

    from playwright.sync_api import sync_playwright

    options.out.mkdir(parents=True, exist_ok=True)
    all_pages = pages(options.documents, options.out / "pages", documents_each=options.documents_each)
    print(f"{len(all_pages)} pages")
    with sync_playwright() as driver, (options.out / "cases.jsonl").open("w", encoding="utf-8") as records:
        browser = driver.chromium.launch(executable_path=options.chromium, args=ARGUMENTS)
        page = browser.new_page(viewport=VIEW)
        made = 0
        for number, (_, address, kind, seed) in enumerate(cases(all_pages, options.cases, options.seed)):
            full = seed % 1000 < 1000 * options.full_share
            try:
                record = make(page, address, kind, seed, options.out, f"{number:04d}", full=full)
            except Exception as error:  # one page that will not load must not end a long run
                print(f"{number}: {address}: {error}")
                continue
            if record is not None:
                records.write(json.dumps(record) + "\n")
                records.flush()
                made += 1
        print(f"{made} cases")
        if not options.skip_reloads:
            reloads(browser, all_pages, options.out / "reloads")
            browser.close()
            other = driver.chromium.launch(executable_path=options.chromium, args=[*ARGUMENTS, *GPU_RASTER])
            page = other.new_page(viewport=VIEW)
            for number, (_, address) in enumerate(all_pages):
                page.goto(address, wait_until="load")
                shoot(page, options.out / "reloads" / f"{number:03d}_raster.png")
            other.close()


if __name__ == "__main__":
    main()
