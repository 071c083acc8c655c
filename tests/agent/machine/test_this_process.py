"""What the kernel saw is read as it is, and unknown stays unknown."""

import threading
import time
from pathlib import Path

from enginebench_agent.machine import this_process
from enginebench_agent.worker.phases import PhaseRecorder

MEGABYTE = 1 << 20


def test_only_threads_that_did_work_are_counted() -> None:
    before = {1: 1000, 2: 0, 3: 500}
    after = {1: 2000, 2: 900, 3: 540, 4: 50, 5: 49}
    assert this_process.working_threads(before, after) == 3
    assert this_process.working_threads(before, after, ours=[1]) == 2
    assert this_process.working_threads(before, after, ours=[5, 6]) == 3
    assert this_process.working_threads(before, {1: 2000}, ours=[1]) == 1, "nobody else did it"


def test_without_readings_or_work_the_number_is_unknown(tmp_path: Path) -> None:
    assert this_process.thread_times_ns(tmp_path) is None
    assert this_process.working_threads(None, {1: 1}) is None
    assert this_process.working_threads({1: 1}, {1: 1}) is None


def test_a_busy_thread_is_seen_and_a_sleeping_one_is_not() -> None:
    stop = threading.Event()
    sleeper = threading.Thread(target=stop.wait)
    sleeper.start()
    before = this_process.thread_times_ns()
    until = time.thread_time() + 0.05
    while time.thread_time() < until:
        pass
    assert this_process.working_threads(before, this_process.thread_times_ns()) == 1
    stop.set()
    sleeper.join()


def test_each_phase_has_its_own_peak_of_memory() -> None:
    announced: list[str] = []
    recorder = PhaseRecorder(announced.append)
    with recorder.phase("read"):
        bytearray(b"\1" * (64 * MEGABYTE))
    with recorder.phase("compile"):
        pass
    read, compiled = recorder.completed
    assert announced == ["read", "compile"] == [read.name, compiled.name]
    assert read.peak_rss_bytes - compiled.peak_rss_bytes > 32 * MEGABYTE
    assert read.duration_ns > 0


def test_a_phase_that_raises_stays_current_and_is_not_recorded() -> None:
    recorder = PhaseRecorder(lambda _: None)
    try:
        with recorder.phase("compile"):
            raise ValueError
    except ValueError:
        pass
    assert (recorder.current, recorder.completed) == ("compile", [])


def test_a_kernel_that_does_not_tell_leaves_the_peak_unknown(tmp_path: Path) -> None:
    assert not this_process.reset_peak_rss(tmp_path / "absent")
    assert this_process.peak_rss_bytes(tmp_path) is None
