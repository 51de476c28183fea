"""What can go wrong for a user, as one exception tree.

Every error is one line that says what is wrong, with an optional hint that says what to do.
The command line prints both and exits with code 2; the server turns them into problem details.
"""

from __future__ import annotations


class SpotchangeError(Exception):
    """Base of every error a user can cause and repair."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(SpotchangeError):
    """An argument or input file is missing, unreadable or contradictory."""


class ImageError(InputError):
    """An image cannot be read."""


class ImageSizeError(ImageError):
    """An image is larger or longer than is accepted."""


class DataError(InputError):
    """A data set row or annotation file is wrong."""


class ConfigError(SpotchangeError):
    """A setting or recipe is wrong."""


class ModelError(SpotchangeError):
    """A model folder or weight file is missing, incomplete or of the wrong shape."""


class ReplyError(SpotchangeError):
    """A model that was asked did not answer, or not in the form that was asked for."""


class MissingExtraError(SpotchangeError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, *, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'spotchange[{extra}]'")
