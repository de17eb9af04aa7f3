// The language switch keeps the place: the last anchor above the middle of the
// window that both languages have (statements, exercises, figures, headings).
"use strict";

function place() {
  let last = "";
  for (const e of document.querySelectorAll("article [id]")) {
    const shared = /^(s\d+|e\d+|fig-\w+|[\w-]+-\d+)$/.test(e.id);
    if (shared && e.getBoundingClientRect().top < window.innerHeight / 2) last = e.id;
  }
  return last;
}

document.addEventListener("DOMContentLoaded", () => {
  for (const link of document.querySelectorAll(".language a"))
    link.addEventListener("click", () => {
      const id = window.scrollY > 0 ? place() : "";
      link.hash = id;
    });
});
