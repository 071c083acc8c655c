"""Hands results to a tracker – MLflow, a receiver of OTLP, or Weights & Biases – in a process of its own.

A process, as what these libraries start – threads, a service, a queue – must be gone before anything else is measured,
and as a server that hangs is best left by ending whoever asks it. It reads an `Order` as JSON from stdin, prints the id
of each result that has arrived, and where that goes wrong a sentence. Of ours it loads nothing else.

What each of them can hold is told in docs/reference/exports.md. Who runs this, on which machine and from which folder,
is nobody's business: what a library would add of that is switched off.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from typing import Any
from urllib.parse import unquote


class Tracker(StrEnum):
    """What results can be sent to."""

    MLFLOW = "mlflow"
    OTLP = "otlp"
    WANDB = "wandb"


@dataclass(frozen=True)
class MetricPoint:
    """A number, or an end of its interval, by itself: in its own `unit`, as names end with it, and in base units.

    `base` is the base unit as OpenMetrics has it ("seconds"), `code` as OTLP does ("s").
    """

    name: str
    meaning: str
    value: float
    unit: str
    base_value: float
    base: str
    code: str

    @property
    def key(self) -> str:
        """The name with its unit: "latency_low_ns"."""
        return "_".join(filter(None, (self.name, self.unit)))


@dataclass(frozen=True)
class SentResult:
    """A measurement as trackers take it. `labels` say what was asked for, `evidence` how the numbers came about.

    `document` is the JSON that `show --json` prints, with this measurement only, which answers nothing.
    """

    id: str
    benchmark_id: str
    name: str
    status: str
    started_at_unix_ns: int | None
    benchmark_created_at_unix_ns: int
    labels: Mapping[str, str]
    evidence: Mapping[str, str]
    points: tuple[MetricPoint, ...]
    document: str

    @property
    def at_unix_ns(self) -> int:
        """When it began, else when its benchmark was made: the same however often it is sent."""
        return self.started_at_unix_ns or self.benchmark_created_at_unix_ns


@dataclass(frozen=True)
class SendingOrder:
    """What to send, and where to. Without results it is only asked whether they would be taken."""

    tracker: Tracker
    address: str
    limit_s: int
    results: tuple[SentResult, ...]


PROJECT = "enginebench"
"""What an experiment, a project or a service is called where the user's environment gives it no other name."""

WRONG_OUTPUTS = "wrong_outputs"
"""The evidence that says what is wrong with outputs: the only one that a later look may take back."""

_ANSWER_S = 10
_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(_ANSWER_S),
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_SILENT": "true",
}
"""Unless the user's environment says otherwise: nothing is told to the makers of these libraries, and nobody waits."""

_NAME_LENGTH = {Tracker.MLFLOW: 250, Tracker.WANDB: 128}
_VALUE_LENGTH = 500
"""As long may names of runs and parameters be in MLflow, of some versions longer; the document has all."""

_REASON_LENGTH = 2_000
"""So much of what a library says is handed on: far more than is shown, once its secrets are hidden."""


def main() -> int:
    """Carry out the order on stdin."""
    os.nice(10)  # another target's results may come while this machine measures; more, and it might never have its turn
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is for nobody
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    order = _order(json.load(sys.stdin))
    signal.alarm(order.limit_s)  # who gave it may be gone by then
    try:
        for id_ in _SENDERS[order.tracker](order.address, order.results):
            print(id_, file=told, flush=True)  # for who gave the order
    except Exception as error:
        print(_reason(error), file=told, flush=True)
        return 1
    return 0


def _order(said: Mapping[str, Any]) -> SendingOrder:
    results = tuple(
        SentResult(**{**one, "points": tuple(MetricPoint(**p) for p in one["points"])}) for one in said["results"]
    )
    return SendingOrder(Tracker(said["tracker"]), said["address"], said["limit_s"], results)


def _reason(error: BaseException) -> str:
    """Why, in a line. What the system says of a connection is clearer than what libraries make of it."""
    innermost = error
    while (before := _before(innermost)) is not None:
        innermost = before
    if isinstance(innermost, TimeoutError):
        return "it does not answer in time"
    if isinstance(innermost, OSError) and innermost.strerror:
        return innermost.strerror
    if isinstance(innermost, ModuleNotFoundError):  # of the whole MLflow, for addresses that are no server's
        return f"such an address needs {innermost.name}, which comes with the whole library: pip install mlflow"
    return cut(" ".join(str(error).split()).rstrip(".") or type(error).__name__, _REASON_LENGTH)


