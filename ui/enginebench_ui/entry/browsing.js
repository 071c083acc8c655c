// What a browser makes of pages that Streamlit draws: the way back, and what is copied from them.
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

  // An invisible word joiner keeps names from being read as links and emoji (inert in shared/text.py). Where a copy is
  // pasted, a search or a command would look for it.
  const JOINERS = /\u2060/g;

  document.addEventListener('copy', event => {
    const selection = getSelection();
    const text = String(selection).replace(JOINERS, '');
    if (text === String(selection)) return;
    const copied = document.createElement('div');
    for (let place = 0; place < selection.rangeCount; place++) {
      copied.append(selection.getRangeAt(place).cloneContents());
    }
    event.clipboardData.setData('text/plain', text);
    event.clipboardData.setData('text/html', copied.innerHTML.replace(JOINERS, ''));
    event.preventDefault();
  });
}
