// Turns slides by keys, buttons and address, and makes letters smaller where a slide would not fit.
const slides = [...document.querySelectorAll(".slide")];
const [back, next, place] = ["back", "next", "place"].map((name) => document.getElementById(name));

const fit = (slide) => {
  const inner = slide.querySelector(".fit");
  for (let size = 100; size >= 70; size -= 5) {
    inner.style.fontSize = `${size}%`;
    if (slide.scrollHeight <= slide.clientHeight + 1) break;
  }
};

const show = (number) => {
  const now = Math.min(Math.max(number, 1), slides.length);
  slides.forEach((slide, i) => slide.classList.toggle("now", i === now - 1));
  fit(slides[now - 1]);
  place.textContent = `${now} / ${slides.length}`;
  back.disabled = now === 1;
  next.disabled = now === slides.length;
  if (location.hash !== `#${now}`) history.replaceState(null, "", `#${now}`);
};

const number = () => parseInt(location.hash.slice(1), 10) || 1;
const steps = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 };
document.addEventListener("keydown", (event) => {
  if (event.target.closest("button, a") && event.key === " ") return;
  if (event.key in steps) show(number() + steps[event.key]);
  else if (event.key === "Home") show(1);
  else if (event.key === "End") show(slides.length);
  else return;
  event.preventDefault();
});
back.addEventListener("click", () => show(number() - 1));
next.addEventListener("click", () => show(number() + 1));
addEventListener("hashchange", () => show(number()));
addEventListener("resize", () => show(number()));
addEventListener("load", () => show(number()));
show(number());
