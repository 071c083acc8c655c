"""The zoo: real architectures with seeded weights, built on the spot where nothing can be downloaded.

They answer for speed, not for accuracy: the weights are random, scaled so that the outputs depend on the inputs.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import onnx

from enginebench_controller.errors import ModelError
from enginebench_controller.model.zoo_bert import bert_tiny
from enginebench_controller.model.zoo_mobilenet import mobilenet_v2
from enginebench_controller.model.zoo_resnet import resnet50
from enginebench_controller.model.zoo_squeezenet import squeezenet

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
        ZooModel("resnet50", "f30c198f37b147f628a8885779b2f2c6d75466f8fe25c18d7d22005385f7fa09", resnet50),
        ZooModel("squeezenet", "6113b03c03afe5d19e85cc0dbbf3ba809cc9fb376c47c935528abbbb114bfc79", squeezenet),
        ZooModel("mobilenet_v2", "44dca3754fec12153eff3ac02b1fadfd50f8ad835ebc682a13ca5b53e0b7d8c6", mobilenet_v2),
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
    raise ModelError(f"The zoo has no model {bare!r}: {hint}")


def build_bytes(model: ZooModel) -> bytes:
    """The model's ONNX file, the same bytes every time. Raises `ModelError` should they ever differ."""
    content: bytes = model.build().SerializeToString(deterministic=True)
    if hashlib.sha256(content).hexdigest() != model.digest:
        raise ModelError(
            f"{PREFIX}{model.name} came out with other bytes than it has everywhere else, so its numbers could not "
            "be compared; please report this with your versions of NumPy, onnx and protobuf"
        )
    return content
