// The language switch keeps the place: the last anchor above the middle of the
// window that both languages have (statements, exercises, figures, headings).
// Figures that compute have scripts of their own, which only their pages load.
'use strict';

function place() {
  let last = '';
  for (const e of document.querySelectorAll('article [id]')) {
    const shared = /^(s\d+|e\d+|fig-\w+|[\w-]+-\d+)$/.test(e.id);
    if (shared && e.getBoundingClientRect().top < window.innerHeight / 2) last = e.id;
  }
  return last;
}

document.addEventListener('DOMContentLoaded', () => {
  for (const link of document.querySelectorAll('.language a'))
    link.addEventListener('click', () => {
      link.hash = window.scrollY > 0 ? place() : '';
    });
  if (!document.querySelector('[data-figure]')) return;
  const style = document.createElement('link'), figures = document.createElement('script');
  style.rel = 'stylesheet';
  style.href = '../app/figures.css';
  figures.src = '../app/figures.js';
  document.head.append(style, figures);
});
