"""The zoo: real architectures with seeded weights, built on the spot where nothing can be downloaded.

They answer for speed, not for accuracy: the weights are random, scaled so that the outputs depend on the inputs.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import onnx

from enginebench_controller.errors import ModelError
from enginebench_controller.models.zoo.bert import bert_tiny
from enginebench_controller.models.zoo.images import mobilenet_v2, resnet50, squeezenet

PREFIX = "zoo:"


@dataclass(frozen=True)
class ZooModel:
    """One architecture and the sha256 that its file must have, on every machine."""

    name: str
    digest: str
    build: Callable[[], onnx.ModelProto]


ZOO = {
    model.name: model
    for model in (
        ZooModel("resnet50", "48e0dc9c748a913e07156a70daeb61aade8550a13b5fa46e2a2f2018d36ada91", resnet50),
        ZooModel("squeezenet", "157ae08f0cecd0630e0becd112c3e560f424c372040b92e1ae51c8039d610865", squeezenet),
        ZooModel("mobilenet_v2", "4f76860c971891095f2b9974bda355dd6349d289d7228c5c8dd6e59b586fdd30", mobilenet_v2),
        ZooModel("bert-tiny", "0bebac6939397afe847a2a078d2b9110fcc70bd0ca907e3fb09f21192b884c58", bert_tiny),
    )
}
"""The models by name, without the prefix."""


def zoo_model(name: str) -> ZooModel:
    """The model of this name, with or without "zoo:". Raises `ModelError` with the nearest name."""
    bare = name.removeprefix(PREFIX)
    if bare in ZOO:
        return ZOO[bare]
    near = get_close_matches(bare, ZOO, n=1, cutoff=0.5)
    hint = f"did you mean {PREFIX}{near[0]}?" if near else "it has " + ", ".join(PREFIX + name for name in ZOO)
    raise ModelError(f"the zoo has no model {bare!r}: {hint}")


def build_bytes(model: ZooModel) -> bytes:
    """The model's ONNX file, the same bytes every time. Raises `ModelError` should they ever differ."""
    content: bytes = model.build().SerializeToString(deterministic=True)
    if hashlib.sha256(content).hexdigest() != model.digest:
        raise ModelError(
            f"{PREFIX}{model.name} came out with other bytes than it has everywhere else, so its numbers could not "
            "be compared; please report this with your versions of NumPy, onnx and protobuf"
        )
    return content
