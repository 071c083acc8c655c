"""Many remarks of one kind are a line with their count and the worst of them; none is lost where all are asked for."""

from enginebench_controller.trust.condensing import Remark, condensed

NOISY = [
    Remark(f"net on {engine}", f"{share}% of the time was disturbed (other processes): `pip` (pid 812)")
    for engine, share in (("a", 8), ("b", 31), ("c", 12))
]


def test_a_kind_is_a_line_with_its_count_and_the_worst() -> None:
    other = Remark("net on a", "never became steady while warming up (process 1 of 3): it fell by 9 %")
    assert condensed([*NOISY, other], 16) == [
        "3 of 16, at worst: 31% of the time was disturbed (other processes): `pip` (pid 812)",
        "net on a: never became steady while warming up (process 1 of 3): it fell by 9 %",
    ]


def test_one_that_says_the_same_several_times_is_one_of_them() -> None:
    said = [Remark("a", f"the latency rose by {by}% while it was measured (process {by})") for by in (5, 7)]
    assert condensed(said, 4) == ["1 of 4, at worst: the latency rose by 7% while it was measured (process 7)"]


def test_what_must_not_be_missed_keeps_the_names() -> None:
    failed = [Remark(f"net on {engine}", "crashed: killed by SIGSEGV") for engine in "abcd"]
    assert condensed(failed, 8, names=True) == ["net on a, net on b and 2 more: crashed: killed by SIGSEGV"]
