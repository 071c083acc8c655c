"""Takes over the pictures that docs/ shows, made small: `python tests/browser/pictures.py FROM TO`."""

import sys
from pathlib import Path

from PIL import Image

WIDE = "-1440-light"
ALSO = {"benchmark-cores": "-1440-dark", "compare-kernels": "-1440-dark", "profile-layers": "-390-dark"}
COLOURS = 256
"""Enough for charts and texts, at a third of the bytes."""


def main(source: Path, target: Path) -> None:
    """Keep every view wide and light, and a few as others see them."""
    target.mkdir(exist_ok=True)
    for path in sorted(source.glob(f"*{WIDE}.png")):
        name = path.stem.removesuffix(WIDE)
        _keep(path, target / f"{name}.png")
        if name in ALSO:
            _keep(source / f"{name}{ALSO[name]}.png", target / f"{name}{ALSO[name]}.png")


def _keep(path: Path, target: Path) -> None:
    with Image.open(path) as image:
        # By coverage: the colour of an engine is a few dots on a page, and must not become another's.
        covering = image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        covering.save(target, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
