"""Pages of the kinds documentation packages do not ship: forms, tables, dashboards, shops, articles, in three looks."""

from __future__ import annotations

import base64
import random

LOOKS = (
    {
        "ground": "#ffffff",
        "ink": "#1f2328",
        "brand": "#0969da",
        "card": "#f6f8fa",
        "line": "#d0d7de",
        "font": "sans-serif",
    },
    {"ground": "#fdf6e3", "ink": "#3b4252", "brand": "#b58900", "card": "#ffffff", "line": "#e0d7bf", "font": "serif"},
    {
        "ground": "#10151c",
        "ink": "#e6edf3",
        "brand": "#2ea043",
        "card": "#1b222c",
        "line": "#30363d",
        "font": "sans-serif",
    },
)
WORDS = [
    "account",
    "active",
    "amount",
    "annual",
    "archive",
    "balance",
    "basic",
    "budget",
    "cancel",
    "carrier",
    "change",
    "charge",
    "client",
    "cloud",
    "contact",
    "country",
    "coupon",
    "credit",
    "daily",
    "delivery",
    "deposit",
    "discount",
    "domain",
    "draft",
    "export",
    "factory",
    "filter",
    "first",
    "forward",
    "gallery",
    "garden",
    "growth",
    "handle",
    "header",
    "history",
    "import",
    "invoice",
    "island",
    "journal",
    "kitchen",
    "label",
    "latest",
    "ledger",
    "letter",
    "limit",
    "list",
    "market",
    "member",
    "message",
    "method",
    "monthly",
    "mountain",
    "network",
    "notice",
    "number",
    "office",
    "option",
    "order",
    "orange",
    "owner",
    "package",
    "parcel",
    "partner",
    "payment",
    "pending",
    "people",
    "period",
    "phone",
    "planet",
    "plan",
    "policy",
    "portal",
    "price",
    "product",
    "profile",
    "project",
    "public",
    "quarter",
    "query",
    "quick",
    "reason",
    "receipt",
    "record",
    "region",
    "report",
    "request",
    "return",
    "review",
    "river",
    "sample",
    "season",
    "secure",
    "service",
    "session",
    "shipping",
    "silver",
    "simple",
    "status",
    "stock",
    "street",
    "summary",
    "supply",
    "support",
    "system",
    "target",
    "team",
    "ticket",
    "total",
    "travel",
    "update",
    "upload",
    "usage",
    "user",
    "value",
    "vendor",
    "version",
    "village",
    "volume",
    "wallet",
    "warehouse",
    "weekly",
    "winter",
]


def written_pages() -> dict[str, str]:
    """Name of each page to its HTML; always the same."""
    pages = {}
    for number, look in enumerate(LOOKS):
        for kind, body in BODIES.items():
            generator = random.Random(f"{kind}{number}")
            pages[f"{kind}-{number}"] = _page(kind, body(generator), look)
    return pages


