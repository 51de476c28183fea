"""Many clients at once: every one gets the answer for its own pair."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow

REQUESTS, CLIENTS, PAIRS = 2_000, 32, 50


def test_no_failed_and_no_mixed_up_answer_in_2000_requests(
    api_server: Any, captioner: Any, draw: Callable[..., bytes], pair_form: Callable[[bytes, bytes], Any]
) -> None:
    # Pictures differ in size, so boxes differ too: an answer fits one pair only.
    pairs = [(draw(1000 + n, size=(60 + n, 48)), draw(2000 + n, size=(60 + n, 40))) for n in range(PAIRS)]
    expected = [captioner.caption(*pair) for pair in pairs]
    told_apart = {(result.caption, result.regions) for result in expected}
    assert len(told_apart) == PAIRS
    numbers = iter(range(REQUESTS))
    wrong: list[str] = []

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=api_server.address, timeout=60) as client:
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
    batches = httpx.get(f"{api_server.address}/metrics").text
    count = next(
        float(line.split()[-1]) for line in batches.splitlines() if line.startswith("spotchange_batch_pairs_count")
    )
    assert count < REQUESTS / 2  # they were answered together
