"""What measures a model beside its INT8 version, as a profile of it was configured."""

from enginebench_controller.models.library import INT8_PREFIX
from enginebench_controller.plan.configurations import options_of, said_of
from enginebench_controller.plan.plan import Plan, make_plan
from enginebench_controller.records import LOCAL_TARGET, Load, Profile
from enginebench_controller.records.target import in_environment

_INPUTS = ("shapes", "batch_axis", "seed", "inputs", "input_folder", "input_values", "image")
"""What the profile's own plan says of the model's inputs holds for both versions."""


def beside_int8(profile: Profile, model: str, name: str | None = None) -> Plan:
    """The plan of a benchmark of both, which take turns on the profile's engine, target, device, batch and cores.

    `model` is what the profile's model is called, `name` what the benchmark is to be. Raises `InputError` where the
    profile was configured as no plan of this version can be.
    """
    asked, engine = profile.configuration, profile.engine
    said = {field: value for field in _INPUTS if (value := profile.plan.get(field))}
    fields = {
        "name": name,
        "models": [model, f"{INT8_PREFIX}{model}"],
        "engines": [in_environment(engine.name, engine.environment)],
        "targets": [] if profile.target == LOCAL_TARGET else [profile.target],
        "devices": [asked.device],
        "batch": [asked.batch],
        "cores": [asked.place],
        "streams": [asked.streams],
        "precision": [asked.precision],
        "hint": [asked.hint],
        "load": [asked.load],
        "requests": [asked.requests] if asked.load is Load.ASYNC else [],
        "options": options_of({engine.name}, profile.plan.get("options", {})),
    }
    return make_plan(said | said_of(asked.inputs, said) | fields, "the plan of this profile")
