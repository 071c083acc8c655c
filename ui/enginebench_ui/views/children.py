"""Making a version of a model from another: what a person filled in, as the command that a job carries out."""

from dataclasses import dataclass
from pathlib import Path

RESIZES = ("stretch", "crop")
LAYOUTS = ("nchw", "nhwc")


@dataclass(frozen=True)
class Quantization:
    """What INT8 ranges are to be calibrated on: seeded random inputs, or what lies in `folder`.

    `samples` is None for all files of the folder. The image options are empty where the tool is to choose; `shapes` are
    those of open inputs, as NAME=AxBxC, parted by spaces or commas.
    """

    seed: int = 0
    samples: int | None = 8
    folder: str = ""
    resize: str = ""
    layout: str = ""
    scale: str = ""
    mean: str = ""
    std: str = ""
    shapes: str = ""


def quantize_arguments(digest: str, wish: Quantization) -> tuple[str, ...]:
    """Return the words behind `enginebench` that make the INT8 child of a version."""
    # Each value in one word with its option, so that none can pass for an option itself.
    shapes = (f"--shape={one}" for one in wish.shapes.replace(",", " ").split())
    samples = () if wish.samples is None else (f"--samples={wish.samples}",)
    return ("models", "quantize", digest, *samples, *_source(wish), *shapes)


def prune_arguments(digest: str, sparsity_percent: float) -> tuple[str, ...]:
    """Return the words behind `enginebench` that make a child with this share of zeros in every layer."""
    return ("models", "prune", digest, f"--sparsity={sparsity_percent / 100:g}")


def missing_folder(wish: Quantization) -> str:
    """Say that there is no such folder on the machine that serves the pages; empty where there is."""
    if not wish.folder or Path(wish.folder).expanduser().is_dir():
        return ""
    return f"There is no folder {wish.folder} on the machine that serves these pages."


def _source(wish: Quantization) -> tuple[str, ...]:
    if not wish.folder:
        return (f"--seed={wish.seed}",)
    folder = Path(wish.folder).expanduser().absolute()
    options = {"resize": wish.resize, "layout": wish.layout, "scale": wish.scale, "mean": wish.mean, "std": wish.std}
    return (f"--inputs={folder}", *(f"--image-{name}={value}" for name, value in options.items() if value))
