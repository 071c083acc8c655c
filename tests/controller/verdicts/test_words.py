"""How a failure is said in one sentence, and how figures and machines are."""

import pytest

from enginebench_controller.records import Cache, CoreCluster, Failure, FailureKind, HostFacts
from enginebench_controller.verdicts.host_words import caches_of, changes_of, kinds_of_cores, memory_of, processor_of
from enginebench_controller.verdicts.words import failure_sentence, rate, short


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "it stopped."),
        ({"cause": "no kernel for Foo"}, "it stopped."),  # whose line the message has, since there are causes
        ({"detail": "RuntimeError: no kernel for Foo"}, "it stopped: RuntimeError: no kernel for Foo"),
        ({"stderr_tail": "Assertion at planner.hpp:120"}, "it stopped: Assertion at planner.hpp:120"),
    ],
)
def test_the_engines_own_words_stand_behind_the_message_where_it_lacks_them(fields, said):
    failure = Failure(FailureKind.CRASHED, "it stopped.", **fields)
    assert failure_sentence(failure) == f"crashed: {said}"


def test_words_that_the_message_has_are_not_said_twice():
    failure = Failure(FailureKind.CRASHED, "it stopped: no kernel for Foo", detail="no kernel for Foo")
    assert failure_sentence(failure) == "crashed: it stopped: no kernel for Foo"


def test_kinds_of_cores_and_processors_that_are_none_in_words():
    kinds = (
        CoreCluster("big", 4, "Cortex-A76"),
        CoreCluster("mid", 2, max_frequency_hz=2_400_000_000),
        CoreCluster("little", 2),
    )
    caches = (Cache(1, "data", 65536, 4), Cache(1, "instruction", 65536, 4), Cache(3, "unified", 3 * 2**20, 1))
    assert caches_of(HostFacts(caches=caches)) == "4 × L1d 64 KiB, L3 3 MiB"
    host = HostFacts(cpu_model="Radxa", architecture="aarch64", clusters=kinds)
    assert kinds_of_cores(host) == "4 big (Cortex-A76), 2 mid (2.4 GHz) and 2 little cores"
    assert (kinds_of_cores(HostFacts()), processor_of(host), processor_of(HostFacts())) == ("", "Radxa", None)
    memories = [memory_of(HostFacts(memory_bytes=size)) for size in (None, 256 << 20, 1 << 30, 25_200_000_000)]
    assert memories == ["", "256 MiB", "1.0 GiB", "23.5 GiB"]
    assert processor_of(HostFacts(architecture="aarch64", emulation="by QEMU")) == "emulated aarch64"


def test_what_is_another_on_a_machine_is_said_where_numbers_depend_on_it():
    before = HostFacts(hostname="pi", kernel="6.1", logical_cores=4, tuned=("governor: performance",))
    now = HostFacts(hostname="board", kernel="6.6", logical_cores=4, agent_version="2.0")
    assert changes_of(before, now) == (
        "its kernel was 6.1 and is 6.6, what is tuned there was governor: performance and is nothing, "
        "its enginebench was unknown and is 2.0"
    )
    assert changes_of(before, before) == ""


@pytest.mark.parametrize(
    ("items_per_s", "said"),
    [(12345.67, "12,345.7"), (250.04, "250.0"), (9.8765, "9.877"), (0.041234, "0.04123"), (None, "–")],
)
def test_however_slow_a_model_is_its_rate_is_no_zero(items_per_s, said):
    assert rate(items_per_s) == said


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (999, "999"),
        (1000, "1.00 k"),
        (999_900, "1.00 M"),
        (4_089_184_256, "4.09 G"),
        (1e14, "100 T"),
    ],
)
def test_numbers_have_three_digits_and_a_prefix(value: float | None, text: str) -> None:
    assert short(value) == text
