"""Measuring on a cluster of Dask: real schedulers and workers, all on this machine."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Expansion
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import FailureKind, Measurement
from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_benchmark
from enginebench_controller.runs.cluster import scheduler
from enginebench_controller.runs.remote_run import Unreported
from integration.bench import QUICK, UNHURRIED, Bench, started, tiny_model, wait_until
from integration.dask_cluster import FOR_MEASURING, DaskCluster, children_of, environment_of, parent_of
from integration.ssh_machine import SshMachine

pytest.importorskip("distributed", reason="pip install 'enginebench[dask]'")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dask")]

WORKERS = 4
LASTING = ("--processes", "2", "--interval", "0%", "--duration", "3s", "--warmup", "50ms", *UNHURRIED)
ENDLESS = ("--processes", "1", "--duration", "5m", "--max-duration", "10m", *UNHURRIED)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Four workers, whose login has said how many threads MKL has, and nothing of others."""
    cluster = DaskCluster(tmp_path_factory.mktemp("cluster"), variables={"MKL_NUM_THREADS": "2"})
    try:
        cluster.add_workers(*FOR_MEASURING, count=WORKERS)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.of_engines(tmp_path_factory.mktemp("own") / "home", "fake", "onnxruntime")


@pytest.fixture(scope="module")
def elsewhere(home: Bench, cluster: DaskCluster, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What four groups on four workers came to, and the model."""
    model = tiny_model(tmp_path_factory.mktemp("model") / "tiny.onnx")
    words = ("--engine", "onnxruntime", "--batch", "1,2,3,4", "--no-interleave", *QUICK, "--processes", "2")
    return model, words, home.json("run", model, *words, "--executor", cluster.executor)


def test_what_comes_of_a_cluster_is_what_comes_of_an_agent(home: Bench, elsewhere: Any) -> None:
    model, words, document = elsewhere
    there, here = home.measurements(document), home.measurements(home.json("run", model, *words))
    assert {one.configuration.batch: told(one) for one in there} == {one.configuration.batch: told(one) for one in here}
    assert {one.target for one in there} == {socket.gethostname()}
    (snapshot,) = (one for one in Home(home.home).store.snapshots() if one.target == socket.gethostname())
    assert snapshot.host.cpu_model and snapshot.address == document["benchmark"]["plan"]["executor"]
    samples = [Home(home.home).store.samples(one.id) for one in there]
    assert all(len(one) for one in samples)


def told(measurement: Measurement) -> object:
    """What two measurements of one configuration have in common, whoever carried them out."""
    threads = {one.effective.threads for one in measurement.processes}
    outputs = [(one.name, one.shape, one.values.tolist()) for one in measurement.captured_outputs]
    return measurement.configuration, measurement.status, len(measurement.processes), threads, outputs


def test_two_groups_of_one_host_never_overlap(home: Bench, elsewhere: Any) -> None:
    measured = home.measurements(elsewhere[2])
    spans = sorted(
        (one.started_at_unix_ns or 0, one.started_at_unix_ns + sum(phase.duration_ns for phase in one.phases))
        for measurement in measured
        for one in measurement.processes
    )
    assert len(spans) == 8 and len({begin for begin, _ in spans}) == 8
    assert [(one, other) for one, other in pairwise(spans) if other[0] < one[1]] == []


def test_a_model_is_brought_once_to_each_host(elsewhere: Any, cluster: DaskCluster) -> None:
    calls = [json.loads(line) for line in (cluster.agent_data / "audit.log").read_text().splitlines()]
    begun = [one["subject"] for one in calls if one["method"].endswith("/Start") and one["outcome"] == "OK"]
    assert len(begun) >= 8  # of four agents, each two processes
    assert len([one for one in calls if one["method"].endswith("/Upload")]) == 1


async def test_a_model_that_is_gone_when_a_machine_lacks_it_fails_alone_and_is_named(
    home: Bench, cluster: DaskCluster, tmp_path: Path
) -> None:
    own, gone = Home(home.home), list[Path]()
    models = [str(tiny_model(tmp_path / f"gone-{seed}.onnx", seed=seed)) for seed in (5, 6)]
    quick = {"processes": 1, "duration": "100ms", "warmup": "50ms", "max_duration": "1m", "interval": "0%"}
    quick |= {"retry_noisy": False, "wait_quiet": "0s", "interleave": False}
    plan = make_plan({"models": models, "engines": ["fake"], "executor": cluster.executor} | quick, "test")

    def announce(expansion: Expansion, _: str | None) -> Unreported:
        model = expansion.cases[0].model
        gone.append(own.library.main_path(model))
        own.library.remove(model)
        return Unreported()

    benchmark = await run_benchmark(own, BenchmarkOrder(plan), announce)

    failures = [one.failure for one in own.store.measurements(benchmark.id)]
    (failure,) = [one for one in failures if one is not None]
    assert len(failures) == 2
    assert failure.kind is FailureKind.REFUSED and f"cannot read {gone[0]} any more" in failure.message


def test_a_model_that_a_machine_threw_out_for_another_is_brought_again(
    home: Bench, cluster: DaskCluster, tmp_path: Path
) -> None:
    models = [tiny_model(tmp_path / f"net{number}.onnx", seed=number) for number in range(2)]
    settings = cluster.agent_data / "agent.toml"
    before = settings.read_text()
    settings.write_text(f"max_cache_bytes = {3 * models[0].stat().st_size // 2}\n{before}")
    try:
        words = ("--engine", "onnxruntime", "--batch", "1,2,3", "--no-interleave", "--order-seed", "1", *QUICK)
        document = home.json("run", *models, *words, "--executor", cluster.executor)
    finally:
        settings.write_text(before)
    assert [(one.status, one.failure) for one in home.measurements(document)] == [("ok", None)] * 6


def test_an_agent_has_the_environment_of_the_login(home: Bench, elsewhere: Any, cluster: DaskCluster) -> None:
    with started(home, "run", elsewhere[0], "--dry-run", "--engine", "fake", "--executor", cluster.executor) as running:
        wait_until(lambda: bool(cluster.agents()), 60)
        (agent,) = cluster.agents()
        found, of_worker = environment_of(agent), environment_of(parent_of(agent))
        assert running.wait(timeout=60) == 0, running.stderr
    set_by_nanny = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_"}
    assert set_by_nanny <= of_worker.keys() and not set_by_nanny & found.keys()
    assert found["MKL_NUM_THREADS"] == "2"


def test_a_group_whose_worker_is_killed_is_measured_whole_by_another(
    home: Bench, elsewhere: Any, cluster: DaskCluster
) -> None:
    words = ("--engine", "fake,onnxruntime", *LASTING, "--json", "--executor", cluster.executor)
    with started(home, "run", elsewhere[0], *words) as running:
        killed = worker_that_measures(home, cluster)
        os.kill(killed, signal.SIGKILL)
        out, err = running.communicate(timeout=100)
    assert running.returncode == 0, err
    document = json.loads(out)
    measured = home.measurements(document)
    assert [(one.status, len(one.processes)) for one in measured] == [("ok", 2), ("ok", 2)]
    assert len({one.interleaving_group for one in measured}) == 1


def worker_that_measures(bench: Bench, cluster: DaskCluster) -> int:
    """The process of the worker whose agent runs a child, once the command's plan is written down."""
    found: list[int] = []

    def looked() -> bool:
        if not list((bench.home / "pending").glob("*.json")):
            return False
        for agent in cluster.agents():
            if any((cluster.agent_data / "runs").iterdir()) and children_of(agent):
                found[:] = [parent_of(agent)]
        return bool(found)

    wait_until(looked, 60)
    return found[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_ends_takes_its_tasks_with_it(
    home: Bench, elsewhere: Any, cluster: DaskCluster, number: signal.Signals
) -> None:
    words = ("--engine", "fake", *ENDLESS, "--executor", cluster.executor)
    with started(home, "run", elsewhere[0], *words) as running:
        worker_that_measures(home, cluster)
        running.send_signal(number)
        assert running.wait(timeout=30) == (130 if number is signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: not cluster.agents(), 30)
    taken = home.json("resume", expect=None)
    assert [len(one["interrupted"]) for one in taken["plans"]] == ([] if number is signal.SIGINT else [1])


def test_a_scheduler_that_is_lost_fails_what_was_under_way_in_a_sentence_and_nothing_goes_on(
    home: Bench, model: Path, tmp_path: Path
) -> None:
    lost = DaskCluster(tmp_path)
    try:
        lost.add_workers(*FOR_MEASURING)
        with started(
            home, "run", model, "--engine", "fake", *ENDLESS, "--json", "--executor", lost.executor
        ) as running:
            worker_that_measures(home, lost)
            lost.lose_scheduler()
            out, err = running.communicate(timeout=120)
        (one,) = json.loads(out)["measurements"]
        assert (one["status"], one["failure"]["kind"]) == ("failed", "agent_lost")
        assert "the scheduler" in one["failure"]["message"]
        assert running.returncode == 1 and "Traceback" not in err
        wait_until(lambda: not lost.agents(), 60)
        assert not list((home.home / "pending").glob("*.json"))
    finally:
        lost.stop()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    cluster = DaskCluster(tmp_path_factory.mktemp("bare"))
    try:
        yield cluster
    finally:
        cluster.stop()


def refused(bench: Bench, model: Path, executor: str, code: int, *words: object) -> str:
    return " ".join(bench.cli("run", model, *words, "--executor", executor, expect=code).stderr.split())


def test_workers_without_the_resource_and_of_another_version_are_refused(
    home: Bench, bare: DaskCluster, model: Path, tmp_path: Path
) -> None:
    bare.add_workers("--no-nanny")
    assert "has the resource 'enginebench'" in (said := refused(home, model, bare.executor, 2))
    assert "--resources enginebench=1" in said
    other = tmp_path / "other"
    (other / "enginebench-0.0.1.dist-info").mkdir(parents=True)
    (other / "enginebench-0.0.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: enginebench\nVersion: 0.0.1\n"
    )
    bare.add_workers("--no-nanny", *FOR_MEASURING, variables={"PYTHONPATH": str(other)})
    assert "enginebench of the worker" in (said := refused(home, model, bare.executor, 2))
    assert "is 0.0.1" in said


def test_a_scheduler_that_is_not_there_and_what_is_none_are_refused(
    home: Bench, model: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "CONNECT_SECONDS", 0.5)
    assert "does not answer" in refused(home, model, f"dask://127.0.0.1:{free_port}", 3)
    assert "is no executor" in refused(home, model, "slurm://head", 2)
    assert "leave the targets out" in refused(home, model, "dask://127.0.0.1", 2, "--target", "board")
    assert "reached by TLS" in refused(home, model, "dask://192.0.2.1", 2)


def test_a_scheduler_is_reached_by_tls_with_the_certificate_of_dasks_configuration(
    home: Bench, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    made = distributed.Security.temporary()
    (tmp_path / "cert.pem").write_text(made.tls_scheduler_cert)
    (tmp_path / "key.pem").write_text(made.tls_scheduler_key)
    files = {"ca-file": "cert.pem", "cert": "cert.pem", "key": "key.pem"}
    options = [word for name, file in files.items() for word in (f"--tls-{name}", str(tmp_path / file))]
    secured = DaskCluster(tmp_path, *options, "--protocol", "tls")
    try:
        secured.add_workers(*FOR_MEASURING)
        executor = f"dask+tls://{secured.address}"
        assert "names no certificate" in refused(home, model, executor, 2)
        tls = {"ca-file": "cert.pem", "client.cert": "cert.pem", "client.key": "key.pem"}
        with configured(tls, tmp_path):
            document = home.json("run", model, "--engine", "fake", *QUICK, "--executor", executor)
            assert [one["status"] for one in document["measurements"]] == ["ok"]
            monkeypatch.setattr(scheduler, "CONNECT_SECONDS", 0.5)
            assert "does not answer" in refused(home, model, f"dask://{secured.address}", 3)
    finally:
        secured.stop()


def configured(tls: Any, folder: Path) -> Any:
    import dask

    return dask.config.set({f"distributed.comm.tls.{name}": str(folder / file) for name, file in tls.items()})


async def test_a_cluster_that_dask_made_over_ssh_measures_as_one_that_was_there(
    bench: Bench, model: Path, machine: SshMachine
) -> None:
    import distributed

    login = {"port": machine.port, "client_keys": [str(machine.folder / "user_key")], "known_hosts": None}
    worker = {"nthreads": 1, "resources": {"enginebench": 1}, "local_directory": str(machine.home)}
    addresses = ["127.0.0.1", "127.0.0.1"]  # of the scheduler, and of the only worker
    scheduler_options = {"host": "127.0.0.1", "dashboard": False}
    options = {"worker_options": worker, "scheduler_options": scheduler_options, "remote_python": sys.executable}
    async with distributed.SSHCluster(addresses, connect_options=login, **options, asynchronous=True) as made:
        executor = f"dask://{made.scheduler_address.partition('://')[2]}"
        words = ("--engine", "fake", *QUICK, "--executor", executor)
        document = await asyncio.to_thread(bench.json, "run", model, *words)
    assert [one["status"] for one in document["measurements"]] == ["ok"]
    assert (machine.home / ".local/share/enginebench/cluster" / socket.gethostname()).is_dir()
