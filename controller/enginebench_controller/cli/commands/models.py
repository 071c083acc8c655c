"""`enginebench models …`: named model versions by digest."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.cli.console import confirmed, plain, print_json, print_table, remark
from enginebench_controller.cli.options import Json, Model, Trust
from enginebench_controller.cli.plan_options import given_shapes, plan_options
from enginebench_controller.cli.progress import deriving
from enginebench_controller.cli.tables import instant
from enginebench_controller.errors import InputError, UnknownFormatError
from enginebench_controller.files.benchmarks import model_document
from enginebench_controller.files.documents import head
from enginebench_controller.home import Home, default_home
from enginebench_controller.models.derive.convert import convert_to_ir
from enginebench_controller.models.derive.foreign import CONVERTERS, convert_to_foreign
from enginebench_controller.models.derive.prune import prune as prune_model
from enginebench_controller.models.derive.quantize import CalibrationFolder
from enginebench_controller.models.derive.quantize import quantize as quantize_model
from enginebench_controller.models.inputs.arrays import ImageOptions
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.models.zoo import PREFIX, ZOO
from enginebench_controller.plan.options import OPTIONS, fields_of
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import ModelVersion
from enginebench_controller.targets.session import engines_asked, list_engines
from enginebench_controller.typed_paths import typed_path

IR_FP16 = "openvino-ir-fp16"
SEEDED_SAMPLES = 8
_IMAGES = [name for name in OPTIONS if name.startswith("image-")]

group = typer.Typer(no_args_is_help=True, help="The model versions on this machine.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="models")


@group.command("add")
def add(
    file: Annotated[
        Path,
        typer.Argument(
            help="ONNX, OpenVINO IR (.xml), TorchScript or .pt2 file, or one that a plugin reads (.tflite, .param)."
        ),
    ],
    name: Annotated[str | None, typer.Option(help="Its name; the file's by default.")] = None,
    json: Json = False,
) -> None:
    """Copy a model, with the files it refers to, into the library."""
    home = default_home()
    library = home.library
    if str(file).startswith(PREFIX):  # which `run` and all others build where they name it
        if name:
            raise InputError(f"{file} keeps its name, by which every command finds it: leave --name out")
        _print(library.resolve(str(file)), as_json=json)
        return
    _print(_once_listed(home, partial(library.add, file, name=name)), as_json=json)


@group.command("list")
def list_(json: Json = False) -> None:
    """List the model versions, and the zoo that can be built without a download."""
    versions = default_home().library.versions()
    if json:
        print_json(head("models") | {"models": [model_document(v) for v in versions], "zoo": sorted(ZOO)})
        return
    columns = [("name", False), ("digest", False), ("format", False), ("MB", True), ("made from", False)]
    rows: list[list[object]] = [
        [v.name, v.digest[:12], v.format, f"{v.size_bytes / 1e6:.1f}", _origin(v), instant(v.created_at_unix_ns)]
        for v in versions
    ]
    print_table("Models", [*columns, ("added", False)], rows)
    remark("zoo, built when first used: " + ", ".join(f"zoo:{name}" for name in sorted(ZOO)))


@group.command("remove")
def remove(model: Model, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Remove one model version. What was measured with it stays."""
    library = default_home().library
    version = library.resolve(model)
    if yes or confirmed(f"remove {version.name} ({version.digest[:12]})?"):
        library.remove(version)
        remark(f"removed {version.digest[:12]}")


@group.command("quantize")
@plan_options(*_IMAGES, "shape", "batch-axis")
def quantize(
    model: Model,
    seed: Annotated[int, typer.Option(help="Seed of the calibration inputs.")] = 0,
    samples: Annotated[
        int | None, typer.Option(min=1, help="How many calibration inputs: 8, or all of --inputs (512 of more).")
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Calibrate on its .npy, .npz or image files, as for run.")
    ] = None,
    *,
    fields: dict[str, Any],
    json: Json = False,
) -> None:
    """Make an INT8 child version (QDQ, unsigned activations × signed weights)."""
    library = default_home().library
    image = fields.pop("image", None)
    if image and inputs is None:
        raise InputError("options for images need a folder of them: give --inputs FOLDER")
    made = deriving("quantizing")
    source, before = library.resolve(model), _digests(library)
    child = quantize_model(
        library,
        source,
        calibration_seed=seed,
        samples=samples or SEEDED_SAMPLES,
        shapes=given_shapes(fields),
        given=None if inputs is None else CalibrationFolder(typed_path(inputs), _checked(image), samples),
    )
    made(child)
    _print(child, as_json=json)
    if not _says_known(child, source, before) and not json:
        remark(str(child.derivation or ""))


@group.command("prune")
def prune(
    model: Model,
    sparsity: Annotated[float, typer.Option(help="Share of each layer's weights to zero, such as 0.9.")],
    json: Json = False,
) -> None:
    """Make a child version whose smallest weights are zero."""
    library = default_home().library
    made = deriving("pruning")
    source, before = library.resolve(model), _digests(library)
    child = prune_model(library, source, sparsity)
    made(child)
    _print(child, as_json=json)
    _says_known(child, source, before)


@group.command("convert")
def convert(
    model: Model,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="openvino-ir-fp16: OpenVINO IR with FP16 weights; ncnn; tflite, for LiteRT. The last two are written "
            "by converters that get environments of their own at first use (pnnx 30 MB, onnx2tf 2.6 GB).",
        ),
    ],
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT=AxBxC", help="Sizes that are open; inputs of a TorchScript or .pt2 file, in its order."
        ),
    ] = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Make a child version in another format. OpenVINO's takes OpenVINO, installed beside this command."""
    if to not in (IR_FP16, *CONVERTERS):
        raise InputError(f"models cannot be converted to {to!r}; there are {', '.join((IR_FP16, *CONVERTERS))}")
    home = default_home()
    library = home.library
    given = given_shapes(fields_of({"shape": shape}))
    made = deriving("converting")
    version = library.resolve(model)
    if to == IR_FP16:
        child = convert_to_ir(library, version, given, trusted=trust)
    else:
        child = _once_listed(home, partial(convert_to_foreign, library, version, to, home.converters, remark, given))
    made(child)
    _print(child, as_json=json)


def _once_listed(home: Home, make: Callable[[], ModelVersion]) -> ModelVersion:
    """What `make` makes; where no engine is known to read that format, once more when those of this machine are."""
    try:
        return make()
    except UnknownFormatError:
        asyncio.run(list_engines(home, ()))
        with engines_asked():
            return make()


def _digests(library: ModelLibrary) -> set[str]:
    return {one.digest for one in library.versions() if library.is_whole(one)}


def _says_known(child: ModelVersion, source: ModelVersion, before: set[str]) -> bool:
    """Say where nothing was made: what was asked for was there, or came out as the bytes of something else."""
    if child.digest not in before:
        return False
    if child.parent_digest == source.digest:
        remark(f"{child.name} was there already: {child.derivation}")
    else:
        remark(f"these bytes are {child.name} already" + (f" ({_origin(child)})" if child.derivation else ""))
    return True


def _checked(image: dict[str, Any] | None) -> ImageOptions:
    """The options as a plan takes them. Raises `InputError` with one line a mistake."""
    return make_plan({"models": ("any",), "image": image or {}}, "models quantize").image


def _print(version: ModelVersion, *, as_json: bool) -> None:
    if as_json:
        print_json(model_document(version))
    else:
        typer.echo(plain(f"{version.name} {version.digest}"))


def _origin(version: ModelVersion) -> str:
    return f"{version.derivation} of {version.parent_digest[:12]}" if version.parent_digest else ""
