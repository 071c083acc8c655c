"""The tables of a profile: unknown is –, never 0, and what cannot be told is left out."""

from dataclasses import replace

import pytest

import invented_profiles
from controller.verdicts.chains import chain, layer
from enginebench_controller.cli.commands import profiles
from enginebench_controller.cli.commands.compare import print_comparison
from enginebench_controller.cli.commands.profiles import print_layers, print_profiles, print_summary, print_types
from enginebench_controller.records import EngineRef, Failure, FailureKind, Peak, PeakKind, Rate
from enginebench_controller.verdicts.layers.profiles import compare_profiles

PROFILE = invented_profiles.profile()
COMPUTED = replace(PROFILE, layers=(replace(PROFILE.layers[0], flops=6912), *PROFILE.layers[1:]))


def peak(kind, rate, **fields):
    engine = EngineRef("fake", "default", "1.0")
    known = {"rate": Rate(rate, rate, rate, 9), "cpu_model": PROFILE.host.cpu_model, **fields}
    return Peak("local", engine, "CPU", 2, kind, "work", 1, **known)


PEAKS = (
    peak(PeakKind.FLOPS, 11_520e9, precision="f32"),
    peak(PeakKind.BANDWIDTH, 1e15, working_set_bytes=2**20),
)


@pytest.fixture
def printed(capsys):
    """Calls a printing function; returns the table's rows as cells by heading, and the remarks."""

    def show(printing, *arguments):
        printing(*arguments)
        out, err = capsys.readouterr()
        heading = next(line for line in out.splitlines() if line.startswith("┃"))
        names = [cell.strip() for cell in heading.strip("┃").split("┃")]
        rows = [line.strip("│").split("│") for line in out.splitlines() if line.startswith("│")]
        return [dict(zip(names, (cell.strip() for cell in row), strict=True)) for row in rows], err

    return show


def test_layers_without_a_time_stand_last_with_their_state_and_no_number(printed):
    rows, _ = printed(print_layers, PROFILE, (), 20)

    assert [row["state"] for row in rows] == [
        "executed",
        "executed",
        "not executed",
        "optimized away",
        "no data",
    ]
    for row in rows[2:]:
        assert {row["mean ms"], row["%"], row["FLOPs"], row["GFLOP/s"], row["kernel"]} == {"–"}


def test_the_slowest_come_first_and_the_rest_is_counted(printed):
    rows, remarks = printed(print_layers, PROFILE, (), 1)
    assert [row["layer"] for row in rows] == ["conv1"]
    assert "4 more layers: --most shows them" in remarks


def test_the_share_of_the_roof_is_a_column_only_where_there_is_a_roof(printed):
    rows, remarks = printed(print_layers, COMPUTED, (), 20)
    assert "of roof" not in rows[0] and "targets calibrate" in remarks
    assert rows[0]["GFLOP/s"] == "1152.0"

    rows, _ = printed(print_layers, COMPUTED, PEAKS, 20)
    assert [(row["of roof"], row["bound by"]) for row in rows[:2]] == [("10%", "compute"), ("–", "–")]


def test_a_layer_above_its_roof_is_marked_and_a_remark_says_why(printed):
    low = (peak(PeakKind.FLOPS, 1_000e9, precision="f32"), PEAKS[1])
    rows, remarks = printed(print_layers, COMPUTED, low, 20)
    assert rows[0]["of roof"].endswith("%!")
    assert "!: 1 of these layers is" in remarks
    rows, remarks = printed(print_layers, COMPUTED, PEAKS, 20)
    assert "!" not in rows[0]["of roof"] + remarks


def test_work_of_the_larger_branch_and_unknown_work_are_told(printed):
    nodes = (replace(PROFILE.nodes[0], method="at most"), *PROFILE.nodes[1:])
    rows, _ = printed(print_summary, replace(PROFILE, nodes=nodes))
    assert {row["figure"]: row["value"] for row in rows}["FLOPs of an inference"].startswith("≤ 6.91 k")
    rows, _ = printed(print_summary, replace(PROFILE, work=replace(PROFILE.work, macs=None, flops=None)))
    told = {row["figure"]: row["value"] for row in rows}["FLOPs of an inference"]
    assert told.startswith("–") and told.endswith("; Odd may have most of them")


def test_a_layer_that_is_counted_with_the_larger_branch_is_marked_in_all_that_follows(printed):
    layers = (replace(COMPUTED.layers[0], group=0), *COMPUTED.layers[1:])
    nodes = (replace(PROFILE.nodes[0], method="at most", group=0), *PROFILE.nodes[1:])
    rows, remarks = printed(print_layers, replace(COMPUTED, layers=layers, nodes=nodes), PEAKS, 20)
    assert [rows[0][name] for name in ("FLOPs", "GFLOP/s", "of roof")] == ["≤ 6.91 k", "≤ 1152.0", "≤ 10%"]
    assert "≤: which branch of an If runs is decided by the data" in remarks
    rows, remarks = printed(print_layers, COMPUTED, PEAKS, 20)
    assert "≤" not in "".join(rows[0].values()) + remarks


