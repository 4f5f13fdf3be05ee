// Makes accessible what the theme's script adds to a page: tables wider than a phone scroll by
// keyboard, too, and the buttons of code are no landmarks.
function mend() {
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    part.tabIndex = 0;
  }
  for (const part of document.querySelectorAll("nav.md-code__nav:not([role])")) {
    part.setAttribute("role", "presentation");
  }
}
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
mend();
