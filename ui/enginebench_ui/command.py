"""`enginebench ui`: the pages, as a command that they add to the command line themselves."""

import importlib.util
from typing import Annotated

import typer

from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home

DEFAULT_PORT = 8501


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ui")(ui)


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = DEFAULT_PORT,
    browser: Annotated[bool, typer.Option("--browser", help="Open a browser window.")] = False,
) -> None:
    """Serve the pages on this machine, until Ctrl-C."""
    if importlib.util.find_spec("streamlit") is None:
        raise InputError('the pages are not installed; run `pip install "enginebench[ui]"`')
    from enginebench_ui.launch import serve  # noqa: PLC0415  # it loads much that the help does not need

    raise typer.Exit(serve(default_home().path, port, open_browser=browser))
