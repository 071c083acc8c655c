"""Where a lake lies: a folder, or a place in an S3-compatible store, and what is found there, each in a sentence.

Nothing here holds a credential: `deltalake` takes them from the environment, and no text of it reaches a person.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from enginebench_controller.errors import InputError, StoreError, StoreUnreachableError
from enginebench_controller.store.lake.tables import KINDS, MODELS, MONTH, SCHEMA, TABLES, Kind, LakeTable, arrow_schema
from enginebench_controller.typed_paths import typed_path

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

PROPERTY = "enginebench.schema"
"""The property of each Delta table by which it is known as one of a lake of ours, of this schema."""

PARTS = "enginebench.parts"
"""A commit to a head tells by it the versions that the other tables had: one that has less has lost something."""

_LOG = "_delta_log"
_COMMITS = 10
"""So many of the last are asked for it: who committed last may have looked before another did."""

_AT_ONCE = 8

_REASONS = {
    "NoSuchBucket|NO_SUCH_BUCKET": "there is no such bucket",
    r"\b40[13]\b|Forbidden|Access_?Denied|ACCESS_DENIED|InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|Signature": "it "
    "refuses the credentials in the environment",
    "[Cc]redential|169\\.254|[Tt]oken": "the environment has no credentials: set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or whatever else your store goes by",
    "error sending request|[Cc]onnect|NETWORK_CONNECTION|timed out|dns": "it does not answer",
    "No space left|Disk quota": "the disk is full",
    "Permission denied|Operation not permitted": "there is no permission to use it",
    "Read-only file system": "it lies on a read-only file system",
    "Not a directory|File exists": "it is not a folder",
    "magic bytes|[Cc]orrupt|[Jj]son error|Deserializ": "a file of it is damaged{}; put it there again from a copy",
    "No such file|not found|NotFound": "a file of it is gone{}, as after a compaction with too short a grace; try "
    "again, or put it there again from a copy",
    "delta log|log segment": "the log of a table has a gap; put its folder there again from a copy",
}
"""What the library says, and what of it a person is told: its own texts may show requests."""


@dataclass(frozen=True)
class Lake:
    """A lake at a folder or URL; making one touches nothing."""

    url: str

    @property
    def is_remote(self) -> bool:
        """Whether it lies in an object store."""
        return "://" in self.url

    @property
    def options(self) -> dict[str, str]:
        """What is asked of an object store: to refuse a second file of one name, and to answer soon."""
        if not self.is_remote:
            return {}
        return {"aws_conditional_put": "etag", "connect_timeout": "5s", "max_retries": "3", "retry_timeout": "20s"}

    def place_of(self, table: LakeTable) -> str:
        """Where a table of it lies."""
        return f"{self.url}/{table.name}"


_TAKEN_FOR_PART_OF_A_URL = re.compile(r"[\[\]|^\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}")
"""What the library cannot have in the path of a folder: it panics at it, or looks for the tables elsewhere."""


def lake_at(said: str) -> Lake:
    """The lake that a person names.

    Raises `InputError` for what is no folder or s3://BUCKET/…, has secrets, or has in its path what no lake can.
    """
    if "://" not in said:
        folder = str(typed_path(said).absolute())
        if taken := _TAKEN_FOR_PART_OF_A_URL.search(folder):
            raise InputError(f"a lake cannot have {taken[0]!r} in its path, as {folder!r} has; name another folder")
        return Lake(folder)
    parts = urlsplit(said)
    if parts.username or parts.password or parts.query:
        raise InputError(
            f"a lake at {parts.scheme}://{parts.hostname}{parts.path} is to be named without credentials or options; "
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the like in the environment"
        )
    if parts.scheme != "s3" or not parts.netloc:
        raise InputError(f"{said!r} is no lake: name a folder, or s3://BUCKET/FOLDER")
    if _lacks_tls() and os.environ.get("AWS_ALLOW_HTTP", "").lower() not in _TRUE:
        raise InputError("the object store at AWS_ENDPOINT_URL has no TLS: set AWS_ALLOW_HTTP=true to use it as it is")
    return Lake(f"s3://{said.partition('://')[2].rstrip('/')}")  # the libraries know no S3://


_TRUE = frozenset({"1", "true", "on", "yes", "y"})
"""What the library takes for yes."""


def _lacks_tls() -> bool:
    return os.environ.get("AWS_ENDPOINT_URL", "").lower().startswith("http://")


def library() -> Any:
    """The module `deltalake`. Raises `InputError` where it, or what it needs, is not installed."""
    try:
        import deltalake  # noqa: PLC0415  # of an extra
        import pyarrow.dataset  # noqa: F401, PLC0415  # likewise
    except ImportError:
        raise InputError("a lake needs libraries: pip install 'enginebench[lake]'") from None
    return deltalake


@contextmanager
def explained(lake: Lake) -> Iterator[None]:
    """Put what the libraries say into one sentence: `StoreUnreachableError` of an object store, else `StoreError`."""
    deltalake = library()
    import pyarrow  # noqa: PLC0415  # of an extra

    try:
        yield
    except deltalake.exceptions.CommitFailedError:
        raise StoreError(f"{lake.url} was changed by somebody else in the same moment; do the same again") from None
    except (deltalake.exceptions.DeltaError, pyarrow.ArrowException, OSError) as error:
        text = str(error)
        known = (why.format(_file_named(lake, text)) for words, why in _REASONS.items() if re.search(words, text))
        reason = next(known, "") or _first_line(text) or type(error).__name__
        kind = StoreUnreachableError if lake.is_remote else StoreError
        raise kind(f"the lake {lake.url} cannot be used: {reason}") from None


_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_MOST_SHOWN = 200


def _first_line(text: str) -> str:
    """What a library says that we do not know: without keys, and without queries, which have signatures of requests."""
    line = text.strip().partition("\n")[0].rstrip(" .:")
    for secret in filter(None, map(os.environ.get, _SECRETS)):
        line = line.replace(secret, "***")
    line = re.sub(r"//\S*@|\?\S+", "…", line)
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"


def _file_named(lake: Lake, text: str) -> str:
    """The file of the lake that a library names, in brackets; "" where it names none."""
    named = re.search(rf"{re.escape(lake.url.removeprefix('s3://'))}/([\w./=-]+\.(?:parquet|json))", text)
    return f" ({named[1]})" if named else ""


def found(lake: Lake, tables: Sequence[LakeTable] = TABLES) -> Mapping[str, Any]:
    """The Delta tables of a lake that are there, by name, opened at once.

    Raises `StoreError` where a table is not ours, or of a newer schema.
    """
    with explained(lake), ThreadPoolExecutor(_AT_ONCE) as threads:
        opened = zip(tables, threads.map(lambda table: _opened(lake, table), tables), strict=True)
        return {table.name: each for table, each in opened if each is not None}


def check_whole(lake: Lake, there: Mapping[str, Any]) -> None:
    """Raise `StoreError` where a table has lost what is seen through its head: by a copy that broke off, or a disk."""
    for kind in KINDS:
        head = there.get(kind.head.name)
        if head is None or not head.file_uris():
            continue
        least: Counter[str] = Counter()
        for commit in head.history(_COMMITS):
            least |= _told_versions(commit)
        for table in (MODELS, *kind.parts):
            # Tables are opened at once: somebody may have written to this one since, and to its head before that was.
            opened = there.get(table.name) or _opened(lake, table)
            if opened is None:
                raise _has_lost(lake, f"its table {table.name}")
            if opened.version() < least[table.name]:
                opened.update_incremental()
            if opened.version() < least[table.name]:
                raise _has_lost(lake, f"the end of its table {table.name}")


def told_parts(kind: Kind, there: Mapping[str, Any]) -> dict[str, str]:
    """What a commit to the head of a kind tells by `PARTS`."""
    return {PARTS: json.dumps({table.name: there[table.name].version() for table in (MODELS, *kind.parts)})}


def _told_versions(commit: Mapping[str, Any]) -> Counter[str]:
    try:
        told = json.loads(commit.get(PARTS, "{}"))
        return Counter({name: int(version) for name, version in told.items()})
    except (AttributeError, TypeError, ValueError):  # somebody else's
        return Counter()


def _has_lost(lake: Lake, what: str) -> StoreError:
    return StoreError(
        f"the lake {lake.url} has lost {what}: put it there again from a copy, or have all who wrote it make a new one "
        "with `enginebench store sync`"
    )


def no_lake(lake: Lake) -> InputError:
    """The error for a place without any table of ours."""
    return InputError(f"there is no lake at {lake.url}; `enginebench store sync {lake.url}` makes one")


def made(lake: Lake) -> Mapping[str, Any]:
    """The Delta tables of a lake, all of them; those that are not there are made.

    Raises `StoreError` where foreign files lie there, and then nothing was written.
    """
    with explained(lake):
        foreign = sorted(_names(lake) - {table.name for table in TABLES})
    if foreign:
        raise StoreError(
            f"{lake.url} has something else in it ({foreign[0]}) and was left alone; name a new folder for a lake"
        )
    there = found(lake)
    with explained(lake):
        check_whole(lake, there)
    missing = [table for table in TABLES if table.name not in there]
    for table in missing:
        _require_empty(lake, table)
    with explained(lake):
        for table in TABLES:
            if table in missing:
                _create(lake, table)
            else:
                _raise_schema(there[table.name], table)
    return found(lake) if missing else there


def _opened(lake: Lake, table: LakeTable) -> Any:
    deltalake = library()
    try:
        opened = deltalake.DeltaTable(lake.place_of(table), storage_options=lake.options)
    except deltalake.exceptions.TableNotFoundError:
        return None
    if not lake.is_remote and (empty := _empty_commit(Path(lake.place_of(table), _LOG))):
        raise StoreError(f"the lake {lake.url} has a damaged file, {empty}, which is empty; put it there from a copy")
    said = opened.metadata().configuration.get(PROPERTY, "")
    if not said.isdecimal():
        raise StoreError(
            f"{lake.place_of(table)} is a Delta table that is not enginebench's, and was left alone; name another place"
        )
    if int(said) > SCHEMA:
        raise StoreError(
            f"{lake.url} was written by a newer enginebench (schema {said}; this one knows {SCHEMA}); "
            "upgrade enginebench to use it"
        )
    return opened


def _empty_commit(log: Path) -> Path | None:
    """A commit that a disk has lost the bytes of, as in a power cut: the library takes it for one of nothing."""
    with os.scandir(log) as entries:
        commits = (one for one in entries if one.name.endswith(".json"))
        return next((log / one.name for one in commits if not one.stat().st_size), None)


def _create(lake: Lake, table: LakeTable) -> None:
    deltalake = library()
    try:
        deltalake.DeltaTable.create(
            lake.place_of(table),
            arrow_schema(table),
            mode="error",
            partition_by=[MONTH],
            configuration=_configuration(table),
            raise_if_key_not_exists=False,
            storage_options=lake.options,
        )
    except deltalake.exceptions.DeltaError:
        if _opened(lake, table) is None:  # and else somebody made it in the same moment
            raise


def _raise_schema(opened: Any, table: LakeTable) -> None:
    """Bring an older table up to date: columns that it lacks are added by what is written next."""
    deltalake = library()
    while int(opened.metadata().configuration[PROPERTY]) < SCHEMA:
        try:
            opened.alter.set_table_properties(_configuration(table), raise_if_not_exists=False)
        except deltalake.exceptions.CommitFailedError:
            opened.update_incremental()  # somebody else wrote, or did the same


def _configuration(table: LakeTable) -> dict[str, str]:
    # Of long texts, as plans are, the log would keep the smallest and the largest of each file.
    told = dict.fromkeys((table.key, table.sorted_by))
    return {PROPERTY: str(SCHEMA), "delta.dataSkippingStatsColumns": ",".join(told)}


def _require_empty(lake: Lake, table: LakeTable) -> None:
    with explained(lake):
        foreign = sorted(_names(lake, table.name) - {_LOG})
    if foreign:
        raise StoreError(
            f"{lake.place_of(table)} has something else in it ({foreign[0]}) and was left alone; "
            "name a new folder for a lake"
        )


def _names(lake: Lake, folder: str = "") -> frozenset[str]:
    """What lies in a folder of the lake."""
    from pyarrow import fs  # noqa: PLC0415  # of an extra

    listed = _files(lake).get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return frozenset(one.base_name for one in listed)


def dataset(lake: Lake, name: str, opened: Any) -> "Dataset":
    """The rows of a Delta table as of the moment it was opened at."""
    from pyarrow import fs  # noqa: PLC0415  # of an extra

    return opened.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(name, _files(lake)))


def _files(lake: Lake) -> Any:
    """Arrow's own access to a lake. Through the library's each file would need Python's lock, and a program that ends
    while one is let go is aborted (seen with pyarrow 26).
    """
    from pyarrow import fs  # noqa: PLC0415  # of an extra

    if not lake.is_remote:
        return fs.SubTreeFileSystem(lake.url, fs.LocalFileSystem())
    store = fs.S3FileSystem(
        endpoint_override=os.environ.get("AWS_ENDPOINT_URL"),
        region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        connect_timeout=5,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=3),
    )
    return fs.SubTreeFileSystem(lake.url.removeprefix("s3://"), store)
