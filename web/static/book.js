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

function load(src) {
  return new Promise((onload, onerror) => {
    document.head.append(Object.assign(document.createElement('script'), {src, onload, onerror}));
  });
}

// Where `text` has one of the words, as a word if it can be: [from, to].
function find(text, words) {
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const patterns = [...escaped.map((word) => `\\b${word}\\b`), ...escaped];
  for (const pattern of patterns) {
    const found = new RegExp(pattern, 'i').exec(text);
    if (found) return [found.index, found.index + found[0].length];
  }
  return null;
}

// Gives each result of a search an excerpt: the text around the query, or around its first word
// that the page has. Sphinx's own excerpts need requests, which the page's policy forbids.
function addExcerpts(results, texts) {
  const query = new URLSearchParams(location.search).get('q')?.trim() ?? '';
  const wanted = [query, ...query.split(/\s+/)].filter(Boolean);
  for (const item of results.querySelectorAll('li:not([data-excerpt])')) {
    const page = item.querySelector('a')?.pathname.match(/([^/]+)\.html$/)?.[1];
    const text = texts[page] ?? '', found = find(text, wanted);
    item.dataset.excerpt = '';
    if (!found) continue;
    const [at, end] = found, from = Math.max(0, at - 90);
    const mark = document.createElement('mark'), shown = document.createElement('span');
    mark.textContent = text.slice(at, end);
    shown.className = 'excerpt';
    shown.append(from ? '… ' : '', text.slice(from, at), mark, text.slice(end, end + 120), ' …');
    item.append(shown);
  }
}

async function prepareSearch(results) {
  await load('../app/figures.js');  // unpack()
  await load('_static/texts.js');
  const texts = JSON.parse(new TextDecoder().decode(await unpack(window.normaFiles.texts)));
  new MutationObserver(() => addExcerpts(results, texts)).observe(results, {childList: true, subtree: true});
  addExcerpts(results, texts);
}

document.addEventListener('DOMContentLoaded', () => {
  const results = document.getElementById('search-results');
  if (results) prepareSearch(results);
  for (const link of document.querySelectorAll('.language a'))
    link.addEventListener('click', () => {
      link.hash = window.scrollY > 0 ? place() : '';
    });
  if (!document.querySelector('[data-figure]')) return;
  const style = document.createElement('link');
  style.rel = 'stylesheet';
  style.href = '../app/figures.css';
  document.head.append(style);
  load('../app/figures.js');
});
