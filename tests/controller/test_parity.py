"""What ran is compared with what was asked for, and engines with each other."""

from dataclasses import replace

import invented
from enginebench_controller.parity import engine_label, requested_is_not_effective, unequal_settings
from enginebench_controller.records import Configuration, Effective, EngineRef, Hint, Readback, Source

BF16 = Effective(threads=Readback(2, Source.OBSERVED), precision=Readback("bf16", Source.ENGINE_API))


def test_nothing_is_said_when_what_ran_is_what_was_asked_for():
    assert requested_is_not_effective(invented.measured("m1")) == ()


def test_another_precision_and_other_threads_are_each_one_sentence():
    effective = replace(BF16, threads=Readback(1, Source.OBSERVED))

    assert requested_is_not_effective(invented.measured("m1", effective=effective)) == (
        "precision: f32 requested, bf16 effective (as the engine reports)",
        "threads: 2 requested, 1 effective (as observed)",
    )


def test_unknown_is_not_a_difference():
    assert requested_is_not_effective(invented.measured("m1", effective=Effective())) == ()


def test_what_was_left_to_the_engine_cannot_differ():
    left_open = Configuration("CPU", 1, cores=2, precision="default", hint=Hint.THROUGHPUT)
    effective = replace(BF16, streams=Readback(4, Source.ENGINE_API))

    assert requested_is_not_effective(invented.measured("m1", configuration=left_open, effective=effective)) == ()


def test_streams_are_compared_when_no_hint_leaves_them_to_the_engine():
    effective = Effective(streams=Readback(4, Source.ENGINE_API))

    assert requested_is_not_effective(invented.measured("m1", effective=effective)) == (
        "streams: 1 requested, 4 effective (as the engine reports)",
    )


def test_engines_that_ran_the_same_work_differently_are_named():
    fast = invented.measured("m1", engine="fake-fast", effective=BF16)

    assert unequal_settings([invented.measured("m2"), fast]) == (
        "effective precision differs: bf16 on fake-fast 1.0; f32 on fake 1.0 (for invented)",
    )


def test_the_same_difference_at_several_batches_is_said_once():
    pairs = [
        invented.measured(f"{engine}{batch}", engine=engine, batch=batch, **fields)
        for batch in (1, 4)
        for engine, fields in (("fake", {}), ("fake-fast", {"effective": BF16}))
    ]

    assert len(unequal_settings(pairs)) == 1


def test_different_work_is_not_compared():
    other_batch = invented.measured("m1", engine="fake-fast", batch=4, effective=BF16)

    assert unequal_settings([invented.measured("m2"), other_batch]) == ()


def test_a_failure_is_not_compared():
    assert unequal_settings([invented.measured("m1"), invented.failed("m2")]) == ()


def test_an_engine_is_labelled_with_what_tells_it_apart():
    legacy = invented.measured("m1", **{"engine": "x"})

    assert engine_label(legacy) == "x 1.0"
    assert engine_label(replace(legacy, engine=EngineRef("x", "legacy", None))) == "x (legacy)"
