"""What a form offers is what the library holds and what targets said."""

from dataclasses import replace

import invented
from enginebench_controller.records import Target
from enginebench_ui.shared.order_fields import (
    can_impose,
    core_counts,
    device_labels,
    engine_labels,
    families,
    label_name,
    model_key,
    model_labels,
    most_cores,
    plan_models,
    target_labels,
    unavailable_engines,
)
from enginebench_ui.shared.versions import KnownVersion
from offered import engine, missing, target

DENSE, PRUNED, REBATCHED, OTHER, ELSEWHERE = (character * 64 for character in "abcde")


def known():
    def version(digest, name, *, here=True, created=0, **fields):
        return KnownVersion(replace(invented.model(digest, name, **fields), created_at_unix_ns=created), is_here=here)

    return {
        DENSE: version(DENSE, "net", created=1),
        PRUNED: version(
            PRUNED,
            "net-sparse",
            created=3,
            parent_digest=DENSE,
            derivation=invented.PRUNED_90,
        ),
        REBATCHED: version(REBATCHED, "net-batch4", created=4, parent_digest=DENSE, derivation=invented.BATCH_4),
        OTHER: version(OTHER, "net", created=2),
        ELSEWHERE: version(ELSEWHERE, "elsewhere", here=False),
    }


def test_versions_in_the_library_are_offered_newest_first_and_then_the_zoo():
    assert model_labels(known(), ["zoo:resnet50"]) == {
        "b" * 12: "net-sparse · pruned 90 %",
        "d" * 12: "net · dddddd",
        "a" * 12: "net · aaaaaa",
        "zoo:resnet50": "zoo:resnet50 · built when first used",
    }


def test_a_network_that_was_built_is_not_offered_twice():
    built = {DENSE: KnownVersion(invented.model(DENSE, "zoo:resnet50"), is_here=True)}
    assert list(model_labels(built, ["zoo:resnet50"])) == ["a" * 12]


def test_an_address_may_name_a_version_by_digest_start_or_name():
    labels = model_labels(known(), ["zoo:resnet50"])

    assert model_key(PRUNED, labels) == model_key("bbbbbb", labels) == model_key("net-sparse", labels) == "b" * 12
    assert model_key("zoo:resnet50", labels) == "zoo:resnet50"
    assert model_key("nothing", labels) is None
    assert model_key("b", labels) is None
    assert plan_models(["b" * 12, "zoo:resnet50"], known()) == [PRUNED, "zoo:resnet50"]
    assert label_name(labels["b" * 12]) == "net-sparse"


def test_a_copy_for_another_batch_stands_for_its_parent():
    assert families(known()) == {
        DENSE: DENSE,
        PRUNED: PRUNED,
        REBATCHED: DENSE,
        OTHER: OTHER,
        ELSEWHERE: ELSEWHERE,
    }


SEEN = [
    target(
        engine("x", "newest", version="2.0"),
        engine("x", version="1.0"),
        engine("gpu", devices=("CPU", "GPU.0")),
        engine("hidden", hidden=True, devices=("FAKE:0",)),
        missing("lost", "no wheel"),
    ),
    target(engine("x", version="1.1", options=["imposed_sparsity"]), name="nuc", cores=12),
]


def test_engines_are_named_as_a_plan_names_them():
    assert engine_labels(SEEN) == {"gpu": "gpu 1.0", "x": "x 1.0, 1.1", "x@newest": "x@newest 2.0"}
    assert "hidden" in engine_labels(SEEN, also=["hidden"])
    assert unavailable_engines(SEEN) == ("lost is not available on local: no wheel",)


def test_devices_are_those_of_the_chosen_engines():
    assert device_labels(SEEN, []) == {"CPU": "CPU · invented CPU", "GPU.0": "GPU.0 · invented GPU.0"}
    assert list(device_labels(SEEN, ["x"])) == ["CPU"]
    assert list(device_labels(SEEN, ["hidden"])) == ["FAKE:0"]


def test_cores_are_offered_up_to_what_the_largest_target_has():
    assert most_cores(SEEN) == 12
    assert most_cores([]) is None
    assert core_counts(2) == (1, 2)
    assert core_counts(12) == (1, 2, 3, 4, 5, 6, 7, 8, 12)
    assert core_counts(64)[-4:] == (8, 16, 32, 64)


def test_zeros_are_imposed_by_engines_that_can():
    assert can_impose(SEEN, []) == ("x",)
    assert can_impose(SEEN[:1], []) == ()
    assert can_impose(SEEN, ["gpu"]) == ()


def test_this_machine_is_always_offered():
    assert target_labels([Target("nuc", "nuc:50051", 0)]) == {"local": "this machine", "nuc": "nuc (nuc:50051)"}
