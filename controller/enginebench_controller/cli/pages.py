"""`enginebench ui`: the pages."""

import importlib.util
from typing import Annotated

import typer

from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home

DEFAULT_PORT = 8501


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("ui")(ui)


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = DEFAULT_PORT,
    browser: Annotated[bool, typer.Option("--browser", help="Open a browser window.")] = False,
) -> None:
    """Serve the pages on this machine, until Ctrl-C."""
    if importlib.util.find_spec("streamlit") is None:
        raise InputError('the pages are not installed; run `pip install "enginebench[ui]"`')
    # Imported by name: the controller does not depend on the pages, it only starts them.
    launch = importlib.import_module("enginebench_ui.launch")
    raise typer.Exit(launch.serve(default_home().path, port, open_browser=browser))
