"""Child versions of any ONNX model, linked to their parent: quantized to INT8, or pruned by magnitude."""

import hashlib
import json
from collections.abc import Mapping

from enginebench_controller.errors import ModelError
from enginebench_controller.model.binding import Shapes, bind
from enginebench_controller.model.bounded import deriving
from enginebench_controller.model.calibration import CalibrationFolder, seeded_calibration
from enginebench_controller.model.derivation import add_child, load_whole
from enginebench_controller.model.description import describe, describe_onnx
from enginebench_controller.model.library import ModelLibrary
from enginebench_controller.model.pruning import Magnitudes, prune_weights, weight_magnitudes
from enginebench_controller.records import ModelVersion


@deriving
def quantize(
    library: ModelLibrary,
    version: ModelVersion,
    calibration_seed: int = 0,
    samples: int = 8,
    shapes: Shapes | None = None,
    given: CalibrationFolder | None = None,
) -> ModelVersion:
    """The INT8 child of `version`, calibrated on `samples` seeded inputs or on `given` ones; made once and then found.

    What it was calibrated on stands in its derivation. `shapes` closes open dimensions of the inputs, as for a run.
    Raises `ModelError` with the reason where the model cannot be quantized, `InputError` for given inputs that do not
    fit, `StoreError` when the library cannot be written.
    """
    # Here, since it brings ONNX Runtime, and what prunes or only lists models does without.
    from enginebench_controller.model.quantization import QuantizationError, quantized  # noqa: PLC0415

    with library.scratch() as folder:
        calibration = seeded_calibration(calibration_seed, samples)
        if given is not None:
            calibration = given.prepared(bind(describe(library.main_path(version)), 1, shapes).inputs, folder)
        derivation = f"int8 QDQ, u8 × s8 (7 bits), min-max over {calibration.said}"
        if known := library.derived(version, derivation):
            return known
        model = load_whole(library, version, "quantized")
        bound = bind(describe_onnx(model, library.main_path(version)), 1, shapes)
        try:
            child = quantized(model, bound.inputs, calibration.items(bound.inputs), folder)
        except QuantizationError as error:
            raise ModelError(f"{version.name} cannot be quantized: {error}") from error
    return add_child(library, version, child, "int8", derivation)


@deriving
def prune(library: ModelLibrary, version: ModelVersion, sparsity: float) -> ModelVersion:
    """The child of `version` whose smallest weights are zero, the share `sparsity` of every layer.

    Raises `ModelError` for a share outside (0, 1) or a model without weights to prune, `StoreError` when the library
    cannot be written.
    """
    if not 0 < sparsity < 1:
        raise ModelError(f"a sparsity of {sparsity} is not between 0 and 1; 0.9 zeroes nine weights of ten")
    derivation = f"magnitude pruning, sparsity={sparsity:g} in every layer"
    if known := library.derived(version, derivation):
        return known
    model = load_whole(library, version, "pruned")
    if prune_weights(model, sparsity) == 0:
        raise ModelError(f"{version.name} cannot be pruned: no Conv, Gemm or MatMul of it has constant weights")
    return add_child(library, version, model, f"sparse{sparsity * 100:g}", derivation)


@deriving
def prune_by_weight(library: ModelLibrary, version: ModelVersion, sparsities: Mapping[str, float]) -> ModelVersion:
    """The child of `version` that has the share of zeros in each weight that `sparsities` names; others stay dense.

    Raises `ModelError` where no weight is named, `StoreError` when the library cannot be written.
    """
    chosen = {name: share for name, share in sorted(sparsities.items()) if share > 0}
    identity = hashlib.sha256(json.dumps(chosen).encode()).hexdigest()[:12]
    derivation = f"magnitude pruning, sparsity by weight, {len(chosen)} weights, {identity}"
    if known := library.derived(version, derivation):
        return known
    model = load_whole(library, version, "pruned")
    if prune_weights(model, chosen) == 0:
        raise ModelError(f"{version.name} cannot be pruned so: none of its weights is to get zeros")
    return add_child(library, version, model, "sparse-by-weight", derivation)


@deriving
def prunable_weights(library: ModelLibrary, version: ModelVersion) -> tuple[Magnitudes, ...]:
    """The weights that pruning reaches, with the magnitudes of their elements. Raises `ModelError`."""
    return weight_magnitudes(load_whole(library, version, "pruned"))
