// The page in a frame takes the scheme that is chosen here by hand.
const frames = () => {
  const chosen = document.body.dataset.theme;
  for (const frame of document.querySelectorAll("iframe")) {
    frame.style.colorScheme = chosen === "dark" || chosen === "light" ? chosen : "light dark";
  }
};
new MutationObserver(frames).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
frames();
// A table wider than its page scrolls; so that the keyboard can scroll it, it takes the focus.
for (const table of document.querySelectorAll(".table-wrapper, .equation-line .math")) {
  if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
}
