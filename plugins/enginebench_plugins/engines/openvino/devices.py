"""OpenVINO, imported or refused with a remedy, and its devices: as its core names them, and AUTO, which chooses."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import imported

SHARED_MEMORY = "shared_memory"
"""The one option that is not a property of a device: how requests hand over their tensors."""
PREPARED = ["enginebench", "prepared"]
"""Where a model read says what was done to it: OpenVINO carries such notes along."""

AUTO = "AUTO"
CAPABILITIES = {"FP32": spec.Precision.F32, "BF16": spec.Precision.BF16, "FP16": spec.Precision.F16}
"""The words of OPTIMIZATION_CAPABILITIES that name a floating precision."""
FACTS = ("OPTIMIZATION_CAPABILITIES", "DEVICE_ARCHITECTURE", "DEVICE_TYPE")
"""Properties that are shown with the device in OpenVINO's own words, where it has them."""


def find_devices(core: Any) -> Sequence[spec.Device]:
    """Every device the core found, then AUTO where this build has it. AUTO may use, and so occupies, all of them.

    One that cannot be asked is left out with a warning that names it: the core also lists accelerators whose driver is
    there by half.
    """
    devices = [device for name in core.available_devices if (device := _found(core, name, (_resource(name),)))]
    resources = tuple(one for device in devices for one in device.resources)
    auto = _found(core, AUTO, resources) if has_auto(core) else None
    return [*devices, auto] if auto else devices


def has_auto(core: Any) -> bool:
    """Whether this build has the AUTO plugin."""
    try:
        core.get_property(AUTO, "FULL_DEVICE_NAME")
    except RuntimeError:
        return False
    return True


def supported_properties(core: Any, device: str) -> dict[str, str]:
    """The device's properties: name → "RW" for one that may be set, "RO" for one that may only be read."""
    return dict(core.get_property(device, "SUPPORTED_PROPERTIES"))


def _found(core: Any, name: str, resources: tuple[str, ...]) -> spec.Device | None:
    try:
        return _device(core, name, resources)
    except RuntimeError as error:
        # The last line is the reason, those before it tell where in OpenVINO it came from.
        line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        warnings.warn(f"the device {name} is missing, as it cannot be asked: {line}", RuntimeWarning, stacklevel=1)
        return None


def _device(core: Any, name: str, resources: tuple[str, ...]) -> spec.Device:
    known = supported_properties(core, name)
    facts = {fact: core.get_property(name, fact) for fact in FACTS if fact in known}
    return spec.Device(
        name=name,
        full_name=str(core.get_property(name, "FULL_DEVICE_NAME")),
        precisions=_precisions(facts.get("OPTIMIZATION_CAPABILITIES", ())),
        resources=resources,
        properties={fact: _text(value) for fact, value in facts.items()},
    )


def _precisions(capabilities: Iterable[str]) -> tuple[spec.Precision, ...]:
    found = set(capabilities)
    return tuple(precision for word, precision in CAPABILITIES.items() if word in found)


def _resource(name: str) -> str:
    """ "CPU" → "cpu", "GPU.1" → "gpu:1"; the only GPU is called "GPU" and is the first."""
    kind, _, number = name.lower().partition(".")
    if kind == "gpu":
        return f"gpu:{number or 0}"
    return f"{kind}:{number}" if number else kind


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value).rpartition(".")[2]


def import_openvino() -> Any:
    """The `openvino` module. Raises `EngineUnavailableError` with the remedy."""
    return imported(
        "openvino",
        "OpenVINO",
        'pip install "enginebench[openvino]", or enginebench-agent environment add NAME --engine openvino',
        "reinstall it in this environment",
    )
