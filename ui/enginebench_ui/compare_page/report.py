"""What else a comparison of layers knows: settings that differ, advice, and the whole of it as one HTML file."""

import streamlit as st

from enginebench_controller.comparing.reports import profile_html
from enginebench_ui.compare_page.reading import ComparedLayers
from enginebench_ui.showing import table
from enginebench_ui.views.compare_settings import advice_lines, setting_rows
from enginebench_ui.views.text import count_of, inert


def show_more(found: ComparedLayers) -> None:
    """Draw the settings that differ, the advice and the download, each out of the way until it is wanted."""
    comparison = found.comparison
    if rows := setting_rows(comparison.settings):
        with st.expander(f"{count_of(len(rows), 'setting')} not the same on both sides"):
            table(rows, "settings")
    if lines := advice_lines(comparison):
        with st.expander(f"Advice ({len(lines)})"):
            for line in lines:
                st.markdown(f"- {inert(line)}")
    st.fragment(_show_download)(found)


def _show_download(found: ComparedLayers) -> None:
    pair = found.pair
    st.download_button(
        "Download report",
        data=lambda: profile_html(found.comparison),
        file_name=f"enginebench-{pair.first.id[:8]}-{pair.second.id[:8]}.html",
        mime="text/html",
        icon=":material/download:",
        on_click="ignore",
        help="Everything that this comparison of layers knows, as one HTML file that needs no net.",
    )
