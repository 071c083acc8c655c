"""Lines part measurements by all but batch and cores, and are named by what they do not share."""

from dataclasses import replace

import invented
from enginebench_controller.records import Configuration, EngineRef, InputSet, Load
from enginebench_controller.store.store import BenchmarkBundle
from enginebench_ui.pages.benchmark.shapes.lines import labelled, lines_of
from enginebench_ui.pages.benchmark.shapes.whole import default_base, default_beside, lines_to_choose, shape


def measured(identity, engine="fake", batch=1, cores=2, **fields):
    configuration = fields.pop("configuration", Configuration("CPU", batch, cores))
    return invented.measured(identity, engine=engine, batch=batch, configuration=configuration, **fields)


def whole(*measurements, identity="b0000001", name="invented"):
    return shape(BenchmarkBundle(invented.benchmark(identity, name), measurements, ()), ())


def labels(measurements):
    return [line.label for line in labelled(lines_of(measurements))]


def test_a_line_is_a_grid_of_batch_and_cores():
    (line,) = lines_of([measured("m1"), measured("m2", batch=4), measured("m3", batch=4, cores=1)])

    assert set(line.cells) == {(1, 2), (4, 2), (4, 1)}
    assert (line.batches, line.cores) == ((1, 4), (1, 2))


def test_lines_are_named_by_their_engine_and_what_varies():
    bf16 = Configuration("CPU", 1, 2, precision="bf16")

    assert labels([measured("m1"), measured("m2", engine="other")]) == ["fake 1.0", "other 1.0"]
    assert labels([measured("m1"), measured("m2", configuration=bf16)]) == ["fake 1.0 · bf16", "fake 1.0 · f32"]


LONG = "facebook_detr_resnet50_coco_2017_{}_per_channel_opset17_simplified"
TUNED = {"cpu_mem_arena": "false", "denormals_as_zero": "true", "mem_pattern": "false"}


def test_models_whose_long_names_are_alike_at_both_ends_are_called_by_what_tells_them_apart():
    named = labels(
        measured(f"{engine}{precision}", engine, model_digest=digest * 32, model_name=LONG.format(precision))
        for engine in ("x", "y")
        for precision, digest in (("fp32", "ab"), ("int8", "cd"))
    )

    assert len(set(named)) == 4
    assert [sum(word in label for label in named) for word in ("fp32", "int8", "x 1.0", "y 1.0")] == [2, 2, 2, 2]
    assert max(map(len, named)) < 60, "still short"


def test_long_options_and_names_of_input_sets_tell_lines_apart():
    def asked(**fields):
        return Configuration("CPU", 1, 2, **fields)

    tuned = [asked(options=TUNED | {"graph_optimization_level": level}) for level in ("all", "disabled")]
    by_options = labels(measured(f"m{place}", configuration=one) for place, one in enumerate(tuned))
    assert [label.count("graph_optimization_level=all") for label in by_options] == [1, 0]
    assert [label.count("graph_optimization_level=disabled") for label in by_options] == [0, 1]

    sets = [InputSet(name=f"validation images of the {year} release, {'x' * 40}") for year in (2017, 2018)]
    by_inputs = labels(measured(one.name, configuration=asked(input_set=one)) for one in sets)
    assert ["2017" in label for label in by_inputs] == [True, False]


def test_lines_whose_names_are_alike_in_full_have_their_keys_beside_them():
    odd = [Configuration("CPU", 1, 2, options=one) for one in ({"a": "b, c=d"}, {"a": "b", "c": "d"})]
    lines = labelled(lines_of(measured(f"m{place}", configuration=one) for place, one in enumerate(odd)))
    assert [line.label for line in lines] == [f"fake 1.0 · {line.key}" for line in lines]


def test_names_that_differ_in_more_than_there_is_room_for_are_cut_and_have_keys():
    sets = [InputSet(name="x" * 40 + one * 60 + "y" * 20) for one in "abc"]
    named = labels(measured(one.name, configuration=Configuration("CPU", 1, 2, input_set=one)) for one in sets)
    assert len(set(named)) == 3 and max(map(len, named)) < 90


def test_kinds_of_cores_are_lines_of_their_own():
    kinds = [Configuration("CPU", 1, cores, cluster=kind) for kind in ("big", "little") for cores in (1, 2)]
    measurements = [measured(f"m{number}", configuration=one) for number, one in enumerate(kinds)]

    assert [line.cores for line in lines_of(measurements)] == [(1, 2), (1, 2)]
    assert labels(measurements) == ["fake 1.0 · big cores", "fake 1.0 · little cores"]


def test_a_failure_that_does_not_know_its_version_stays_on_its_line():
    failed = invented.failed("m2", engine="fake", batch=4, configuration=Configuration("CPU", 4, 2))
    (line,) = labelled(lines_of([failed, measured("m1")]))

    assert line.label == "fake 1.0"
    assert set(line.cells) == {(1, 2), (4, 2)}


def test_requests_that_follow_the_cores_do_not_part_a_line_and_asked_ones_do():
    def in_flight(identity, cores, requests):
        asked = Configuration("CPU", 1, cores, load=Load.ASYNC, requests=requests)
        return measured(identity, configuration=asked)

    assert len(lines_of([in_flight("m1", 1, 2), in_flight("m2", 4, 4)])) == 1
    parted = [in_flight("m1", 2, 2), in_flight("m2", 2, 8)]
    assert labels(parted) == ["fake 1.0 · 2 in flight", "fake 1.0 · 8 in flight"]


def test_keys_are_short_stay_the_same_and_tell_environments_apart():
    one = measured("m1")
    legacy = replace(one, id="m2", engine=EngineRef("fake", "legacy", "0.9"))
    keys = {line.first.id: line.key for line in lines_of([one, legacy])}

    assert keys["m1"] != keys["m2"]
    assert lines_of([replace(one, id="m9")])[0].key == keys["m1"]
    assert len(keys["m1"]) == 8


def test_the_base_is_the_fastest_line_with_numbers_and_its_rivals_stand_beside_it():
    failed = invented.failed("m0", engine="broken", configuration=Configuration("CPU", 1, 2))
    elsewhere = measured("m3", engine="third", target="nuc")
    benchmark = whole(failed, measured("m1", latency_ms=2.0), measured("m2", engine="other"), elsewhere)

    lines = lines_to_choose(benchmark, None)
    base = default_base(lines.own, {})

    assert base.first.id == "m1"
    assert [line.first.id for line in default_beside(base, lines)] == ["m2"]


def test_the_like_of_another_benchmark_stands_beside_instead():
    own = whole(measured("m1", latency_ms=2.0), measured("m2", engine="other"))
    theirs = whole(
        measured("m3", benchmark_id="b2"), measured("m4", "other", benchmark_id="b2"), identity="b2", name="old"
    )

    lines = lines_to_choose(own, theirs)
    base = default_base(lines.own, {})

    assert [line.label for line in lines.own] == ["fake 1.0", "other 1.0"]
    assert [line.label for line in lines.others] == ["fake 1.0 · in old", "other 1.0 · in old"]
    assert [line.first.id for line in default_beside(base, lines)] == ["m3"]
    assert [line.first.id for line in default_beside(lines.others[1], lines)] == ["m2"]
    assert len(lines.by_key) == 4
