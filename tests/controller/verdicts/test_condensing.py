"""Many remarks of one kind are a line with their count and the worst of them; none is lost where all are asked for."""

from enginebench_controller.verdicts.words import Remark, condensed

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


def test_the_number_of_a_process_is_no_measure_of_the_worst() -> None:
    few = "too few inferences to tell whether the warm-up was long enough (process {} of 4)"
    said = [Remark(net, few.format(number)) for net in "ab" for number in (1, 2, 3, 4)]
    assert condensed(said, 2) == ["2 of 2: too few inferences to tell whether the warm-up was long enough"]
    rose = "never became steady while warming up (process {} of 9): it fell by {} %"
    unsteady = [Remark(net, rose.format(number, by)) for net, number, by in (("a", 1, 40), ("b", 9, 3))]
    assert condensed(unsteady, 2) == ["2 of 2, at worst: never became steady while warming up: it fell by 40 %"]


def test_names_do_not_make_kinds() -> None:
    noisy = [Remark("pair", f"net on {one} is disturbed: by others", (f"net on {one}",)) for one in "ab"]
    assert len(condensed(noisy, 1)) == 1


def test_what_must_not_be_missed_keeps_the_names() -> None:
    failed = [Remark(f"net on {engine}", "crashed: killed by SIGSEGV") for engine in "abcd"]
    assert condensed(failed, 8, names=True) == ["net on a, net on b and 2 more: crashed: killed by SIGSEGV"]
