"""The parts of a calibration: the files it writes, their checks, its rates, and how it walks through memory."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.peaks import bandwidth
from enginebench_agent.worker.peaks.bandwidth import WORKING_SETS_BYTES, bandwidths
from enginebench_agent.worker.peaks.calibration import check_outputs
from enginebench_agent.worker.peaks.kernels import INPUT, OUTPUT, Arithmetic, Kernel, kernels
from enginebench_agent.worker.peaks.rates import RateMeter, to_rate

ALL_KERNELS = [(arithmetic, number) for arithmetic in Arithmetic for number in range(5)]


def _kernel(arithmetic: Arithmetic, number: int) -> Kernel:
    return list(kernels(arithmetic))[number]()


def _input(kernel: Kernel) -> np.ndarray:
    generator = np.random.default_rng(7)
    if kernel.dtype == "uint8":
        return generator.integers(0, 256, kernel.shape, dtype=np.uint8)
    return generator.standard_normal(kernel.shape, dtype=np.float32)


def _session(kernel: Kernel, given: np.ndarray, returned: np.ndarray) -> SimpleNamespace:
    request = SimpleNamespace(infer=lambda _: {OUTPUT: returned})
    return SimpleNamespace(inputs=[{INPUT: given}], requests=[request])


def _run(kernel: Kernel, given: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(kernel.content, providers=["CPUExecutionProvider"])
    return session.run(None, {INPUT: given})[0]


@pytest.mark.parametrize(("arithmetic", "number"), ALL_KERNELS)
def test_files_are_sound_and_an_engine_s_outputs_pass_the_check(arithmetic: Arithmetic, number: int) -> None:
    kernel = _kernel(arithmetic, number)
    model = onnx.load_model_from_string(kernel.content)
    onnx.checker.check_model(model, full_check=True)
    given = _input(kernel)
    check_outputs(kernel, _session(kernel, given, _run(kernel, given)))


@pytest.mark.parametrize(("arithmetic", "number"), [(each, number) for each in Arithmetic for number in (0, 3)])
def test_work_that_was_not_done_fails_the_check(arithmetic: Arithmetic, number: int) -> None:
    kernel = _kernel(arithmetic, number)
    given = _input(kernel)
    of_another_input = _run(kernel, given[..., ::-1].copy())
    for wrong in (np.zeros_like(of_another_input), of_another_input, np.full(of_another_input.shape, np.nan)):
        with pytest.raises(BrokenOutputError, match="came out wrong"):
            check_outputs(kernel, _session(kernel, given, wrong))


def test_operations_are_counted_as_two_a_multiplication() -> None:
    product, _, pointwise, dilated, plain = (make() for make in kernels(Arithmetic.F32))
    assert product.operations == 2 * 384**3
    assert pointwise.operations == 2 * 28 * 28 * 256 * 256
    assert dilated.operations == plain.operations == 2 * 28 * 28 * 128 * 128 * 9
    assert [kernel.may_be_winograd for kernel in (product, pointwise, dilated, plain)] == [False, False, False, True]


def test_a_file_computes_what_onnx_s_own_evaluator_computes() -> None:
    kernel = _kernel(Arithmetic.F32, 0)
    given = _input(kernel)
    (wanted,) = ReferenceEvaluator(onnx.load_model_from_string(kernel.content)).run(None, {INPUT: given})
    np.testing.assert_allclose(_run(kernel, given), wanted, rtol=1e-3, atol=1e-3)


def test_the_interval_of_nine_blocks_leaves_out_one_at_each_end() -> None:
    rate = to_rate([5, 1, 9, 3, 7, 2, 8, 4, 6])
    assert (rate.median_per_s, rate.low_per_s, rate.high_per_s, rate.blocks) == (5, 2, 8, 9)


def test_few_blocks_show_their_extremes() -> None:
    rate = to_rate([3, 1, 2])
    assert (rate.median_per_s, rate.low_per_s, rate.high_per_s, rate.blocks) == (2, 1, 3, 3)


class _Machine:
    """Evidence as a script has it: whether each block is disturbed."""

    highest_frequency_hz = None

    def __init__(self, disturbed: list[bool]) -> None:
        from enginebench_proto.v1.measurement_pb2 import Evidence

        self._evidence = [Evidence(throttled_ns=int(each)) for each in disturbed]

    def begin(self) -> None:
        pass

    def end(self) -> object:
        return self._evidence.pop(0)


def _meter(disturbed: list[bool]) -> RateMeter:
    meter = RateMeter(1)
    meter._evidence = _Machine(disturbed)
    return meter


def test_disturbed_blocks_are_left_out() -> None:
    amounts = iter([1.0, 100.0] * 20)
    meter = _meter([True, False] * 20)  # every block of 1.0 is disturbed
    rate = meter.measure(lambda: (next(amounts), 1_000_000_000))
    assert (rate.low_per_s, rate.disturbed) == (100.0, False)
    assert rate.blocks >= 6 and rate.disturbed_blocks >= 6


def test_a_machine_that_is_always_busy_has_a_rate_that_says_so() -> None:
    rate = _meter([True] * 40).measure(lambda: (1.0, 1_000_000_000))
    assert rate.disturbed
    assert rate.blocks == rate.disturbed_blocks > 3


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_bandwidth_counts_every_byte_once_a_pass(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(bandwidth, "WORKING_SETS_BYTES", (1 << 18, 1 << 24))
    monkeypatch.setattr(bandwidth, "BLOCK_NS", 1_000_000)
    found = list(bandwidths(threads, None, RateMeter(1)))
    assert [(each.working_set_bytes, each.what) for each in found] == [
        *((1 << 18, what) for what in ("read", "update")),
        *((1 << 24, what) for what in ("read", "update", "copy")),
    ]
    # The slowest memory does 0.1 GB/s, and no core reads more than a few hundred bytes a cycle.
    assert all(0.1e9 < each.rate.median_per_s < threads * 2e12 for each in found)


def test_walks_read_and_write_what_they_count() -> None:
    share = 1 << 20
    reading, updating, copying = (make(share) for make in (bandwidth._reading, bandwidth._updating, bandwidth._copying))
    assert reading.bytes_of(3) == 3 * share
    assert updating.bytes_of(1) == share + 3 * share // 2  # the first pass copies, the next reads both and writes one
    assert copying.bytes_of(3) == 3 * share
    for walk in (reading, updating, copying):
        walk.run(2)


def test_no_working_set_takes_more_than_a_share_of_the_memory() -> None:
    # 8 MiB of memory allow for half a MiB.
    found = list(bandwidths(1, 8 << 20, RateMeter(1)))
    assert {each.working_set_bytes for each in found} == {WORKING_SETS_BYTES[0]}
