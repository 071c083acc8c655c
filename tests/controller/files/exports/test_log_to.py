"""`--log-to`: what names a tracker, what is told where one takes no results, and what arrives at a receiver of OTLP."""

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from typer.testing import CliRunner

import invented
from certified import Certified
from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError
from enginebench_controller.files.exports import log_to
from enginebench_controller.files.exports.log_to import (
    Destination,
    LiveLog,
    check,
    destinations,
    results_of,
    send,
    send_in_parts,
)
from enginebench_controller.files.exports.sending import SentResult, Tracker, configuration_of, summary_of
from enginebench_controller.home import Home
from enginebench_controller.records import Status
from enginebench_controller.store.store import Store
from printed import check_document
from receiver import receiving


@pytest.fixture
def store(tmp_path):
    """With a measurement that has numbers, one that is like it, one that failed, and one with an odd name."""
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark(), [invented.snapshot()])
    store.add_measurement(invented.measured("m1", iterations=700, noisy=True))
    store.add_measurement(invented.failed("m2"))
    store.add_measurement(invented.measured("m3", engine="odd", model_name='ünï "q"\n=1/2'))
    store.add_measurement(invented.failed("m4", engine="stopped", status=Status.CANCELLED, failure=None))
    return store


@pytest.fixture
def results(store):
    return tuple(results_of(store, "b0000001", {"m1", "m2", "m3", "m4"}))


@pytest.fixture
def receiver():
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def nobody():
    """Where nobody listens any more."""
    with receiving() as gone:
        pass
    return at(gone)


def at(receiver):
    return Destination(Tracker.OTLP, f"{receiver.url}/v1/metrics")