def test_the_legend_explains_every_layer_above_its_roof(printed):
    long = replace(COMPUTED.layers[0], time_ns=(53, 60, 67), flops=69_120)

    def busy(share):
        rate = Rate(1_152e9 / share, 1_152e9 / share, 1_152e9 / share, 9, disturbed=True)
        subject = replace(COMPUTED, layers=(long, *COMPUTED.layers[1:]))
        return printed(print_layers, subject, (replace(PEAKS[0], rate=rate), PEAKS[1]), 20)

    rows, remarks = busy(1.2)
    assert rows[0]["of roof"] == "120%!" and "!: 1 of these layers is under a roof that was measured" in remarks
    rows, remarks = busy(2)
    assert rows[0]["of roof"] == "200%!" and "!: 1 of these layers is above the roof for reasons unknown" in remarks
    rows, remarks = busy(0.5)
    assert "!" not in remarks and "of roof: too much for 1 of these layers" in remarks


def test_types_have_their_share_and_precisions(printed):
    (conv, reorder), _ = printed(print_types, PROFILE)
    assert (conv["type"], conv["layers"], conv["%"], conv["precisions"]) == ("Conv", "1", "64.3", "f32 ×1")
    assert reorder["precisions"] == "u8 ×1"


def test_a_summary_has_every_figure_and_says_what_is_unknown(printed):
    rows, _ = printed(print_summary, PROFILE)
    shown = {row["figure"]: row["value"] for row in rows}
    assert shown["time matched to source nodes"] == "66.7 %"
    assert shown["largest group"] == "66.7 % of the nodes"
    assert shown["FLOPs of an inference"] == "6.91 k, known for 50.0 % of the nodes"
    assert shown["profiled ÷ unprofiled latency"] == "–"

    rows, remarks = printed(print_summary, invented_profiles.profile_of_failure())
    shown = {row["figure"]: row["value"] for row in rows}
    assert (shown["time matched to source nodes"], shown["FLOPs of an inference"]) == ("–", "–")
    assert "killed by SIGSEGV" in remarks and "ONNX models only" in remarks

    full = Failure(FailureKind.SHORTAGE, "its disk is full: make room in its data folder.")
    _, remarks = printed(print_summary, replace(invented_profiles.profile_of_failure(), failure=full))
    assert "make room in its data folder, then profile again\n" in remarks


def test_a_summary_says_what_counters_cost_and_what_it_does_to_shares(printed):
    slow = replace(PROFILE, profiled_latency_ns=130_000, unprofiled_latency_ns=100_000)
    _, remarks = printed(print_summary, slow)
    assert "with counters the model takes 1.30 times as long as without, 15.0 µs more for each layer" in remarks
    assert "shares as they are" in remarks
    long = [replace(one, time_ns=tuple(10**6 for _ in one.time_ns)) for one in slow.layers]
    _, remarks = printed(print_summary, replace(slow, layers=tuple(long)))
    assert "take the shares of short layers for too large and those of long ones for too small" in remarks
    _, remarks = printed(print_summary, replace(PROFILE, profiled_latency_ns=115_000, unprofiled_latency_ns=100_000))
    assert "counters" not in remarks


def test_a_list_tells_zeros_imposed_from_not_asked_for(printed):
    dense = replace(PROFILE.configuration, options={"imposed_sparsity": "0"})
    rows, _ = printed(print_profiles, "Profiles", [PROFILE, replace(PROFILE, configuration=dense)])
    assert [row["zeros imposed"] for row in rows if row["id"]] == ["–", "0"]


def test_passes_of_one_command_end_with_what_lays_them_beside_each_other(capsys):
    passes = [invented_profiles.profile("aa000001"), invented_profiles.profile("bb000002")]
    profiles._print([*passes, invented_profiles.profile_of_failure()], [], 1)
    assert capsys.readouterr().err.endswith("layer beside layer: `enginebench compare aa000001 bb000002`\n")
    profiles._print(passes[:1], [], 1)
    assert "beside" not in capsys.readouterr().err


def test_notes_on_three_profiles_stand_once_and_say_of_which_they_are(capsys):
    first = chain("a", [layer(0, 1_000_000)], unprofiled_ns=100_000)
    others = [chain(name, [layer(0, 500_000)], unprofiled_ns=ns) for name, ns in (("b", 50_000), ("c", 300_000))]
    again = replace(others[1], id="d")
    print_comparison(compare_profiles([first, *others, again]), 0)
    notes = [line for line in capsys.readouterr().err.splitlines() if "layers and latency disagree" in line]
    assert [line.split(": layers")[0].strip() for line in notes] == ["note: C, D against A"]
