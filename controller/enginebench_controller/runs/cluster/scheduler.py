"""A scheduler of Dask: whether it may be spoken to, which of its workers are for measuring, and tasks done by them."""

import asyncio
import contextlib
import importlib.metadata
import logging
import sysconfig
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from enginebench_controller.errors import AgentError, EnginebenchError, InputError, UnreachableError
from enginebench_controller.targets.addresses import is_loopback

RESOURCE = "enginebench"
"""Of which a worker has one, and each group takes it: so no worker has two at once."""
START = f"`dask worker SCHEDULER --nthreads 1 --resources {RESOURCE}=1`"
DEFAULT_PORT = 8786
CONNECT_SECONDS = 5.0
LOOK_SECONDS = 2.0
"""How often it is looked whether a worker is left that a task could run on."""
LOST_SECONDS = 25.0
"""What none was left for so long is lost: a nanny starts a worker again within seconds."""
_PROTOCOLS = {"dask": "tcp", "dask+tls": "tls"}


def scheduler_address(executor: str) -> str:
    """What Dask calls the scheduler that is meant by dask://HOST:PORT; beyond this machine it is reached by TLS.

    Raises `InputError` for what means none.
    """
    try:
        parts = urlsplit(executor)
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme not in _PROTOCOLS or parts.path.strip("/") or parts.query or parts.username:
        raise InputError(
            f"{executor!r} is no executor: write dask://HOST:PORT, or dask+tls://HOST:PORT for a scheduler on this "
            "machine that speaks TLS"
        )
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{_PROTOCOLS[parts.scheme] if is_loopback(where) else 'tls'}://{where}"


@dataclass(frozen=True)
class Scheduler:
    """A scheduler that is connected to, and how it was named."""

    _client: Any
    executor: str

    async def measuring_workers(self) -> Mapping[str, str]:
        """The workers that have the resource, by address, with the address of the machine of each."""
        identity = await self._client.scheduler.identity(n_workers=-1)
        workers: Mapping[str, Mapping[str, Any]] = identity["workers"]
        return {address: one["host"] for address, one in workers.items() if one["resources"].get(RESOURCE, 0) >= 1}

    async def fit_workers(self, load: Callable[[], None]) -> Mapping[str, str]:
        """As `measuring_workers`, once each has loaded what tasks need: later that would disturb what is measured.

        Raises `InputError` where there is none, and for one that is of another version or cannot load it.
        """
        workers = await self.measuring_workers()
        if not workers:
            raise InputError(
                f"no worker of {self.executor} has the resource {RESOURCE!r}: start one a machine with {START}"
            )
        ours = importlib.metadata.version("enginebench")
        await self._compare(workers, "Python", sysconfig.get_python_version(), sysconfig.get_python_version)
        await self._compare(workers, "enginebench", ours, importlib.metadata.version, "enginebench")
        loaded = await self._client.run(load, workers=list(workers), on_error="return")
        if failed := {address: error for address, error in loaded.items() if isinstance(error, ImportError)}:
            address, error = failed.popitem()
            raise InputError(
                f"the worker {address} lacks what it needs ({error}): pip install 'enginebench[dask]' there"
            )
        return workers

    async def _compare(self, workers: Mapping[str, str], what: str, ours: str, ask: Any, *arguments: str) -> None:
        """Ask by what the standard library has: of ours, a worker may have nothing, or something else."""
        answers = await self._client.run(ask, *arguments, workers=list(workers), on_error="return")
        for address, answer in answers.items():
            theirs = "none" if isinstance(answer, importlib.metadata.PackageNotFoundError) else answer
            if isinstance(theirs, str) and theirs != ours:  # else it is gone meanwhile
                raise InputError(
                    f"{what} of the worker {address} is {theirs[:40]}, and here it is {ours}: a worker runs code of "
                    f"the very same version, so install the same {what} there as here"
                )

    @contextlib.asynccontextmanager
    async def told(self, hear: Callable[[Any], None]) -> AsyncIterator[str]:
        """A topic; what tasks tell under it as long as the block lasts is heard, if the scheduler is there."""
        topic = f"{RESOURCE}-{uuid.uuid4().hex}"
        with contextlib.suppress(Exception):
            self._client.subscribe_topic(topic, lambda event: hear(event[1]))
        try:
            yield topic
        finally:
            with contextlib.suppress(Exception):
                self._client.unsubscribe_topic(topic)

    async def given(self, worker: str, thing: object) -> Any:
        """What stands for a thing that a worker has from now on. Raises `UnreachableError` where the worker is gone."""
        try:
            # As an argument it would stay with the scheduler as long as the task lives.
            (held,) = await self._client.scatter([thing], workers=[worker], hash=False)
        except Exception as error:
            raise UnreachableError(f"the worker {worker} takes nothing more ({type(error).__name__})") from error
        return held

    async def done(self, where: Sequence[str], task: Callable[..., Any], *arguments: object) -> Any:
        """What a task comes to on a worker at one of these addresses, be they of workers or of machines.

        One that is lost with its worker is done anew by another of them, as often as the scheduler allows. Raises
        `EnginebenchError` as the task does, and `UnreachableError` where it is lost for good.
        """
        import distributed  # noqa: PLC0415  # an extra

        key = f"{RESOURCE}-{uuid.uuid4().hex}"
        one_of = {"workers": list(where), "allow_other_workers": False, "resources": {RESOURCE: 1}}
        try:
            future = self._client.submit(task, *arguments, key=key, pure=False, **one_of)
        except Exception as error:
            raise UnreachableError(f"the scheduler {self.executor} was lost ({type(error).__name__})") from error
        result = asyncio.create_task(_result(future))
        try:
            await self._await(result, where)
            return result.result()
        except EnginebenchError:
            raise
        except (distributed.KilledWorker, CancelledError):
            raise UnreachableError(
                "its workers, or the scheduler, were lost with it: see to them, and their logs"
            ) from None
        except Exception as error:
            raise AgentError(f"{self.executor} could not do it ({type(error).__name__}: {error})") from error
        finally:
            result.cancel()
            with contextlib.suppress(Exception):
                await self._client.cancel([future])

    async def _await(self, result: "asyncio.Task[Any]", where: Sequence[str]) -> None:
        """Wait until it is there. Raises `UnreachableError` where no worker is left that could bring it."""
        heard = time.monotonic()
        while not (await asyncio.wait([result], timeout=LOOK_SECONDS))[0]:
            with contextlib.suppress(OSError):
                workers = await self.measuring_workers()
                if any(address in where or machine in where for address, machine in workers.items()):
                    heard = time.monotonic()
            if time.monotonic() - heard > LOST_SECONDS:
                raise UnreachableError(f"no worker of {self.executor} is left that could do it")