@contextmanager
def answering(status, context=None):
    """The address of what answers a POST so, leading on to where a GET has an empty answer; with TLS by a context."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(status)

        def do_GET(self):
            self.answer(200)

        def answer(self, status):
            self.send_response(status)
            self.send_header("Location", "/login")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Nobody reads it."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield Destination(Tracker.OTLP, f"http{'s' if context else ''}://127.0.0.1:{server.server_port}/v1/metrics")
        finally:
            server.shutdown()
            thread.join()


def children():
    return {one for task in Path("/proc/self/task").iterdir() for one in (task / "children").read_text().split()}


def delivered(*arguments):
    return asyncio.run(send(*arguments))


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("http://host:5000", "'http://host:5000' names no tracker: write mlflow:URI, otlp:URL or wandb"),
        ("", "'' names no tracker"),
        ("MLFLOW:x", "'MLFLOW:x' names no tracker"),
        ("mlflow", "'mlflow' says not where to"),
        ("mlflow:", "'mlflow:' says not where to"),
        ("otlp:", "'otlp:' says not where to"),
        ("mlflow:host:5000", "'mlflow:host:5000' is no URI: write mlflow:http://host:5000"),
        ("otlp:host:4318", "'otlp:host:4318' is no URL of a receiver: write otlp:http://HOST:4318"),
        ("otlp:grpc://host:4317", "is no URL of a receiver"),
        ("otlp:http://", "is no URL of a receiver"),
        ("otlp:http://host:99999", "is no URL of a receiver"),
        (
            "otlp:http://me:secret@host",
            r"'otlp:http://\*\*\*@host' has a user or a password, for which OTLP has headers",
        ),
        ("wandb:project", "'wandb:project' is to be wandb alone; its project is set by WANDB_PROJECT"),
        ("logs:http://me:secret@host", r"'logs:http://\*\*\*@host' names no tracker"),
    ],
)
def test_what_names_no_tracker_is_a_sentence(said, sentence):
    with pytest.raises(InputError, match=f"^--log-to .*{sentence}"):
        destinations([said])


@pytest.mark.parametrize("said", ["mlflow:http://host:5000", "otlp:http://host:4318", "wandb"])
def test_a_library_that_is_missing_is_named_with_its_extra(said, monkeypatch):
    monkeypatch.setattr(log_to, "find_spec", lambda _: None)
    extra = said.partition(":")[0]
    with pytest.raises(InputError, match=re.escape(f"needs a library: pip install 'enginebench[{extra}]'")):
        destinations([said])


def test_a_receiver_gets_metrics_where_otlp_has_them_and_each_destination_stands_once():
    said = [
        "otlp:http://host",
        "otlp:https://host/otlp/",
        "otlp:http://host/v1/metrics",
        "otlp:http://host:4318/v1/metrics/",
    ]
    assert [one.address for one in destinations(said)] == [
        "http://host/v1/metrics",
        "https://host/otlp/v1/metrics",
        "http://host:4318/v1/metrics",
    ]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://me:secret@host:4318/v1/metrics", "http://***@host:4318/v1/metrics"),
        ("http://me:my@secret@host/v1/metrics", "http://***@host/v1/metrics"),
        ("postgresql://me:my/secret@host/db", "postgresql://***@host/db"),
        ("postgresql://me:my secret@host/db", "postgresql://***@host/db"),
        ("postgresql://me:my?secret@host/db", "postgresql://…"),
        ("https://host/v1/metrics?api-key=secret", "https://host/v1/metrics?…"),
        ("https://host/v1/metrics?as=me@corp&api-key=secret", "https://…"),
        ("postgresql://me:secret@host/db?sslpassword=secret", "postgresql://***@host/db?…"),
    ],
)
def test_secrets_of_an_address_are_not_shown(address, shown):
    assert str(Destination(Tracker.MLFLOW, address)) == f"mlflow:{shown}"


@pytest.mark.parametrize(
    "said", ["otlp:grpc://me:my/secret@host", "otlp:http://host:99999/?api-key=secret", "otlp:http://me:secret@host"]
)
def test_what_is_refused_does_not_tell_its_secrets(said):
    with pytest.raises(InputError) as refusal:
        destinations([said])
    assert "secret" not in str(refusal.value)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 100], ids=["short", "longer than what is shown"])
def test_a_library_that_names_a_password_is_not_repeated(times):
    """It says of a port: "nonnumeric port: 'secret@127.0.0.1'"."""
    url = f"http://me:{times * 'secret'}@127.0.0.1/v1/metrics"
    problem = delivered(Destination(Tracker.OTLP, url), ()).problem
    assert "***@127.0.0.1" in problem and "secret" not in problem


def test_every_number_arrives_with_its_unit_and_the_ends_of_its_interval(receiver, store, results):
    assert delivered(at(receiver), results) == log_to.Delivery(("m1", "m2", "m3", "m4"), "")
    stored = store.measurement("m1")

    median, interval = receiver.named("latency")["fake"], stored.latency.median_interval
    assert (median.unit, median.description) == ("s", "Median latency of an inference")
    assert median.value == stored.latency.median_ns / 1e9
    assert receiver.named("latency_low")["fake"].value == interval.low / 1e9
    assert receiver.named("latency_high")["fake"].value == interval.high / 1e9
    rate = receiver.named("throughput")["fake"]
    assert (rate.unit, rate.value) == ("{item}/s", stored.throughput_items_per_s)
    memory = receiver.named("peak_memory")["fake"]
    assert (memory.unit, memory.value) == ("By", stored.peak_rss_bytes)
    assert receiver.named("latency_p99")["fake"].value == stored.latency.percentile_ns(99) / 1e9
    assert {one.time_unix_ns for one in receiver.named("latency").values()} == {invented.CREATED_NS}
    assert median.attributes == {
        "model": "invented",
        "engine": "fake",
        "target": "local",
        "device": "CPU",
        "batch": "1",
        "cores": "2",
        "precision": "f32",
        "load": "sync",
    }


def test_what_is_unknown_does_not_arrive_and_what_failed_has_its_evidence_only(receiver, results):
    delivered(at(receiver), results)
    assert not receiver.named("energy") and not receiver.named("latency_p99_low")
    assert "fake-broken" not in receiver.named("latency") and "stopped" not in receiver.named("latency")
    told = {engine: one.attributes for engine, one in receiver.named("measurement").items()}
    assert (told["fake-broken"]["status"], told["fake-broken"]["failure"]) == ("failed", "crashed")
    assert told["stopped"]["status"] == "cancelled" and "failure" not in told["stopped"]
    assert told["fake"] | {"measurement_id": "m1", "engine_version": "1.0", "status": "ok"} == told["fake"]
    assert told["odd"]["model"] == 'ünï "q"\n=1/2'
    assert {one["benchmark_name"] for one in told.values()} == {"invented"}


def test_what_never_began_has_the_time_of_its_benchmark_so_that_it_is_the_same_point_again(receiver, results):
    delivered(at(receiver), results)
    assert receiver.named("measurement")["fake-broken"].time_unix_ns == invented.CREATED_NS


def test_who_sends_is_not_told(receiver, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,x=y")
    delivered(at(receiver), results[:1])
    told = "".join(map(repr, [*receiver.gauges, *receiver.headers]))
    assert str(tmp_path) not in told and str(log_to.__file__) not in told
    headers = {name.lower(): value for name, value in receiver.headers[0].items()}
    assert headers | {"api-key": "a b", "x": "y"} == headers


def test_a_destination_is_asked_before_it_gets_anything(receiver):
    asyncio.run(check([at(receiver)]))
    assert receiver.paths == ["/v1/metrics"] and not receiver.gauges


def test_what_cannot_be_reached_or_is_no_receiver_is_a_sentence(receiver, nobody):
    with pytest.raises(
        InputError, match=r"^--log-to otlp:http://127.* would take no results: Connection refused\. Mend"
    ):
        asyncio.run(check([nobody]))
    receiver.answer = b"<html>"
    with pytest.raises(InputError, match="what answers there is no receiver of OTLP over HTTP"):
        asyncio.run(check([at(receiver)]))
    receiver.status = 404
    with pytest.raises(InputError, match=r"it answers with HTTP 404 \(Not Found\)"):
        asyncio.run(check([at(receiver)]))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_an_address_that_leads_elsewhere_takes_nothing(results, status):
    with answering(status) as elsewhere:
        delivery = delivered(elsewhere, results)
    assert not delivery.arrived
    assert re.fullmatch(rf"it answers with HTTP {status} \(.*\): write the address it leads to", delivery.problem)


def test_a_certificate_of_an_own_authority_is_trusted_once_it_is_named(results, tmp_path, monkeypatch):
    folder = Certified(tmp_path).agent()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "agent.crt", folder / "agent.key")
    with answering(200, context) as receiver:
        problem = delivered(receiver, results).problem
        assert problem.startswith("its certificate is not trusted (")
        assert problem.endswith("name the file with that of its authority in OTEL_EXPORTER_OTLP_CERTIFICATE")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "nowhere.pem")
        problem = delivered(receiver, results).problem
        assert problem == "OTEL_EXPORTER_OTLP_CERTIFICATE names no file of certificates: nowhere.pem"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "none.pem")
        problem = delivered(receiver, results).problem
        assert problem == "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE names no file of certificates: none.pem"
        monkeypatch.delenv("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(folder / "ca.crt"))
        assert delivered(receiver, results) == log_to.Delivery(("m1", "m2", "m3", "m4"), "")


def test_a_certificate_is_asked_for_over_tls_only(receiver, results, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "nowhere.pem")
    assert delivered(at(receiver), results).problem == ""


def test_points_that_a_receiver_rejects_are_told(receiver, results):
    refusal = ExportMetricsServiceResponse()
    refusal.partial_success.rejected_data_points = 3
    refusal.partial_success.error_message = "too old"
    receiver.answer = refusal.SerializeToString()
    assert delivered(at(receiver), results) == log_to.Delivery((), "it rejects points: too old")


def test_a_destination_that_fails_is_told_once_and_the_other_goes_on(receiver, store, nobody):
    said = []
    live = LiveLog(store, [nobody, at(receiver)], said.append)
    for ids in (["m1"], ["m2", "m3"]):
        asyncio.run(live("b0000001", ids))
    assert said == [
        f"{nobody} takes no more results: Connection refused. They are stored all the same; later, "
        f"`enginebench export b0000001 --log-to {nobody}` sends them"
    ]
    assert receiver.named("measurement").keys() == {"fake", "fake-broken", "odd"}


def test_results_that_cannot_be_read_harm_nothing(receiver, store):
    said = []
    live = LiveLog(store, [at(receiver)], said.append)
    asyncio.run(live("nothing", ["m1"]))
    assert len(said) == 1 and "no benchmark" in said[0] and not receiver.gauges


def test_what_hangs_ends_with_its_time_and_leaves_no_process(receiver, results, monkeypatch):
    receiver.stalls = threading.Event()
    monkeypatch.setattr(log_to, "_LIMIT_S", 2)
    monkeypatch.setattr(log_to, "_LIMIT_OF_ONE_S", 0)
    before = children()
    try:
        assert delivered(at(receiver), results).problem == "it did not answer within 2 s"
        assert children() == before
    finally:
        receiver.stalls.set()


def test_results_are_read_some_at_a_time_and_no_more_for_who_fails(receiver, nobody, results, monkeypatch):
    monkeypatch.setattr(log_to, "_AT_ONCE", 2)
    read, told = [], []

    def reading():
        for one in results:
            read.append(one.id)
            yield one

    problems = asyncio.run(
        send_in_parts([at(receiver), nobody], reading(), lambda where: told.append((where, len(read))))
    )
    assert told == [(at(receiver), count) for count in (2, 2, 4, 4)]
    assert problems == {nobody: "Connection refused"}

    read.clear()
    asyncio.run(send_in_parts([nobody], reading(), lambda _: None))
    assert read == ["m1", "m2"]


def test_only_what_is_sent_is_read_with_its_blocks(store, monkeypatch):
    whole = []
    monkeypatch.setattr(store, "measurement", lambda id_: whole.append(id_) or Store.measurement(store, id_))
    light = store.measurements
    monkeypatch.setattr(store, "measurements", lambda id_, *, with_blocks: with_blocks or light(id_, with_blocks=False))
    (result,) = results_of(store, "b0000001", {"m1"})
    assert whole == ["m1"] and result.evidence["disturbed"].startswith("8.")


@pytest.mark.slow
def test_an_interrupted_export_says_how_many_have_arrived(receiver, tmp_path):
    store = Home(tmp_path / "home").store
    store.add_benchmark(invented.benchmark(), [invented.snapshot()])
    for id_ in ("m1", "m2"):
        store.add_measurement(invented.measured(id_))
    with receiving() as silent:
        silent.stalls = threading.Event()
        words = [word for one in (receiver, silent) for word in ("--log-to", f"otlp:{one.url}")]
        exporting = subprocess.Popen(
            [sys.executable, "-m", "enginebench_controller", "export", "b0000001", *words],
            env=os.environ | {"ENGINEBENCH_HOME": str(tmp_path / "home")},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert silent.stalled.wait(60)
            while len(receiver.arrived_unix_ns) < 2:
                time.sleep(0.1)
            time.sleep(1)  # for the word of it to come
            exporting.send_signal(signal.SIGINT)
            _, remarks = exporting.communicate(timeout=30)
        finally:
            silent.stalls.set()
            exporting.kill()
    assert exporting.returncode == 130
    assert remarks.splitlines()[:2] == [
        f"interrupted: {at(receiver)} has 2 of 2 measurements",
        f"interrupted: {at(silent)} has 0 of 2 measurements",
    ]


@pytest.mark.slow
def test_export_asks_a_tracker_before_it_reads_results(nobody, tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    store = Home(tmp_path / "home").store
    store.add_benchmark(invented.benchmark())
    result = CliRunner().invoke(make_app(), ["export", "b0000001", "--log-to", str(nobody)])
    assert str(result.exception).startswith(f"--log-to {nobody} would take no results: Connection refused")


def test_equal_measurements_and_wrong_outputs_are_told_among_all_of_their_benchmark(store):
    for place, shift in enumerate((0, 0, 0.5)):
        outputs = (invented.outputs(shift=shift),)
        store.add_measurement(invented.measured(f"o{place}", engine=f"e{place}", captured_outputs=outputs))
    store.add_measurement(invented.measured("m5"))
    (again,) = results_of(store, "b0000001", {"m5"})
    assert again.labels["number"] == "2" and again.name.endswith("number=2)")
    (odd,) = results_of(store, "b0000001", {"o2"})
    assert "wrong_outputs" in odd.evidence


def test_the_document_is_that_of_the_benchmark_with_one_measurement(results):
    for one in results:
        document = json.loads(one.document, parse_constant=pytest.fail)
        check_document("benchmark", document)
        assert [described["id"] for described in document["measurements"]] == [one.id]


def test_numbers_evidence_and_the_time_of_a_run_have_words_of_their_own(results):
    whole = replace(results[0], evidence=results[0].evidence | {"wrong_outputs": "≠", "failure": "crashed"})
    numbers = {point.key: point.value for point in whole.points}
    assert not numbers.keys() & whole.evidence.keys()
    summary = summary_of(whole)
    assert summary == numbers | whole.evidence | {"started_at": "2023-11-14T22:13:20.123+00:00"}
    assert summary["samples"] == 700 and whole.evidence["statistics"] == "700 samples of 3 processes"
    assert "started_at" not in summary_of(replace(whole, started_at_unix_ns=None))


def test_cores_of_one_kind_are_a_text_in_what_was_asked_for() -> None:
    labels = {"engine": "x", "batch": "4", "cores": "big:2", "streams": "1"}
    found = configuration_of(SentResult("m1", "b1", "net", "ok", None, 0, labels, {}, (), ""))
    assert found == {"engine": "x", "batch": 4, "cores": "big:2", "streams": 1}
