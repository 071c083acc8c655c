// The keys that no button of Streamlit can have. Nothing happens where a person types.
{
  const SEARCH = '[data-testid=stMain] input[aria-label=Search]';
  const BENCHMARKS = '[data-testid=stSidebarNav] a[href$="/benchmarks"]';

  function search(tries) {
    const field = document.querySelector(SEARCH);
    if (field) field.focus();
    else if (tries) setTimeout(search, 100, tries - 1);
  }

  const ACTS = {
    '/': () => {
      if (!document.querySelector(SEARCH)) document.querySelector(BENCHMARKS)?.click();
      search(50);
    },
    '?': () => document.querySelector('.st-key-keys summary')?.click(),
    'b': () => history.back(),
  };

  document.addEventListener('keydown', event => {
    const isTyping = event.target.closest?.('input, textarea, select, [contenteditable=true]');
    const act = ACTS[event.key];
    if (!act || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
}
