"""Results sent on to where others watch numbers, as they are measured or later: `--log-to`.

Each goes by a process of its own, sending.py, which has ended before anything else is measured.
"""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import islice
from urllib.parse import urlsplit

from enginebench_controller.errors import EnginebenchError, InputError
from enginebench_controller.files.benchmarks import benchmark_document, measurement_document
from enginebench_controller.files.exports import sending
from enginebench_controller.files.exports.measurements import Told, told
from enginebench_controller.files.exports.sending import SendingOrder, SentResult, Tracker
from enginebench_controller.records import Benchmark
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.output_check import check_outputs

_FORMS = "mlflow:URI, otlp:URL or wandb"
_LIBRARIES = {Tracker.MLFLOW: "mlflow", Tracker.OTLP: "opentelemetry.proto", Tracker.WANDB: "wandb"}
_METRICS = "/v1/metrics"
_LIMIT_S, _LIMIT_OF_ONE_S = 60, 10
"""How long a tracker may take: to be reached, where it may first make its tables, and for each result."""

_AT_ONCE = 50
"""Results that are read, and sent by one process, at once: with blocks and documents a thousand are half a gigabyte."""

_MOST_SHOWN = 500
"""Characters of why it takes no results: libraries hand whole pages on."""


@dataclass(frozen=True)
class Destination:
    """Where results are sent on to. As a text it has no secrets."""

    tracker: Tracker
    address: str

    def __str__(self) -> str:
        return _without_secrets(":".join(filter(None, (self.tracker, self.address))))


@dataclass(frozen=True)
class Delivery:
    """What came of sending: the ids of those that arrived, and why others did not; "" where all did."""

    arrived: tuple[str, ...]
    problem: str


class LiveLog:
    """Sends on what is stored. A destination that fails is told once and then left alone: the results are stored."""

    def __init__(self, store: Store, destinations: Sequence[Destination], tell: Callable[[str], object]) -> None:
        self._store = store
        self._destinations = list(destinations)
        self._tell = tell

    async def __call__(self, benchmark_id: str, ids: Collection[str]) -> None:
        """Send these measurements of a benchmark on, to all destinations at once. See `remote_run.SendOn`."""
        asked = tuple(self._destinations)
        if not asked:
            return
        try:
            results = await asyncio.to_thread(lambda: tuple(results_of(self._store, benchmark_id, ids)))
            came = await asyncio.gather(*(send(one, results) for one in asked))
        except (EnginebenchError, OSError) as error:  # a store that others hold, no process to be had
            came = [Delivery((), str(error)) for _ in asked]
        for one, delivery in zip(asked, came, strict=True):
            if delivery.problem:
                self._destinations.remove(one)
                self._tell(
                    f"{one} takes no more results: {delivery.problem}. They are stored all the same; later, "
                    f"`enginebench export {benchmark_id} --log-to {one}` sends them"
                )


def destinations(said: Sequence[str]) -> tuple[Destination, ...]:
    """What `--log-to` names, each once. Raises `InputError` for what is none, and where its library is missing."""
    found = tuple(dict.fromkeys(map(_destination, said)))
    for one in found:
        if not _is_installed(_LIBRARIES[one.tracker]):
            raise InputError(f"--log-to {one} needs a library: pip install 'enginebench[{one.tracker}]'")
    return found


def _destination(text: str) -> Destination:
    word, _, address = text.partition(":")
    shown = _without_secrets(text)
    if word not in set(Tracker):
        raise InputError(f"--log-to {shown!r} names no tracker: write {_FORMS}")
    if word == Tracker.WANDB:
        if address:
            raise InputError(f"--log-to {shown!r} is to be wandb alone; its project is set by WANDB_PROJECT")
        return Destination(Tracker.WANDB, "")
    if not address:
        raise InputError(f"--log-to {shown!r} says not where to: write {_FORMS}")
    if word == Tracker.OTLP:
        return Destination(Tracker.OTLP, _receiver(address, shown))
    if re.fullmatch(r"[\w.-]+:\d+(/.*)?", address):
        raise InputError(f"--log-to {shown!r} is no URI: write mlflow:http://{address}")
    return Destination(Tracker.MLFLOW, address)