def _before(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def cut(text: str, length: int) -> str:
    """A text of so many characters at most, with … where more of it was."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def to_mlflow(uri: str, results: Sequence[SentResult]) -> Iterator[str]:
    """A run a measurement, in the experiment that `MLFLOW_EXPERIMENT_NAME` names; one that is there already keeps its
    numbers, and is told how they are judged by now.

    Numbers are metrics, their units in their names; what was asked for are parameters, evidence are tags, and the
    document is an artifact. When it ended is not known, so that nothing stands there. Raises `RuntimeError` where the
    experiment is deleted.
    """
    from mlflow import MlflowClient  # noqa: PLC0415  # an extra

    if uri.startswith(_DATABASES):
        import_module("sqlalchemy")  # else MLflow says that there are no such addresses
    client = MlflowClient(tracking_uri=uri)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    found = client.get_experiment_by_name(name)
    if found and found.lifecycle_stage == "deleted":
        raise RuntimeError(f"its experiment {name} is deleted: restore it, or set MLFLOW_EXPERIMENT_NAME")
    experiment = found.experiment_id if found else client.create_experiment(name)
    for one in results:
        _add_run(client, experiment, one)
        yield one.id


_DATABASES = ("sqlite:", "postgresql", "mysql", "mssql")
_MLFLOW_STATUS = {"failed": "FAILED", "cancelled": "KILLED"}


def _add_run(client: Any, experiment: str, one: SentResult) -> None:
    from mlflow.entities import Metric, Param  # noqa: PLC0415  # an extra

    told = {**{name: one.labels[name] for name in ("engine", "target")}, **one.evidence}
    tags = {name: cut(value, _VALUE_LENGTH) for name, value in told.items()}
    known = client.search_runs([experiment], f"tags.measurement_id = '{one.id}'", max_results=1)
    start_ms = one.at_unix_ns // 1_000_000
    if known:
        (run,) = known
        _tag_again(client, run, tags)
    else:
        run = client.create_run(experiment, start_ms, tags, cut(one.name, _NAME_LENGTH[Tracker.MLFLOW]))
    if run.info.status == "RUNNING":  # else its numbers have arrived before
        metrics = [Metric(point.key, point.value, start_ms, 0) for point in one.points]
        params = [Param(name, cut(value, _VALUE_LENGTH)) for name, value in one.labels.items()]
        client.log_batch(run.info.run_id, metrics, params)
    client.log_text(run.info.run_id, one.document, "measurement.json")
    client.update_run(run.info.run_id, _MLFLOW_STATUS.get(one.status, "FINISHED"))


def _tag_again(client: Any, run: Any, tags: Mapping[str, str]) -> None:
    """Outputs are judged among all that a benchmark has, which may be more by now. Tags of others stay."""
    from mlflow.entities import RunTag  # noqa: PLC0415  # an extra

    changed = [RunTag(name, value) for name, value in tags.items() if run.data.tags.get(name) != value]
    if changed:
        client.log_batch(run.info.run_id, tags=changed)
    if WRONG_OUTPUTS in run.data.tags and WRONG_OUTPUTS not in tags:
        client.delete_tag(run.info.run_id, WRONG_OUTPUTS)


def to_otlp(url: str, results: Sequence[SentResult]) -> Iterator[str]:
    """A gauge for each number and each end of an interval, in base units; `enginebench.measurement` has the evidence.

    The time of a point is that of the measurement, else of its benchmark, so that the same point may be sent twice.
    """
    if not results:
        _post(url, ())
    for one in results:
        _post(url, (one,))
        yield one.id


def _post(url: str, results: Iterable[SentResult]) -> None:
    """Send a request, and read what came of it. Raises `RuntimeError` for what is no receiver or takes not all."""
    from ssl import SSLCertVerificationError  # noqa: PLC0415  # commands load this module, and need no HTTP
    from urllib.error import HTTPError, URLError  # noqa: PLC0415
    from urllib.request import Request  # noqa: PLC0415

    from google.protobuf.message import DecodeError  # noqa: PLC0415  # with the extra
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service  # noqa: PLC0415  # an extra

    request = service.ExportMetricsServiceRequest()
    for one in results:
        _describe(one, request.resource_metrics.add())
    headers = {"Content-Type": "application/x-protobuf", "User-Agent": PROJECT, **_headers()}
    asked = Request(url, request.SerializeToString(), headers)  # noqa: S310  # http and https only, as was checked
    try:
        with _opener(url).open(asked, timeout=_ANSWER_S) as answer:
            found = service.ExportMetricsServiceResponse.FromString(answer.read())
    except HTTPError as error:
        leads_on = ": write the address it leads to" if error.code // 100 == 3 else ""
        raise RuntimeError(f"it answers with HTTP {error.code} ({error.reason}){leads_on}") from None
    except URLError as error:
        if not isinstance(error.reason, SSLCertVerificationError):
            raise
        raise RuntimeError(
            f"its certificate is not trusted ({error.reason.verify_message}): name the file with that of its authority "
            f"in {_CERTIFICATE}"
        ) from None
    except DecodeError:
        raise RuntimeError("what answers there is no receiver of OTLP over HTTP") from None
    if found.partial_success.rejected_data_points:
        raise RuntimeError(f"it rejects points: {found.partial_success.error_message}")


_HEADERS, _CERTIFICATE = "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_CERTIFICATE"


def _variable(variable: str) -> str:
    """OTLP's own variable of metrics where that is set, else that of all."""
    of_metrics = variable.replace("OTLP_", "OTLP_METRICS_")
    return of_metrics if os.environ.get(of_metrics) else variable


def _said(variable: str) -> str:
    return os.environ.get(_variable(variable), "")


def _opener(address: str) -> Any:
    """What follows no redirection: of a POST it would make a GET, whose answer tells nothing of the results."""
    from ssl import create_default_context  # noqa: PLC0415  # with HTTP
    from urllib import request  # noqa: PLC0415  # likewise

    trusted = _said(_CERTIFICATE) if address.lower().startswith("https:") else ""
    try:
        context = create_default_context(cafile=trusted or None)
    except OSError:
        raise RuntimeError(f"{_variable(_CERTIFICATE)} names no file of certificates: {trusted}") from None
    opener = request.OpenerDirector()
    for handler in (
        *(request.ProxyHandler(), request.HTTPHandler(), request.HTTPSHandler(context=context)),
        *(request.HTTPErrorProcessor(), request.HTTPDefaultErrorHandler()),
    ):
        opener.add_handler(handler)
    return opener


def _headers() -> dict[str, str]:
    """What OTLP's own variables say of headers, such as keys."""
    said = _said(_HEADERS)
    pairs = (pair.partition("=") for pair in said.split(",") if "=" in pair)
    return {unquote(name).strip(): unquote(value).strip() for name, _, value in pairs}


def _describe(one: SentResult, resource: Any) -> None:
    _attribute(resource.resource.attributes, {"service.name": os.environ.get("OTEL_SERVICE_NAME", PROJECT)})
    scope = resource.scope_metrics.add()
    scope.scope.name = PROJECT
    for point in one.points:
        metric = scope.metrics.add(name=f"{PROJECT}.{point.name}", description=point.meaning, unit=point.code)
        number = metric.gauge.data_points.add(time_unix_nano=one.at_unix_ns, as_double=point.base_value)
        _attribute(number.attributes, one.labels)
    metric = scope.metrics.add(name=f"{PROJECT}.measurement", description="How the others came about", unit="1")
    told = metric.gauge.data_points.add(time_unix_nano=one.at_unix_ns, as_int=1)
    _attribute(told.attributes, {**one.labels, **one.evidence})


def _attribute(attributes: Any, said: Mapping[str, str]) -> None:
    for name, value in said.items():
        attributes.add(key=name).value.string_value = value


def to_wandb(_: str, results: Sequence[SentResult]) -> Iterator[str]:
    """A run a measurement, those of a benchmark as a group: what was asked for is its config, all else its summary.

    Project, entity and mode are those of the user's environment. Raises where nobody is logged in.
    """
    import wandb  # noqa: PLC0415  # an extra

    is_online = _is_online(wandb)
    if is_online and not results:
        wandb.login(verify=True)  # raises what is wrong, as nobody can be asked here
    for one in results:
        run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=one.id,
            name=cut(one.name, _NAME_LENGTH[Tracker.WANDB]),
            group=one.benchmark_id,
            config=configuration_of(one),
            resume="allow" if is_online else None,
            settings=wandb.Settings(**_NOBODYS_BUSINESS),
        )
        run.summary.update(summary_of(one))
        run.finish(exit_code=int(one.status == "failed"))
        yield one.id
    wandb.teardown()


