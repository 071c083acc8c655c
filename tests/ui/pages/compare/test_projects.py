"""Which two projects stand against each other, asked for or not."""

from dataclasses import replace

import invented
from enginebench_controller.records.model import families
from enginebench_ui.pages.compare.shapes.sides import choose, contender_key, facts, find, labels
from enginebench_ui.shared.project_key import project_key
from invented_experiments import contender

ORT = contender(engine="onnxruntime", best_items_per_s=90.0)
OPENVINO = contender(engine="openvino", best_items_per_s=120.0)
INT8 = contender(model_digest="cd" * 32, model_name="invented-int8", engine="openvino", best_items_per_s=200.0)
OTHER = contender(model_digest="ef" * 32, model_name="other", engine="openvino", best_items_per_s=5000.0)
FAMILIES = families(
    [
        invented.model(),
        invented.model("cd" * 32, "invented-int8", parent_digest="ab" * 32),
        invented.model("ef" * 32, "other"),
    ]
)


def test_unasked_b_is_the_fastest_and_a_its_best_rival():
    choice = choose([ORT, OPENVINO, INT8], FAMILIES)
    assert (choice.first, choice.second) == (OPENVINO, INT8)


def test_a_rival_of_the_same_family_of_models_goes_before_a_faster_stranger():
    lonely = choose([OTHER, INT8, ORT], FAMILIES)
    assert lonely.second == OTHER
    assert lonely.first == INT8, "no other version of its model is there, so the fastest of all"
    assert choose([OTHER, INT8, ORT], FAMILIES, second=contender_key(INT8)).first == ORT


def test_a_version_stands_against_its_original_on_the_same_engine_before_another_engine_that_runs_it():
    elsewhere = replace(INT8, engine="onnxruntime", best_items_per_s=190.0)
    choice = choose([ORT, elsewhere, OPENVINO, INT8], FAMILIES)
    assert (choice.first, choice.second) == (OPENVINO, INT8)
    assert choose([ORT, elsewhere, INT8], FAMILIES).first == elsewhere, "the original was not measured there"


def test_where_a_is_named_b_is_the_fastest_of_its_family():
    assert choose([ORT, OPENVINO, INT8, OTHER], FAMILIES, first=contender_key(ORT)).second == INT8


def test_both_can_be_named_by_project_keys_without_a_device():
    gpu = contender(engine="onnxruntime", device="CUDA:0", best_items_per_s=400.0)
    key = project_key("ab" * 32, "onnxruntime", "default", "local")

    choice = choose([ORT, gpu, OPENVINO], FAMILIES, key, contender_key(OPENVINO))

    assert choice.first == gpu, "the fastest of its devices"
    assert choice.second == OPENVINO
    assert find([ORT, gpu], f"{key}~CPU") == ORT


def test_a_name_that_means_nothing_is_told_and_replaced():
    choice = choose([ORT, OPENVINO], FAMILIES, "000000000000~gone@default~local")
    assert choice.unknown == ("000000000000~gone@default~local",)
    assert (choice.first, choice.second) == (ORT, OPENVINO)


def test_a_single_project_stands_against_itself_and_none_against_nothing():
    assert (choose([ORT], FAMILIES).first, choose([ORT], FAMILIES).second) == (ORT, ORT)
    assert (choose([], {}).first, choose([], {}).second) == (None, None)


def test_projects_without_numbers_are_chosen_last():
    silent = contender(engine="aaa", best_items_per_s=None)
    assert choose([silent, ORT, OPENVINO], FAMILIES).first == ORT


def test_no_two_labels_are_alike():
    twin = contender(engine="onnxruntime", model_digest="12" * 32, best_items_per_s=90.0)
    found = labels([ORT, twin, OPENVINO])
    assert len(set(found.values())) == 3
    assert found[contender_key(OPENVINO)] == "invented · openvino · local · CPU · best 120.0 items/s"
    assert "121212121212" in found[contender_key(twin)]


def test_a_large_throughput_stands_in_full():
    one = contender(best_items_per_s=23456.7)
    assert labels([one])[contender_key(one)].endswith("· best 23,457 items/s")


def test_an_environment_and_unknown_numbers_are_named():
    one = contender(environment="legacy", best_items_per_s=None, experiments=0, with_numbers=0, profiles=2)
    assert labels([one])[contender_key(one)] == "invented · fake@legacy · local · CPU · no numbers yet"
    wrong = contender(best_items_per_s=None)
    assert labels([wrong])[contender_key(wrong)] == "invented · fake · local · CPU · no numbers that count"
    assert facts(one) == "model abababababab · 0 measurements, 2 profiles"


def test_a_chain_of_parents_ends_even_where_it_bites_its_tail():
    found = families(
        [invented.model("aa" * 32, parent_digest="bb" * 32), invented.model("bb" * 32, parent_digest="aa" * 32)]
    )
    assert set(found) == {"aa" * 32, "bb" * 32}
