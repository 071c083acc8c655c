"""Exports read back: as typed as the format can, unknown never 0, and names from elsewhere harmless."""

import csv
import errno
import io
import itertools
import json
import os
import resource
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import invented_profiles
from enginebench_controller.errors import InputError
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.exports.profiles import PROFILE_FORMATS, export_profiles
from enginebench_controller.files.new_file import check_new_files, new_file
from enginebench_controller.records import EngineRef, Peak, PeakKind, Rate

STATES = ["executed", "executed", "not_executed", "optimized_away", "no_data"]
PROFILE = invented_profiles.profile()
WORKING = replace(PROFILE, layers=(replace(PROFILE.layers[0], flops=6912), *PROFILE.layers[1:]))


def peaks():
    """Roofs under which 6912 operations of 2144 bytes in 6 ns are 10 % of the attainable."""
    fields = {"target": "local", "engine": EngineRef("fake", "default", "1.0"), "device": "CPU", "cores": 2}
    fields["cpu_model"] = PROFILE.host.cpu_model
    rate, fast = Rate(11_400e9, 11_300e9, 11_520e9, 9), Rate(1e15, 1e15, 1e15, 9)
    return [
        Peak(**fields, kind=PeakKind.FLOPS, what="MatMul", measured_at_unix_ns=1, precision="f32", rate=rate),
        Peak(**fields, kind=PeakKind.BANDWIDTH, what="read", measured_at_unix_ns=1, working_set_bytes=2**20, rate=fast),
    ]


def csv_rows(*profiles, with_peaks=()):
    text = export_profiles(profiles, with_peaks, ExportFormat.CSV, None)
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_has_a_row_a_layer_and_an_empty_cell_for_what_is_unknown():
    rows = csv_rows(PROFILE)

    assert [row["state"] for row in rows] == STATES
    assert (rows[0]["mean_ns"], rows[0]["layer"], rows[0]["profile_id"]) == ("6.0", "conv1", "p0000001")
    assert json.loads(rows[0]["matched_nodes"]) == ["Conv_0", "Odd_1"]
    assert json.loads(rows[0]["output_shapes"]) == [[1, 8, 4, 4]]
    for row in rows[2:]:
        assert {row[column] for column in ("mean_ns", "low_ns", "share", "calls", "kernel", "flops")} == {""}
    assert rows[0]["unprofiled_latency_ns"] == ""


@pytest.mark.fault(19)
def test_csv_survives_every_name_and_none_becomes_a_formula():
    names = ('a,b;"c"', "line\nbreak", "=HYPERLINK(1)", "@sum", "+1", "-1", "\tx", "ünï", "")
    layers = tuple(replace(PROFILE.layers[0], name=name, kernel=name) for name in names)

    read = [row["layer"] for row in csv_rows(replace(PROFILE, layers=layers))]
    assert read == ['a,b;"c"', "line\nbreak", "'=HYPERLINK(1)", "'@sum", "'+1", "'-1", "'\tx", "ünï", ""]


def test_shares_of_the_attainable_are_there_once_peaks_are():
    assert csv_rows(WORKING)[0]["share_of_attainable"] == ""
    first, second, *_ = csv_rows(WORKING, with_peaks=peaks())
    assert float(first["share_of_attainable"]) == pytest.approx(0.1)
    assert (first["bound"], second["share_of_attainable"]) == ("compute", "")


def test_parquet_has_typed_columns_and_the_raw_times(tmp_path):
    path = tmp_path / "it's layers.parquet"
    export_profiles([PROFILE, replace(PROFILE, id="p2")], [], ExportFormat.PARQUET, path)

    with duckdb.connect() as connection:
        columns = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
        types = {name: kind for name, kind, *_ in columns}
        assert (types["mean_ns"], types["time_ns"], types["output_shapes"]) == ("DOUBLE", "BIGINT[]", "BIGINT[][]")
        assert (types["batch"], types["source_nodes"], types["layer"]) == ("INTEGER", "VARCHAR[]", "VARCHAR")
        query = """SELECT state, mean_ns, time_ns, layer, parameters::VARCHAR
            FROM read_parquet(?) WHERE profile_id = 'p0000001' ORDER BY execution_order"""
        rows = connection.execute(query, [str(path)]).fetchall()
    assert [row[0] for row in rows] == STATES
    assert rows[0][1:] == (6.0, [5, 6, 7], "conv1", '{"strides": "2,2"}')
    assert rows[3][1:4] == (None, None, "=drop1")


def test_parquet_of_profiles_without_layers_has_the_columns_all_the_same(tmp_path):
    path = tmp_path / "none.parquet"
    export_profiles([invented_profiles.profile_of_failure()], [], ExportFormat.PARQUET, path)

    with duckdb.connect() as connection:
        found = connection.execute("SELECT count(*), count(mean_ns) FROM read_parquet(?)", [str(path)]).fetchone()
    assert found == (0, 0)


