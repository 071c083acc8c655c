"""What Streamlit serves: the pages, and what becomes of an error that nobody foresaw."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from streamlit.starlette import App

from enginebench_ui.entry.base_address import BaseAddress
from enginebench_ui.views.text import inert


def tell(error: Exception) -> bool:
    """Say in a banner that the page met an error; the server prints where it came from. Returns that it is told."""
    st.error(
        f"This page met an error that nobody foresaw: {inert(f'{type(error).__name__}: {error}'[:500])}. What was "
        "measured is safe. Reload the page; if it comes again, please report it with what the server printed.",
        icon=":material/bug_report:",
    )
    return True


app = App(Path(__file__).with_name("app.py"), middleware=[Middleware(BaseAddress)], on_script_error=tell)
