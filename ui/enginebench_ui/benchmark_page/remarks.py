"""What to know of many measurements, in whole sentences: cells of a table cut them off."""

from collections.abc import Sequence

import streamlit as st

from enginebench_ui.views.benchmark.figures import Remark
from enginebench_ui.views.text import count_of, inert


def show_remarks(remarks: Sequence[Remark], on_what: str) -> None:
    """Show the sentences behind an expander; nothing without any."""
    if not remarks:
        return
    label = f"{count_of(len(remarks), 'remark')} {on_what}"
    # Drawn once it is opened: hundreds of sentences would hold up every answer of the page.
    expander = st.expander(label, icon=":material/flag:", key=f"remarks {on_what}", on_change="rerun")
    if expander.open:
        expander.markdown("\n".join(f"- **{inert(one.about)}**: {inert(one.sentence)}" for one in remarks))