def test_a_trace_has_what_its_format_asks_for_and_a_track_an_inference():
    trace = json.loads(export_profiles([PROFILE, replace(PROFILE, id="p2")], [], ExportFormat.PERFETTO, None))

    events = trace["traceEvents"]
    for event in events:
        assert {"name", "ph", "pid", "tid"} <= event.keys() and event["ph"] in "XiM"
        assert event["ph"] == "M" or isinstance(event["ts"], float)
        assert event["ph"] != "X" or event["dur"] > 0
        assert event["ph"] != "i" or event["s"] == "t"
    slices = [event for event in events if event["ph"] == "X"]
    inferences = {(pid, tid) for pid in (1, 2) for tid in range(3)}
    assert {(event["pid"], event["tid"]) for event in slices} == inferences | {(3, 0), (3, 1)}
    assert sum(event["ph"] == "M" and event["name"] == "thread_name" for event in events) == 8


def test_slices_stand_one_after_the_other_and_layers_without_a_time_are_no_slices():
    trace = json.loads(export_profiles([PROFILE], [], ExportFormat.PERFETTO, None))
    track = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["tid"] == 2]
    silent = [event for event in trace["traceEvents"] if event["ph"] == "i"]

    assert [(event["name"], event["ts"], event["dur"]) for event in track] == [
        ("conv1", 0.0, 0.007),
        ("r1", 0.007, 0.004),
    ]
    assert track[0]["args"]["kernel"] == "jit_avx2" and track[0]["args"]["flops"] is None
    assert [event["args"]["state"] for event in silent] == STATES[2:]
    assert {event["args"]["mean_us"] for event in silent} == {None}


def side_by_side(first, second):
    """The slices of the third process of a trace of two, by track, and its instant events."""
    events = json.loads(export_profiles([first, second], [], ExportFormat.PERFETTO, None))["traceEvents"]
    drawn = [event for event in events if event["pid"] == 3]
    slices = [[one for one in drawn if one["ph"] == "X" and one["tid"] == track] for track in (0, 1)]
    return slices, [one for one in drawn if one["ph"] == "i"]


def test_of_two_profiles_the_same_layers_begin_together():
    conv, reorder, *silent = PROFILE.layers
    relu = replace(conv, name="relu", order=9, time_ns=(4, 4, 4), group=1)
    nodes = (*PROFILE.nodes, replace(PROFILE.nodes[0], index=3, name="Relu_3", op_type="Relu", group=1))
    first = replace(PROFILE, layers=(conv, reorder, *silent, relu), nodes=nodes)
    slower = replace(conv, name="fused", time_ns=(15, 16, 17))
    second = replace(first, id="p2", engine=EngineRef("other", "default"), layers=(slower, relu))
    (ours, theirs), silent_ones = side_by_side(first, second)

    times = [[(one["name"], one["ts"], one["dur"]) for one in track] for track in (ours, theirs)]
    assert times == [
        [("Conv_0", 0.0, 0.006), ("r1", 0.016, 0.003), ("Relu_3", 0.019, 0.004)],
        [("Conv_0", 0.0, 0.016), ("Relu_3", 0.019, 0.004)],
    ]
    assert theirs[0]["args"]["layers"] == ["fused"] and theirs[0]["args"]["second_is"] == "worse"
    assert theirs[0]["args"]["second_to_first"] == pytest.approx(16 / 6)
    assert {one["args"]["state"] for one in silent_ones} == {"not_executed", "optimized_away"}
    assert {one["tid"] for one in silent_ones} == {0}, "what a side has not at all is a gap"


def test_a_profile_without_layers_leaves_nothing_to_be_aligned():
    assert side_by_side(PROFILE, invented_profiles.profile_of_failure()) == ([[], []], [])
    assert side_by_side(*[invented_profiles.profile_of_failure()] * 2) == ([[], []], [])


def node_data(form, *profiles):
    return json.loads(export_profiles(profiles, [], form, None), parse_constant=pytest.fail)


def test_model_explorer_gets_the_time_of_a_group_at_the_node_with_most_work():
    found = node_data(ExportFormat.MODEL_EXPLORER, PROFILE)

    assert found["results"] == {"Conv_0": {"value": 0.006}}, "no node that was not timed, and no reorder"
    assert found["name"] == "time in µs, invented on fake 1.0"
    assert [one["stop"] for one in found["gradient"]] == [0, 1]


def test_model_explorer_gets_the_flops_of_the_nodes_of_which_they_are_known():
    found = node_data(ExportFormat.MODEL_EXPLORER_FLOPS, PROFILE)
    assert found["results"] == {"Conv_0": {"value": 6912}, "Constant_2": {"value": 0}}


