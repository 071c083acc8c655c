"""`enginebench targets calibrate`, through real agents: peaks are printed, kept by target, and known from the agent."""

from collections.abc import Callable
from dataclasses import replace

from agent_server import AgentProcess
from enginebench_controller.home import Home
from enginebench_controller.records import PeakKind
from integration.bench import Bench

FAKE = ("--engine", "fake", "--cores", "1")


def test_this_machine_is_calibrated_without_a_target(bench: Bench) -> None:
    document = bench.json("targets", "calibrate", "--engine", "onnxruntime", "--cores", "1")
    assert document["failures"] == []
    f32 = [peak for peak in document["peaks"] if peak["precision"] == "f32"]
    assert f32 and all(peak["rate"]["median_per_s"] > 1e8 for peak in f32)
    kept = Home(bench.home).store.peaks("local")
    assert len(kept) == len(document["peaks"])
    assert {peak.kind for peak in kept} == set(PeakKind)


def test_peaks_of_a_target_are_printed_kept_and_told_to_other_controllers(
    bench: Bench, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent()
    bench.cli("targets", "add", "nuc", agent.address)
    done = bench.cli("targets", "calibrate", "nuc", *FAKE)
    assert "MatMul" in done.stdout and "Gop" in done.stdout
    mine = Home(bench.home).store.peaks("nuc")
    assert mine and all(peak.target == "nuc" for peak in mine)

    another = Bench(bench.home.with_name("another"))
    another.cli("targets", "add", "theirs", agent.address)
    another.cli("devices", "--target", "theirs")
    theirs = Home(another.home).store.peaks()
    assert theirs == tuple(replace(peak, target="theirs") for peak in mine), "of the same processor, too"


def test_peaks_go_with_their_target_and_come_back_with_the_same_machine_only(
    bench: Bench, start_agent: Callable[..., AgentProcess]
) -> None:
    agent, another = start_agent(), start_agent("another")
    store = Home(bench.home).store
    bench.cli("targets", "add", "nuc", agent.address)
    bench.cli("targets", "calibrate", "nuc", *FAKE)
    known = store.peaks("nuc")
    assert {peak.cpu_model for peak in known} == {store.snapshots()[0].host.cpu_model}
    for address, told in ((another.address, ()), (agent.address, known)):
        bench.cli("targets", "remove", "nuc")
        bench.cli("targets", "add", "nuc", address)
        bench.cli("devices", "--target", "nuc")
        assert store.peaks("nuc") == told


def test_bad_wishes_are_refused_in_a_sentence(bench: Bench, start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent()
    bench.cli("targets", "add", "nuc", agent.address)
    for arguments, sentence in (
        (("nuc", "--engine", "nope"), "has no engine 'nope'"),
        (("nuc", "--engine", "fake", "--device", "GPU"), "has no device 'GPU'"),
        (("nuc", "--cores", "two"), "--cores takes whole numbers"),
        (("nobody",), "there is no target 'nobody'"),
    ):
        done = bench.cli("targets", "calibrate", *arguments, expect=2)
        assert sentence in " ".join(done.stderr.split())
    done = bench.cli("targets", "calibrate", "nuc", "--engine", "fake", "--cores", "10000", expect=1)
    assert "10000 physical cores" in done.stderr
    agent.stop()
    bench.cli("targets", "calibrate", "nuc", *FAKE, expect=3)
