"""Reference work: what it takes is kept with the block after it, and it never takes more than its share."""

import time

from enginebench_agent.worker.steady_state import MOST_OF_THE_TIME, ReferenceWork
from enginebench_proto.v1.measurement_pb2 import Evidence

MS = 1_000_000


def blocks(work, length_ns, count, iterations=10):
    """The evidence of so many blocks, and the processor time of all that was done before them.

    Not by the wall clock: what waits for a processor beside other tests takes none.
    """
    found, spent_ns = [], 0
    for _ in range(count):
        begin = time.thread_time_ns()
        work.before_block(length_ns)
        spent_ns += time.thread_time_ns() - begin
        evidence = Evidence()
        work.after_block(length_ns, iterations, evidence)
        found.append(evidence)
    return found, spent_ns


def test_a_block_knows_what_the_work_before_it_took():
    found, _ = blocks(ReferenceWork(), 1000 * MS, 5)
    for evidence in found:
        assert 0 < evidence.reference_product_ns < 1000 * MS
        assert 0 < evidence.reference_stream_ns < 1000 * MS


def test_it_takes_at_most_its_share_of_the_time_and_unknown_stays_unknown():
    work = ReferenceWork()
    length_ns = 5 * MS  # a share of 0.25 ms is less than the work takes on most machines
    found, spent_ns = blocks(work, length_ns, 400)
    done = [one for one in found if one.HasField("reference_product_ns")]
    assert 0 < len(done) < len(found)
    assert all(one.HasField("reference_stream_ns") == one.HasField("reference_product_ns") for one in found)
    longest_ns = max(one.reference_product_ns + one.reference_stream_ns for one in done)
    assert spent_ns <= MOST_OF_THE_TIME * length_ns * len(found) + 4 * longest_ns


def test_blocks_that_no_other_inference_settles_are_left_alone():
    work = ReferenceWork()
    found, _ = blocks(work, 60 * MS, 5, iterations=1)
    assert not any(one.HasField("reference_product_ns") for one in found[1:])
    found, _ = blocks(ReferenceWork(), 5000 * MS, 5, iterations=1)
    assert all(one.HasField("reference_product_ns") for one in found)


def test_no_other_thread_is_left_at_work():
    """A library whose threads go on spinning would take a processor from the block that follows."""
    work = ReferenceWork()
    blocks(work, 1000 * MS, 1)
    begin_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
    time.sleep(0.05)
    busy = (time.process_time_ns() - cpu_ns) / (time.perf_counter_ns() - begin_ns)
    assert busy < 0.2
