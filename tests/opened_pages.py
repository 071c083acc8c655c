"""Pages opened without a browser, as Streamlit's own test harness runs them."""

from functools import cache
from pathlib import Path

import streamlit.config
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

import enginebench_ui.entry

ENTRY = Path(enginebench_ui.entry.__file__).with_name("app.py")
PATIENCE_S = 60
streamlit.config.set_option("runner.magicEnabled", False)  # as they are served; each run would rewrite their code anew
# A server looks once for packages that bring components; the harness, which begins one a run, would each time.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)


def opened(page=None, /, **query):
    """The app at a page, as a browser that follows a link to it sees it; without a page, where it begins."""
    app = AppTest.from_file(ENTRY, default_timeout=PATIENCE_S)
    if page is not None:
        app._registered_pages = _registered_pages()
        app.switch_page(str(page))
    app.query_params.update(query)
    app.run()
    assert not app.exception
    return app


@cache
def _registered_pages():
    """The pages as a first run, which draws Home, has made them known to Streamlit's harness: once for all apps.

    Without them it knows a page by the name of its file, and all of ours have the same.
    """
    app = AppTest.from_file(ENTRY, default_timeout=PATIENCE_S).run()
    pages = getattr(app, "_registered_pages", None)
    assert pages, "Streamlit's harness keeps the pages elsewhere by now: see how its `switch_page` finds them"
    return pages


def texts(elements):
    """What elements say, without what keeps their names from being read as markup."""
    return [element.value.replace("\u2060", "").replace("\\", "") for element in elements]


def button(app, label):
    """The button with this label."""
    return next(one for one in app.button if one.label == label)