@contextlib.asynccontextmanager
async def connected(executor: str) -> AsyncIterator[Scheduler]:
    """The scheduler that is meant, as long as the block lasts.

    Raises `InputError` where Dask is missing here or has no certificate to show, and `UnreachableError` where the
    scheduler does not answer.
    """
    address = scheduler_address(executor)
    try:
        import distributed  # noqa: PLC0415  # an extra
    except ModuleNotFoundError:
        raise InputError(
            "--executor needs the library distributed: pip install 'enginebench[dask]', or leave it out"
        ) from None
    security = distributed.Security()
    if address.startswith("tls://") and not (security.tls_ca_file and security.tls_client_cert):
        raise InputError(
            f"{executor} is to be reached by TLS, for Dask carries code, and Dask's configuration here names no "
            "certificate (distributed.comm.tls.ca-file and .client): name one, or let `ssh -L` lead to a scheduler "
            "that listens on its own loopback"
        )
    for name in ("distributed", "distributed.client"):  # what goes wrong is told in sentences, not in its log
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Workers may be where only their scheduler gets to: it passes on what they say.
    options = {"asynchronous": True, "set_as_default": False, "direct_to_workers": False}
    client = distributed.Client(address, security=security, timeout=CONNECT_SECONDS, **options)
    try:
        await client
    except (OSError, ImportError) as error:
        raise UnreachableError(_unreachable(executor, address, error)) from error
    try:
        yield Scheduler(client, executor)
    finally:
        await client.close()


async def _result(future: Any) -> Any:
    return await future


def _unreachable(executor: str, address: str, error: Exception) -> str:
    by = " by TLS" if address.startswith("tls://") else ""
    return (
        f"the scheduler {executor} does not answer{by} within {CONNECT_SECONDS:g} s ({type(error).__name__}): start "
        "`dask scheduler` there, or correct the address"
    )
