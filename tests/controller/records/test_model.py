"""What a version was made of and how: by kind and parts, and in the sentence that people read."""

import pytest

import invented
from enginebench_controller.records import Derivation, DerivationKind
from enginebench_controller.records.fields import DERIVATION
from enginebench_controller.records.model import int8_versions, is_gone

GIVEN = "ab" * 32
FOLDER = "3 inputs of my, odd\nsamples (0123456789ab; 3 samples, resized to 8x8)"
SENTENCES = {
    "batch=4": Derivation(DerivationKind.REBATCHED, batch=4),
    "batch=16, batch axis tokens=1, mask=none": Derivation(
        DerivationKind.REBATCHED, batch=16, said="tokens=1, mask=none"
    ),
    "int8 QDQ, u8 × s8 (7 bits), min-max over 8 inputs of seed 0": Derivation(
        DerivationKind.QUANTIZED, said="8 inputs of seed 0"
    ),
    f"int8 QDQ, u8 × s8 (7 bits), min-max over {FOLDER}": Derivation(DerivationKind.QUANTIZED, said=FOLDER),
    "magnitude pruning, sparsity=0.9 in every layer": Derivation(DerivationKind.PRUNED, sparsity=0.9),
    "magnitude pruning, sparsity=1e-05 in every layer": Derivation(DerivationKind.PRUNED, sparsity=1e-5),
    "magnitude pruning, sparsity=0.999999 in every layer": Derivation(DerivationKind.PRUNED, sparsity=0.999999),
    "magnitude pruning, sparsity by weight, 12 weights, 0123456789ab": Derivation(
        DerivationKind.PRUNED_BY_WEIGHT, said="12 weights, 0123456789ab"
    ),
    "OpenVINO IR, FP16 weights": Derivation(DerivationKind.CONVERTED),
    "OpenVINO IR, FP16 weights, inputs x=float32:?x3x224x224, ids=int64:?x16": Derivation(
        DerivationKind.CONVERTED, said="x=float32:?x3x224x224, ids=int64:?x16"
    ),
}
"""Every sentence that was written when it was all that was kept."""


@pytest.mark.parametrize(("sentence", "derivation"), SENTENCES.items())
def test_a_sentence_of_before_is_read_and_people_read_it_on(sentence: str, derivation: Derivation) -> None:
    assert Derivation.from_sentence(sentence) == derivation
    assert str(derivation) == sentence
    assert DERIVATION.from_data(sentence) == DERIVATION.from_data(DERIVATION.to_data(derivation)) == derivation


@pytest.mark.parametrize("sentence", ["smoothed by hand", "batch=many", "int8", "magnitude pruning, sparsity=0.9"])
def test_a_sentence_that_nobody_wrote_is_kept_as_it_is_and_is_of_no_kind(sentence: str) -> None:
    found = Derivation.from_sentence(sentence)
    assert (found.kind, str(found)) == (DerivationKind.UNKNOWN, sentence)


def test_only_a_copy_for_another_batch_is_the_model_it_was_made_of() -> None:
    originals = {
        kind: invented.model("cd" * 32, parent_digest=GIVEN, derivation=Derivation(kind, 4, 0.5, "x")).original_digest
        for kind in DerivationKind
    }
    assert originals == dict.fromkeys(DerivationKind, "cd" * 32) | {DerivationKind.REBATCHED: GIVEN}


def test_a_model_is_gone_with_the_one_that_it_is_a_copy_of() -> None:
    original = invented.model(GIVEN)
    copy = invented.model("bc" * 32, parent_digest=GIVEN, derivation=invented.BATCH_4)
    assert not is_gone(copy.digest, [original, copy], [original])
    assert is_gone(copy.digest, [original, copy], [copy]) and is_gone(GIVEN, [], [])


def test_the_int8_versions_of_a_copy_are_those_of_its_original() -> None:
    original, copy, int8, pruned = (
        invented.model(GIVEN),
        invented.model("bc" * 32, parent_digest=GIVEN, derivation=invented.BATCH_4),
        invented.model("cd" * 32, parent_digest=GIVEN, derivation=invented.INT8),
        invented.model("de" * 32, parent_digest=GIVEN, derivation=invented.PRUNED_90),
    )
    assert int8_versions([original, copy, int8, pruned], copy.digest) == (int8,)
