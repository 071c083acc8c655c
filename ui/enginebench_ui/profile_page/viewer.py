"""The link that opens a node in Netron, or says how to have it."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_ui import netron, reading
from enginebench_ui.views.text import inert


@dataclass(frozen=True)
class Viewed:
    """The model that nodes belong to, by its digest."""

    digest: str


def show_viewer(viewed: Viewed, nodes: Sequence[str]) -> None:
    """Draw the button that starts Netron over the model's file, then the link to it."""
    if netron.program() is None:
        st.caption("To look at this node in its graph, install Netron beside enginebench, then reload the page:")
        st.code(netron.INSTALL, language="shell")
        return
    library = reading.library()
    try:
        model = library.main_path(library.resolve(viewed.digest))
        if st.button("Open in Netron", icon=":material/account_tree:", key="start netron"):
            netron.start(model)
    except EnginebenchError as error:
        st.caption(f"Netron cannot show it: {inert(str(error))}")
        return
    if (url := netron.running(model)) is not None:
        st.link_button("Netron is running: show the graph", url, icon=":material/open_in_new:")
        st.caption(
            "Find the node there with Ctrl+F. It runs on the machine of these pages and listens to that machine only; "
            "its page is its makers' own and may report its use to them."
        )
        for name in nodes[:3]:
            st.code(name, language=None)
        if st.button("Stop Netron", key="stop netron"):
            netron.stop(model)
            st.rerun(scope="fragment")