def _receiver(url: str, shown: str) -> str:
    """The address that metrics are posted to. As OTLP has it, a URL without it is what it is put behind."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none
        is_good = False
    if not is_good:
        raise InputError(f"--log-to {shown!r} is no URL of a receiver: write otlp:http://HOST:4318")
    if "@" in parts.netloc:
        raise InputError(
            f"--log-to {shown!r} has a user or a password, for which OTLP has headers: leave it out there, and set "
            "OTEL_EXPORTER_OTLP_HEADERS, such as to authorization=Basic%20…"
        )
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(_METRICS) else path + _METRICS).geturl()


_SECRETS = (
    (r"//.*\?.*@.*", "//…"),  # nothing tells whether such an @ ends a password or is part of a query
    (r"//.*@", "//***@"),  # a password may have any sign
    (r"[^\s/]+@", "***@"),  # libraries say what stands before a host without the rest of the address
    (r"\?\S+", "?…"),  # keys are given in queries
)
"""What is hidden of addresses, in this order, and what stands in its place."""


def _without_secrets(text: str) -> str:
    for secret, shown in _SECRETS:
        text = re.sub(secret, shown, text)
    return text


def _is_installed(module: str) -> bool:
    with suppress(ModuleNotFoundError):  # of the package that it is in
        return find_spec(module) is not None
    return False


async def check(wanted: Sequence[Destination]) -> None:
    """Raise `InputError` for a destination that would take nothing as things are."""
    for one, came in zip(wanted, await asyncio.gather(*(send(one, ()) for one in wanted)), strict=True):
        if came.problem:
            raise InputError(f"--log-to {one} would take no results: {came.problem}. Mend that, or leave it out")


async def live_log(store: Store, said: Sequence[str] | None, tell: Callable[[str], object]) -> LiveLog | None:
    """What sends results on to all that `--log-to` names; None where it names nothing. Raises as `check` does."""
    wanted = destinations(said or ())
    await check(wanted)
    return LiveLog(store, wanted, tell) if wanted else None


def results_of(store: Store, benchmark_id: str, ids: Collection[str]) -> Iterator[SentResult]:
    """These measurements as trackers take them, judged and named among all that their benchmark has so far.

    One by one, as they are asked for, and the store is let go in between: with their blocks they are large.
    """
    benchmark, models = store.benchmark(benchmark_id), store.models()
    made = store.measurements(benchmark_id, with_blocks=False)
    document = benchmark_document(benchmark, made, store.benchmark_snapshots(benchmark_id), models, answers=())
    checks = check_outputs(made, models)
    problems = {id_: check.problem for id_, check in checks.items() if check.problem}
    for one in told(made, problems):
        if (id_ := one.measurement.id) in ids:
            whole = replace(one, measurement=store.measurement(id_))
            described = measurement_document(whole.measurement, checks.get(id_))
            yield _result(whole, benchmark, json.dumps({**document, "measurements": [described]}))


def _result(one: Told, benchmark: Benchmark, document: str) -> SentResult:
    measured = one.measurement
    return SentResult(
        id=measured.id,
        benchmark_id=measured.benchmark_id,
        name=one.name,
        status=measured.status.value,
        started_at_unix_ns=measured.started_at_unix_ns,
        benchmark_created_at_unix_ns=benchmark.created_at_unix_ns,
        labels=one.labels,
        evidence={**one.evidence, "benchmark_name": benchmark.name},
        points=one.points,
        document=document,
    )


async def send_in_parts(
    wanted: Sequence[Destination], results: Iterable[SentResult], tell: Callable[[Destination], object]
) -> Mapping[Destination, str]:
    """Send results, some at a time, to all destinations at once; return why those that failed took no more.

    `tell` is told where a result has arrived, of each as it has.
    """
    coming = iter(results)
    problems: dict[Destination, str] = {}
    while (left := [one for one in wanted if one not in problems]) and (some := tuple(islice(coming, _AT_ONCE))):
        came = await asyncio.gather(*(send(one, some, tell) for one in left))
        problems |= {one: delivery.problem for one, delivery in zip(left, came, strict=True) if delivery.problem}
    return problems


async def send(
    destination: Destination, results: Sequence[SentResult], tell: Callable[[Destination], object] = lambda _: None
) -> Delivery:
    """Send results, in a process that has ended on return, with all that it started; also where this is cancelled.

    `tell` as in `send_in_parts`. Without results it is only asked whether they would be taken. Never raises for what
    goes wrong there.
    """
    limit_s = _LIMIT_S + _LIMIT_OF_ONE_S * len(results)
    order = SendingOrder(destination.tracker, destination.address, limit_s, tuple(results))
    # -P: what lies in the current folder is no module of ours.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", sending.__name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for who started it
    )
    ids, arrived, said = {one.id for one in results}, list[str](), ""
    try:
        async with asyncio.timeout(limit_s):
            async for line in _lines(process, json.dumps(asdict(order)).encode()):
                if line in ids:
                    arrived.append(line)
                    tell(destination)
                else:
                    said = line
            await process.wait()
    except TimeoutError:
        return Delivery(tuple(arrived), f"it did not answer within {limit_s} s")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Delivery(tuple(arrived), _problem(destination, process.returncode, said))


async def _lines(process: asyncio.subprocess.Process, order: bytes) -> AsyncIterator[str]:
    """What it says to an order, as it says it: nothing before it has read all of that."""
    assert process.stdin is not None and process.stdout is not None  # noqa: S101  # pipes, asked for by who calls
    with suppress(ConnectionError):  # it has ended already
        process.stdin.write(order)
        await process.stdin.drain()
    process.stdin.close()
    async for line in process.stdout:
        yield line.decode(errors="replace").rstrip("\n")


def _problem(destination: Destination, code: int | None, said: str) -> str:
    if code == 0:
        return ""
    if code == 1 and said:
        return sending.cut(_without_secrets(said), _MOST_SHOWN)
    return f"what sends to {destination.tracker} ended with {code}"
