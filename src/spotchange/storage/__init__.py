"""Files in object stores and on web servers, through fsspec: s3://, gs://, az://, hf://, http(s)://.

`as_place` gives a `StorePath` for such an address and a `Path` for anything else, so that local files need nothing and
pay nothing. `reading` is the one place that reads from a store, `writing` the one that writes to it; both go through
`stores`, which tries again when a store stumbles and fails with the same `OSError`s as a disk. Credentials are found
where the store's own tools find them, and nowhere else.
"""

from spotchange.storage.outgoing import Outgoing, outgoing_folder
from spotchange.storage.path import StorePath, as_place, beside, is_address
from spotchange.storage.stores import StoreError, StoreNotFoundError, StorePermissionError
from spotchange.storage.writing import check_writable

__all__ = [
    "Outgoing",
    "StoreError",
    "StoreNotFoundError",
    "StorePath",
    "StorePermissionError",
    "as_place",
    "beside",
    "check_writable",
    "is_address",
    "outgoing_folder",
]
