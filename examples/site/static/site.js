// The page in a frame takes the scheme that is chosen here by hand.
const frames = () => {
  const chosen = document.body.dataset.theme;
  for (const frame of document.querySelectorAll("iframe")) {
    frame.style.colorScheme = chosen === "dark" || chosen === "light" ? chosen : "light dark";
  }
};
new MutationObserver(frames).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
frames();
// What is wider than its page scrolls; so that the keyboard can scroll it, it takes the focus.
for (const wide of document.querySelectorAll(".table-wrapper, .equation-line .math, .highlight pre")) {
  if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
}
// The captions of furo's menu are headings without a level.
for (const caption of document.querySelectorAll('.caption[role="heading"]')) caption.setAttribute("aria-level", 2);
// The page of questions: the rows with all words of the field.
document.querySelector("input.filter")?.addEventListener("input", event => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const row of document.querySelectorAll("tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
  }
});
