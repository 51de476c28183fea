"""Many clients at once: every one gets the answer for its own pair."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from PIL import Image

from spotchange.serving.settings import ServerSettings

pytestmark = pytest.mark.slow

REQUESTS, CLIENTS, PAIRS = 2_000, 32, 50


def test_no_failed_and_no_mixed_up_answer_in_2000_requests(
    api_server: Any, captioner: Any, draw: Callable[..., bytes], pair_form: Callable[[bytes, bytes], Any]
) -> None:
    # Images differ in size, so boxes differ too: an answer fits one pair only.
    pairs = [(draw(1000 + n, size=(60 + n, 48)), draw(2000 + n, size=(60 + n, 40))) for n in range(PAIRS)]
    expected = [captioner.caption(*pair) for pair in pairs]
    told_apart = {(result.caption, result.regions) for result in expected}
    assert len(told_apart) == PAIRS
    numbers = iter(range(REQUESTS))
    wrong: list[str] = []

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=api_server.address, timeout=180) as client:
            for number in numbers:
                place = (number * 7) % PAIRS
                response = await client.post("/v1/caption", files=pair_form(*pairs[place]))
                told, right = response.json(), expected[place].to_dict()
                same = response.status_code == 200 and told["caption"] == right["caption"]
                boxes = [region["box"] for region in told.get("regions", [])]
                if not same or boxes != [region["box"] for region in right["regions"]]:
                    wrong.append(f"pair {place}: {response.status_code} {told}")
                elif told["change_score"] != pytest.approx(right["change_score"], abs=2e-3):
                    wrong.append(f"pair {place}: score {told['change_score']} not {right['change_score']}")

    async def everybody() -> None:
        await asyncio.gather(*(ask() for _ in range(CLIENTS)))

    asyncio.run(everybody())
    assert next(numbers, None) is None
    assert not wrong, wrong[:3]
    batches = httpx.get(f"{api_server.address}/metrics", timeout=120).text
    count = next(
        float(line.split()[-1]) for line in batches.splitlines() if line.startswith("spotchange_batch_pairs_count")
    )
    assert count < REQUESTS / 2  # they were answered together


HOSTILE_EVERY = 100


def resident_bytes(process: int) -> int:
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def hostile_requests(draw: Callable[..., bytes]) -> list[dict[str, Any]]:
    """What an attacker sends between the requests of others; each with the answers it may get."""

    def flat(size: tuple[int, int]) -> bytes:
        packed = io.BytesIO()
        Image.new("L", size).save(packed, "PNG")
        return packed.getvalue()

    good = ("a.png", draw(1), "image/png")
    files: list[tuple[dict[str, Any], set[int]]] = [
        ({"before": ("a.png", flat((1, 1_000_000)), "image/png"), "after": good}, {413}),
        ({"before": ("a.png", flat((6300, 6300)), "image/png"), "after": good}, {200}),
        ({"before": ("a.png", draw(1)[:60], "image/png"), "after": good}, {415, 422}),
        ({"before": ("a.png", b"\xff" * 1000, "image/png"), "after": good}, {415, 422}),
        ({"before": good}, {422}),
        ({f"x{number}": good for number in range(50)}, {400, 422}),
    ]
    sent: list[dict[str, Any]] = [{"files": parts, "allowed": allowed} for parts, allowed in files]
    for text in (b"[" * 10_000, b"[" * 100_000, b"[],".join([b"["] * 1_000_000)):
        sent.append({"content": text, "headers": {"content-type": "application/json"}, "allowed": {400, 422}})
    sent.append({"files": {"before": good, "after": good}, "params": {"x": "1"}, "allowed": {422}})
    sent.append({"files": {"before": good}, "headers": {"origin": "http://evil.example"}, "allowed": {403}})
    return sent


def test_hostile_requests_among_others_cost_nobody_an_answer(
    api_server: Any, captioner: Any, draw: Callable[..., bytes], pair_form: Callable[[bytes, bytes], Any]
) -> None:
    pairs = [(draw(1000 + n, size=(60 + n, 48)), draw(2000 + n, size=(60 + n, 40))) for n in range(10)]
    expected = [captioner.caption(*pair).to_dict() for pair in pairs]
    attacks = hostile_requests(draw)
    numbers = iter(range(HOSTILE_EVERY * len(attacks)))
    wrong: list[str] = []

    async def attack(client: httpx.AsyncClient, number: int) -> None:
        sent = dict(attacks[number // HOSTILE_EVERY])
        allowed = sent.pop("allowed")
        response = await client.post("/v1/caption", **sent)
        if response.status_code not in allowed:
            wrong.append(f"attack {number // HOSTILE_EVERY}: {response.status_code} {response.text[:200]}")

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=api_server.address, timeout=180) as client:
            for number in numbers:
                if number % HOSTILE_EVERY == 0:
                    await attack(client, number)
                    continue
                place = (number * 7) % len(pairs)
                response = await client.post("/v1/caption", files=pair_form(*pairs[place]))
                told = response.json()
                boxes = [region["box"] for region in told.get("regions", [])]
                right = [region["box"] for region in expected[place]["regions"]]
                if response.status_code != 200 or told["caption"] != expected[place]["caption"] or boxes != right:
                    wrong.append(f"pair {place}: {response.status_code} {told}")

    async def everybody() -> None:
        await asyncio.gather(*(ask() for _ in range(16)))

    asyncio.run(everybody())
    assert next(numbers, None) is None
    assert not wrong, wrong[:3]
    if sys.platform == "linux":
        # Libraries and model, 4 bytes for each pixel that may be decoded at a time, and as much again for copies.
        assert resident_bytes(api_server.process.pid) < 2**30 + 2 * 4 * ServerSettings().max_decoded_pixels
