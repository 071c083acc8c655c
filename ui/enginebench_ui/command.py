"""`enginebench ui` and `open`: the pages, as commands that they add to the command line themselves."""

import importlib.util
import os
import shlex
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.options import Stores
from enginebench_controller.errors import InputError
from enginebench_controller.home import STORE_VARIABLE, home_to_read

if TYPE_CHECKING:
    from enginebench_controller.store.store import Store

DEFAULT_PORT = 8501

Port = Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("ui")(ui)
    app.command("open")(open_page)


def ui(
    port: Port = DEFAULT_PORT,
    browser: Annotated[bool, typer.Option("--browser", help="Open a browser window.")] = False,
    stores: Stores = None,
) -> None:
    """Serve the pages on this machine, until Ctrl-C."""
    _require_streamlit()
    from enginebench_ui.launch import serve  # noqa: PLC0415  # it loads much that the help does not need

    home = home_to_read(stores or ())
    if home.reads:
        home.store.generation()  # says what is wrong with a lake before a page would
        os.environ[STORE_VARIABLE] = shlex.join(home.reads)
    raise typer.Exit(serve(home.path, port, open_browser=browser))


def open_page(
    named: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Id, start of an id, or name of a benchmark, profile or search; or id of a measurement.",
            autocompletion=completion.results,
        ),
    ],
    port: Port = DEFAULT_PORT,
) -> None:
    """Open the page of a benchmark, measurement, profile or search. Serves the pages where nothing does."""
    _require_streamlit()
    home = home_to_read()
    page = page_of(home.store, named)
    from enginebench_ui.launch import show  # noqa: PLC0415  # as above

    raise typer.Exit(show(home.path, port, page, home.reads))


def page_of(store: "Store", named: str) -> str:
    """The address, below that of the pages, of what is named. Raises `InputError` where that is nothing, or several."""
    from enginebench_controller.verdicts.subjects import find_subjects  # noqa: PLC0415  # as above

    searches = store.searches_meant(named)
    if searches and (named == searches[0].id or not store.ids_by_kind(named)):
        search = store.search(named)
        return f"{search.kind}?{urlencode({'id': search.id})}"
    found = find_subjects(store, [named])
    if found.profiles:
        return f"profile?{urlencode({'id': store.profile(named).id})}"
    identity = found.benchmarks[0].id if found.benchmarks else found.measurements[0].benchmark_id
    return f"benchmark?{urlencode({'id': identity})}"


def _require_streamlit() -> None:
    if importlib.util.find_spec("streamlit") is None:
        raise InputError('the pages are not installed; run `pip install "enginebench[ui]"`')
