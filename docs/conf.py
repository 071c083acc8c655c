"""How Sphinx makes the site of these pages: `make site`."""

from pathlib import Path

project = "enginebench"
copyright = "the enginebench authors"  # noqa: A001  # the name that Sphinx asks for
release = (
    (Path(__file__).parents[1] / "proto" / "enginebench_proto" / "__init__.py")
    .read_text(encoding="utf-8")
    .split('"')[-2]
)
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"enginebench {release}"
html_favicon = "../ui/enginebench_ui/entry/icon.svg"
myst_heading_anchors = 4
exclude_patterns = ["reference/schemas"]
# Links to files of the repository that are no pages stay as they are written.
suppress_warnings = ["myst.header", "myst.xref_missing", "misc.highlighting_failure"]
