"""Every data set that can be imported, by name."""

from __future__ import annotations

import difflib

from spotchange.data.importers import (
    birds_to_words,
    class_folders,
    clevr_change,
    clevr_dc,
    image_editing_request,
    levir_cc,
    nabirds,
    single_captions,
    spot_the_diff,
)
from spotchange.data.importers.base import Importer
from spotchange.errors import InputError

IMPORTERS: dict[str, Importer] = {
    importer.name: importer
    for importer in (
        clevr_change.IMPORTER,
        clevr_dc.IMPORTER,
        spot_the_diff.IMPORTER,
        image_editing_request.IMPORTER,
        birds_to_words.IMPORTER,
        levir_cc.IMPORTER,
        single_captions.IMPORTER,
        class_folders.IMPORTER,
        nabirds.IMPORTER,
    )
}


def get_importer(name: str) -> Importer:
    """An importer by name; the error names the nearest."""
    if name not in IMPORTERS:
        close = difflib.get_close_matches(name, IMPORTERS, n=1, cutoff=0.4)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(IMPORTERS)}"
        raise InputError(f"unknown data set '{name}'", hint=hint)
    return IMPORTERS[name]
