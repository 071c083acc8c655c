"""Child versions of any ONNX model, linked to their parent: quantized to INT8, or pruned by magnitude."""

from enginebench_controller.errors import ModelError
from enginebench_controller.model.binding import Shapes, bind
from enginebench_controller.model.derivation import add_child, load_whole
from enginebench_controller.model.description import describe_onnx
from enginebench_controller.model.library import ModelLibrary
from enginebench_controller.model.pruning import prune_weights
from enginebench_controller.model.quantization import QuantizationError, quantized
from enginebench_controller.records import ModelVersion


def quantize(
    library: ModelLibrary,
    version: ModelVersion,
    calibration_seed: int = 0,
    samples: int = 8,
    shapes: Shapes | None = None,
) -> ModelVersion:
    """The INT8 child of `version`, calibrated on `samples` seeded inputs; made once and then found again.

    `shapes` closes open dimensions of the inputs, as for a run. Raises `ModelError` with the reason where the model
    cannot be quantized, `StoreError` when the library cannot be written.
    """
    derivation = f"int8 QDQ, u8 × s8 (7 bits), min-max over {samples} inputs of seed {calibration_seed}"
    if known := library.derived(version, derivation):
        return known
    model = load_whole(library, version, "quantized")
    bound = bind(describe_onnx(model, library.main_path(version)), 1, shapes)
    try:
        with library.scratch() as folder:
            child = quantized(model, bound.inputs, calibration_seed, samples, folder)
    except QuantizationError as error:
        raise ModelError(f"{version.name} cannot be quantized: {error}") from error
    return add_child(library, version, child, "int8", derivation)


def prune(library: ModelLibrary, version: ModelVersion, sparsity: float) -> ModelVersion:
    """The child of `version` whose smallest weights are zero, the share `sparsity` of every layer.

    Raises `ModelError` for a share outside (0, 1) or a model without weights to prune, `StoreError` when the library
    cannot be written.
    """
    if not 0 < sparsity < 1:
        raise ModelError(f"A sparsity of {sparsity} is not between 0 and 1; 0.9 zeroes nine weights of ten")
    derivation = f"magnitude pruning, sparsity={sparsity:g} in every layer"
    if known := library.derived(version, derivation):
        return known
    model = load_whole(library, version, "pruned")
    if prune_weights(model, sparsity) == 0:
        raise ModelError(f"{version.name} cannot be pruned: no Conv, Gemm or MatMul of it has constant weights")
    return add_child(library, version, model, f"sparse{sparsity * 100:g}", derivation)
