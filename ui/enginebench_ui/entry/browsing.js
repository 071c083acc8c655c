// What a browser makes of pages that Streamlit draws: the way back.
{
  // To switch pages, Streamlit writes the query of the next page behind the path of this one, and the next page's
  // address right after it. The first was never a page: the way back leads past it, to what was filled in here.
  const RIGHT_AFTER_MS = 1000;
  const push = history.pushState.bind(history);
  let here = -Infinity;

  history.pushState = (state, title, url) => {
    const to = new URL(url, location.href);
    const stays = to.pathname === location.pathname;
    const switches = !stays && to.search === location.search && performance.now() - here < RIGHT_AFTER_MS;
    if (switches) history.replaceState(state, title, url);
    else push(state, title, url);
    here = stays ? performance.now() : -Infinity;
  };
}