def test_model_explorer_gets_no_file_of_nothing_and_none_of_two(tmp_path):
    nothing = replace(invented_profiles.profile_of_failure(), nodes=PROFILE.nodes)
    for form, profiles, why in (
        (
            ExportFormat.MODEL_EXPLORER,
            [nothing],
            "no node of a model has a value .*: layers are matched",
        ),
        (ExportFormat.MODEL_EXPLORER_FLOPS, [invented_profiles.profile_of_failure()], "no node of a model has a value"),
        (ExportFormat.MODEL_EXPLORER, [PROFILE, PROFILE], "one profile at a time, and these are 2"),
        (ExportFormat.BMF, [PROFILE], "profiles cannot be exported as bmf, only as json, csv, perfetto"),
    ):
        with pytest.raises(InputError, match=why):
            export_profiles(profiles, [], form, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_json_has_everything_and_no_number_that_json_lacks():
    text = export_profiles([WORKING], peaks(), ExportFormat.JSON, None)
    (profile,) = json.loads(text, parse_constant=pytest.fail)["profiles"]

    assert [layer["state"] for layer in profile["layers"]] == STATES
    assert (profile["layers"][0]["mean_ns"], profile["layers"][3]["mean_ns"]) == (6.0, None)
    assert profile["layers"][0]["interval"]["method"] == "t_over_iterations"
    assert profile["layers"][0]["roofline"]["share"] == pytest.approx(0.1)
    assert profile["coverage"] == {
        "total_ns": 9,
        "matched_ns": 6,
        "unmatched_ns": 3,
        "largest_group_share": 2 / 3,
        "matched_share": 6 / 9,
    }
    assert (profile["work"]["flops"], profile["nodes"][1]["flops"]) == (6912, None)
    assert profile["figures"] == {
        "layers_ns": pytest.approx(6 + 10 / 3),
        "layers_to_latency": None,
        "profiled_to_unprofiled": None,
    }
    assert [one["type"] for one in profile["types"]] == ["Conv", "Reorder"]


@pytest.mark.parametrize("form", PROFILE_FORMATS)
def test_a_file_is_not_replaced_unasked(form, tmp_path):
    path = tmp_path / "out"
    path.write_text("mine")

    with pytest.raises(InputError, match=r"there is a file .*out already; .*--force"):
        export_profiles([PROFILE], [], form, path)
    assert path.read_text() == "mine"
    export_profiles([PROFILE], [], form, path, force=True)
    assert path.read_bytes()[:4] != b"mine"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("form", PROFILE_FORMATS)
def test_a_place_that_cannot_be_written_to_is_a_sentence(form, tmp_path):
    (tmp_path / "file").write_text("")
    for path, why in ((tmp_path / "none" / "out", "no folder .*none"), (tmp_path / "file" / "out", "cannot write")):
        with pytest.raises(InputError, match=why):
            export_profiles([PROFILE], [], form, path)
    with pytest.raises(InputError, match="is a folder"):
        export_profiles([PROFILE], [], form, tmp_path)


def test_parquet_needs_a_file():
    with pytest.raises(InputError, match="name a file with --output"):
        export_profiles([PROFILE], [], ExportFormat.PARQUET, None)


def test_a_stream_or_device_is_never_replaced_by_a_file(tmp_path):
    pipe, stream, link, to_it = (tmp_path / name for name in ("pipe", "stdout", "link", "to stdout"))
    to_it.symlink_to(stream)
    os.mkfifo(pipe)
    (tmp_path / "log").write_text("kept")
    with (tmp_path / "log").open() as log:
        stream.symlink_to(f"/proc/self/fd/{log.fileno()}")
        link.symlink_to(tmp_path / "log")
        for path, force in itertools.product((pipe, stream, to_it, Path(os.devnull)), (False, True, None)):
            with pytest.raises(InputError, match="is a stream or a device"):
                check_new_files(path, force=force)
        check_new_files(link, force=True)


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    link, file = tmp_path / "latest", tmp_path / "there" / "results"
    link.symlink_to(file)
    for text, force in (("new", False), ("newer", True)):
        with new_file(link, force=force) as partial:
            partial.write_text(text)
        assert link.is_symlink() and file.read_text() == text
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(InputError, match="leads back to itself"), new_file(link, force=True):
        pass
    link.unlink()
    link.symlink_to(tmp_path / "nowhere" / "results")
    with pytest.raises(InputError, match=r"there is no folder .*nowhere"):
        check_new_files(link, force=True)


def test_an_export_that_breaks_off_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), new_file(tmp_path / "out", force=False) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_sentence_of_parquet_too_and_leaves_nothing(tmp_path):
    path = tmp_path / "layers.parquet"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # which stands for the end of the disk
    try:
        with pytest.raises(InputError) as refused:
            export_profiles([PROFILE], [], ExportFormat.PARQUET, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(refused.value) == f"cannot write {path}: File too large"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path):
    broken = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(InputError, match=r"cannot write .*out: No space left"), new_file(tmp_path / "out", force=False):
        raise broken
    assert list(tmp_path.iterdir()) == []