_NUMBERS = frozenset({"batch", "cores", "streams", "number"})


def configuration_of(one: SentResult) -> dict[str, int | str]:
    """What was asked for, with numbers as such; cores of one kind are a text, "big:2"."""
    return {name: int(value) if name in _NUMBERS and value.isdecimal() else value for name, value in one.labels.items()}


def summary_of(one: SentResult) -> dict[str, float | str]:
    """All else: its numbers, how they came about, and when it began, where that is known."""
    began_ns = one.started_at_unix_ns
    summary: dict[str, float | str] = {**{point.key: point.value for point in one.points}, **one.evidence}
    if began_ns is not None:
        summary["started_at"] = datetime.fromtimestamp(began_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return summary


_NOBODYS_BUSINESS = {
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    "host": "",
    "save_code": False,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_save_requirements": False,
    "x_disable_stats": True,
}
_OFFLINE = frozenset({"offline", "dryrun"})


def _is_online(wandb: Any) -> bool:
    mode = wandb.setup().settings.mode
    if mode == "disabled":
        raise RuntimeError("WANDB_MODE is disabled: set it to online or offline")
    return mode not in _OFFLINE


_SENDERS: Mapping[Tracker, Callable[[str, Sequence[SentResult]], Iterator[str]]] = {
    Tracker.MLFLOW: to_mlflow,
    Tracker.OTLP: to_otlp,
    Tracker.WANDB: to_wandb,
}


if __name__ == "__main__":
    sys.exit(main())
