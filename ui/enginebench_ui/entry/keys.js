// The keys that no button of Streamlit can have. Nothing happens where a person types, or has switched keys off, as
// who speaks to a computer does: https://www.w3.org/WAI/WCAG22/Understanding/character-key-shortcuts.html
{
  const SEARCH = '[data-testid=stMain] input[aria-label=Search]';
  const BENCHMARKS = '[data-testid=stSidebarNav] a[href$="/benchmarks"]';

  const OFF = 'enginebench-keys-off';
  const SWITCH = '.st-key-keys input';
  const OF_BUTTONS = ['n', 'p'];

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

  // Before Streamlit hears of it, whose buttons have keys that cannot be switched off.
  window.addEventListener('keydown', event => {
    const isTyping = event.target.closest?.('input:not([type=checkbox]), textarea, select, [contenteditable=true]');
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = ACTS[event.key];
    if (localStorage.getItem(OFF)) {
      if (act || OF_BUTTONS.includes(event.key.toLowerCase())) event.stopImmediatePropagation();
    } else if (act) {
      event.preventDefault();
      act();
    }
  }, true);

  // The list is drawn anew with each page, and shows how the switch stands when it is opened.
  document.addEventListener('toggle', event => {
    const found = event.target.querySelector?.(SWITCH);
    if (found) found.checked = !localStorage.getItem(OFF);
  }, true);

  document.addEventListener('change', event => {
    if (!event.target.matches?.(SWITCH)) return;
    if (event.target.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, 'yes');
  });
}
