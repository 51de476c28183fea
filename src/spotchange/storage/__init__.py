"""Files in object stores and on web servers, through fsspec: s3://, gs://, az://, hf://, http(s)://.

`as_place` gives a `StorePath` for such an address and a `Path` for anything else, so that local files need nothing and
pay nothing. A `ShardMember` is a place too: an image inside a tar shard, wherever that lies. `reading` is the one
place that reads from a store, `writing` the one that writes to it; both go through `stores`, which tries again when a
store stumbles and fails with the same `OSError`s as a disk. Credentials are found where the store's own tools find
them, and nowhere else.
"""

from spotchange.storage.fetchable import Fetchable
from spotchange.storage.member import PairMembers, ShardMember
from spotchange.storage.outgoing import Outgoing, outgoing_folder
from spotchange.storage.path import StorePath, as_place, beside, file_size, is_address, read_between
from spotchange.storage.stores import StoreError, StoreNotFoundError, StorePermissionError
from spotchange.storage.writing import check_writable

__all__ = [
    "Fetchable",
    "Outgoing",
    "PairMembers",
    "ShardMember",
    "StoreError",
    "StoreNotFoundError",
    "StorePath",
    "StorePermissionError",
    "as_place",
    "beside",
    "check_writable",
    "file_size",
    "is_address",
    "outgoing_folder",
    "read_between",
]