def _page(title: str, body: str, look: dict[str, str]) -> str:
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
* {{ box-sizing: border-box }}
body {{ margin: 0; background: {look["ground"]}; color: {look["ink"]}; font: 16px/1.5 {look["font"]} }}
header {{ display: flex; gap: 24px; align-items: center; padding: 12px 32px; border-bottom: 1px solid {look["line"]} }}
header b {{ color: {look["brand"]}; font-size: 20px }} nav a {{ margin-right: 16px; color: inherit; text-decoration: none }}
main {{ max-width: 1040px; margin: 0 auto; padding: 24px 32px }} h1 {{ font-size: 30px; margin: 0 0 12px }}
h2 {{ font-size: 21px; margin: 20px 0 8px }} p {{ margin: 0 0 12px }} a {{ color: {look["brand"]} }}
.grid {{ display: grid; grid-template-columns: repeat(3, 1fr); gap: 16px }}
.card {{ background: {look["card"]}; border: 1px solid {look["line"]}; border-radius: 8px; padding: 16px }}
.price {{ font-size: 24px; font-weight: 700 }} .muted {{ color: #777; font-size: 14px }}
button, .button {{ background: {look["brand"]}; color: #fff; border: 0; border-radius: 6px; padding: 8px 16px; font: inherit }}
input, select, textarea {{ font: inherit; padding: 6px 10px; border: 1px solid {look["line"]}; border-radius: 4px;
  background: {look["card"]}; color: inherit; width: 100% }} label {{ display: block; margin: 10px 0 }}
table {{ border-collapse: collapse; width: 100% }} td, th {{ border-bottom: 1px solid {look["line"]}; padding: 7px 10px; text-align: left }}
.badge {{ display: inline-block; background: {look["brand"]}; color: #fff; border-radius: 10px; padding: 0 10px; font-size: 13px }}
.split {{ display: flex; gap: 32px }} aside {{ flex: 0 0 220px }} section {{ flex: 1 }}
.pile {{ position: relative; height: 170px; margin: 16px 0 }} .pile div {{ position: absolute; width: 260px; height: 120px; padding: 12px;
  border-radius: 8px; border: 1px solid {look["line"]} }}
footer {{ padding: 24px 32px; border-top: 1px solid {look["line"]}; font-size: 14px }}
</style></head><body><header><b>{title.title()}</b><nav>{"".join(f"<a href='#'>{word}</a>" for word in ("Home", "Products", "Docs", "Blog"))}</nav>
<span class="button" style="margin-left:auto">Sign up</span></header><main>{body}</main>
<footer><p>All prices include tax. Contact support at any time.</p></footer></body></html>"""


def _words(generator: random.Random, count: int) -> str:
    text = " ".join(generator.choice(WORDS) for _ in range(count))
    return text[0].upper() + text[1:]


def _paragraphs(generator: random.Random, count: int, length: int = 45) -> str:
    return "".join(f"<p>{_words(generator, length)}.</p>" for _ in range(count))


def image(generator: random.Random, width: int = 240, height: int = 140) -> str:
    """An `img` with a drawing of its own."""
    shapes = "".join(
        f"<circle cx='{generator.randrange(width)}' cy='{generator.randrange(height)}' r='{generator.randrange(8, 50)}' "
        f"fill='hsl({generator.randrange(360)},60%,{generator.randrange(30, 80)}%)'/>"
        for _ in range(7)
    )
    drawing = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}'>"
        f"<rect width='100%' height='100%' fill='hsl({generator.randrange(360)},40%,75%)'/>{shapes}</svg>"
    )
    content = base64.b64encode(drawing.encode()).decode()
    return f"<img width='{width}' height='{height}' src='data:image/svg+xml;base64,{content}'>"


def _pricing(g: random.Random) -> str:
    cards = "".join(
        f"<div class='card'><h2>{name}</h2><div class='price'>${g.randrange(5, 90)}.99</div><p class='muted'>per month</p>"
        f"<ul>{''.join(f'<li>{_words(g, 3)}</li>' for _ in range(4))}</ul><button>Choose {name}</button></div>"
        for name in ("Basic", "Team", "Business")
    )
    return f"<h1>Plans and prices</h1>{_paragraphs(g, 1)}<div class='grid'>{cards}</div><h2>Questions</h2>{_paragraphs(g, 3)}"


def _form(g: random.Random) -> str:
    fields = "".join(f"<label>{_words(g, 2)}<input value='{_words(g, 2)}'></label>" for _ in range(5))
    return (
        f"<h1>Delivery address</h1>{fields}<label>Country<select><option>Portugal</option></select></label>"
        f"<label>Notes<textarea rows='3'>{_words(g, 12)}</textarea></label><button>Save address</button> <a href='#'>Cancel</a>"
    )


def _table(g: random.Random) -> str:
    rows = "".join(
        f"<tr><td>{number}</td><td>{_words(g, 2)}</td><td>{g.randrange(1, 999)}.{g.randrange(10, 99)}</td>"
        f"<td><span class='badge'>{g.choice(('paid', 'open', 'late'))}</span></td><td>2026-{g.randrange(1, 13):02d}-{g.randrange(1, 29):02d}</td></tr>"
        for number in range(1041, 1055)
    )
    return f"<h1>Invoices</h1><table><tr><th>No</th><th>Client</th><th>Amount</th><th>State</th><th>Due</th></tr>{rows}</table>"


def _dashboard(g: random.Random) -> str:
    cards = "".join(
        f"<div class='card'><div class='muted'>{_words(g, 2)}</div><div class='price'>{g.randrange(100, 9999):,}</div>"
        f"<span class='badge'>+{g.randrange(1, 30)} %</span></div>"
        for _ in range(6)
    )
    bars = "".join(
        f"<rect x='{20 + 60 * n}' y='{180 - h}' width='38' height='{h}' fill='#4c78a8'/>"
        for n, h in enumerate(g.randrange(20, 170) for _ in range(12))
    )
    chart = f"<svg width='760' height='190'>{bars}</svg>"
    return f"<h1>Overview</h1><div class='grid'>{cards}</div><h2>Orders per month</h2><div class='card'>{chart}</div>{_paragraphs(g, 1)}"


def _article(g: random.Random) -> str:
    return (
        f"<h1>{_words(g, 5)}</h1><p class='muted'>Published on Monday by the editors</p>{_paragraphs(g, 2)}"
        f"{image(g, 420, 180)}<h2>{_words(g, 3)}</h2>{_paragraphs(g, 3)}<blockquote>{_words(g, 14)}</blockquote>{_paragraphs(g, 3)}"
    )


def _shop(g: random.Random) -> str:
    cards = "".join(
        f"<div class='card'>{image(g)}<h2>{_words(g, 2)}</h2><div class='price'>${g.randrange(5, 400)}.00</div><button>Add to cart</button></div>"
        for _ in range(6)
    )
    return f"<h1>New this week</h1><div class='grid'>{cards}</div>"


def _split(g: random.Random) -> str:
    side = "".join(f"<li><a href='#'>{_words(g, 2)}</a></li>" for _ in range(11))
    body = "".join(f"<h2>{_words(g, 3)}</h2>{_paragraphs(g, 1)}" for _ in range(5))
    return f"<div class='split'><aside><h2>Topics</h2><ul>{side}</ul></aside><section><h1>{_words(g, 3)}</h1>{body}</section></div>"


def _pile(g: random.Random) -> str:
    piles = "".join(
        "<div class='pile'>"
        + "".join(
            f"<div style='left:{60 * n + 40 * m}px;top:{22 * n}px;background:hsl({g.randrange(360)},55%,70%);color:#222;z-index:{n + 1}'>"
            f"<b>{_words(g, 2)}</b><br>{_words(g, 4)}</div>"
            for n in range(3)
        )
        + "</div>"
        for m in range(3)
    )
    return f"<h1>Boards</h1>{_paragraphs(g, 1)}{piles}"


def _mail(g: random.Random) -> str:
    rows = "".join(
        f"<div class='card' style='margin-bottom:8px;padding:8px 16px'><b>{_words(g, 2)}</b> <span class='muted'>{_words(g, 8)}</span></div>"
        for _ in range(11)
    )
    return f"<h1>Inbox <span class='badge'>{g.randrange(2, 40)}</span></h1>{rows}"


BODIES = {
    "pricing": _pricing,
    "form": _form,
    "table": _table,
    "dashboard": _dashboard,
    "article": _article,
    "shop": _shop,
    "split": _split,
    "pile": _pile,
    "mail": _mail,
}
