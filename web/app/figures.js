// What the figures that compute share. Each is a function of its element and its settings, in a
// file of figures/; the settings are in the address of the figure alone (figure.html), so that a
// teacher can show or embed it. Numbers come from norma.js, drawing is here.
'use strict';

const ZH = document.documentElement.lang.startsWith('zh');
const say = (en, zh) => (ZH ? zh : en);
const APP = document.currentScript.src.replace(/[^/]*$/, '');
const BUNDLED = 'models/stories.gguf';
const SVG = 'http://www.w3.org/2000/svg';
// Of a held-out story: corpus.py --held-out -s 1 -n 2.
const FIXED_TEXT =
    'In a small house by the river, there lived a small girl named Kira. She loved to run in ' +
    'the wind. Kira had a spotted wagon, and she liked it more than anything. On a cloudy day, ' +
    'she went to the lake to play. There was so much to see that she forgot about the wagon. ' +
    'When she wanted to play with it again, the wagon was not there.';

// An element with attributes, listeners (on...), and children.
function el(name, attributes = {}, ...children) {
  const svg = ['svg', 'path', 'line', 'rect', 'text', 'circle', 'g', 'title'].includes(name);
  const e = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith('on'))
      e.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false)
      e.setAttribute(key, value);
  e.append(...children.filter((c) => c !== undefined && c !== null));
  return e;
}

const digits = (x, n = 4) => (Number.isFinite(x) ? Number(x.toPrecision(n)).toString() : String(x));

// ---- files and the program ---------------------------------------------------

const loaded = {};

// Runs another script of this one's folder, once; files are in window.normaFiles.
function script(name) {
  loaded[name] ??= new Promise((done, failed) => {
    const onerror = () => failed(new Error(`${name} is missing`));
    document.head.append(el('script', {src: APP + name, onload: done, onerror}));
  });
  return loaded[name];
}

// The bytes of a file that travels as gzip, in base64.
async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// A new norma with the bundled model: the build with the bits of the program, if the engine allows
// it.
async function startNorma(build) {
  await Promise.all(['norma.js', 'model.js'].map(script));
  build ??= fusesMadd() ? 'fused' : 'unfused';
  await script(`${build}.js`);
  const norma = await Norma.start(await unpack(window.normaFiles[build]));
  norma.fused = build === 'fused';
  norma.open(await unpack(window.normaFiles.model), null);
  return norma;
}

// ---- charts --------------------------------------------------------------------

const colorOf = (i) => `var(--figure-${i % 9 + 1})`;

// For each series the list of those that coincide with it, itself included: at half of its points
// or more they are less than 2 units of the drawing away. py: a value's height.
function coinciding(series, py) {
  const heights = series.map((s) => new Map(s.points.map(([a, b]) => [a, py(b)])));
  const near = (i, j) => {
    const both = series[i].points.filter(([a]) => heights[j].has(a));
    const close = both.filter(([a]) => Math.abs(heights[i].get(a) - heights[j].get(a)) < 2);
    return both.length > 0 && 2 * close.length >= both.length;
  };
  return series.map((_, i) => [...series.keys()].filter((j) => i === j || near(i, j)));
}

// A chart with linear or logarithmic axes. series: {name, points: [[x, y, error]],
// dashed, dots, bars}. Curves that coincide take turns: each shows every nth dash and dot.
function chart({x, y, series, marks = [], label}) {
  const W = 560, H = 260, left = 66, right = 12, top = 12, bottom = 40;
  const scale = (axis, from, to) => {
    const f = axis.log ? Math.log10 : (v) => v;
    const [a, b] = [f(axis.min), f(axis.max)];
    return (v) => from +
        ((Math.min(Math.max(f(v), Math.min(a, b)), Math.max(a, b)) - a) / (b - a)) * (to - from);
  };
  const px = scale(x, left, W - right), py = scale(y, H - bottom, top);
  const svg =
      el('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': label, class: 'chart'});
  const ticks = (axis) => {
    const inside = (t) => t >= axis.min * (1 - 1e-9) && t <= axis.max * (1 + 1e-9);
    if (axis.ticks) return axis.ticks.filter(inside);
    const all = [];
    if (axis.log) {
      const decades = Math.log10(axis.max / axis.min);
      const steps = decades > 3 ? [1] : decades > 0.7 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8];
      for (let e = Math.floor(Math.log10(axis.min)); e <= Math.log10(axis.max) + 1e-9; e++)
        all.push(...steps.map((step) => step * 10 ** e).filter(inside));
    } else
      for (let i = 0; i <= 4; i++) all.push(axis.min + (i / 4) * (axis.max - axis.min));
    return all;
  };
  for (const t of ticks(x))
    svg.append(
        el('line', {x1: px(t), x2: px(t), y1: top, y2: H - bottom, class: 'grid'}),
        el('text', {x: px(t), y: H - bottom + 14, 'text-anchor': 'middle'}, axisText(t, x)),
    );
  for (const t of ticks(y))
    svg.append(
        el('line', {x1: left, x2: W - right, y1: py(t), y2: py(t), class: 'grid'}),
        el('text', {x: left - 6, y: py(t) + 4, 'text-anchor': 'end'}, axisText(t, y)),
    );
  svg.append(
      el('text', {x: (left + W - right) / 2, y: H - 6, 'text-anchor': 'middle'}, x.title),
      el('text', {
        transform: `translate(12 ${(top + H - bottom) / 2}) rotate(-90)`,
        'text-anchor': 'middle'
      },
         y.title),
  );
  for (const m of marks)
    svg.append(
        el('line', {x1: px(m.x), x2: px(m.x), y1: top, y2: H - bottom, class: 'mark'},
           el('title', {}, m.name)));
  const same = coinciding(series, py);
  series.forEach((s, i) => {
    const color = colorOf(i), turns = same[i].length, turn = same[i].indexOf(i);
    if (s.bars) {
      const width = ((W - left - right) / s.points.length) * 0.7;
      for (const [a, b] of s.points) {
        const [from, to] = [py(0), py(b)];
        svg.append(
            el('rect', {
              x: px(a) - width / 2,
              y: Math.min(from, to),
              width,
              height: Math.max(1, Math.abs(to - from)),
              style: `fill:${color}`
            },
               el('title', {}, `${s.name} ${a}: ${digits(b)}`)),
        );
      }
    } else {
      const d =
          s.points.map(([a, b], k) => `${k ? 'L' : 'M'}${px(a).toFixed(1)} ${py(b).toFixed(1)}`)
              .join('');
      const dashes =
          turns > 1 && `;stroke-dasharray:9 ${9 * (turns - 1)};stroke-dashoffset:${- 9 * turn}`;
      svg.append(el('path', {
        d,
        style: `stroke:${color}${dashes || ''}`,
        class: s.dashed ? 'curve dashed' : 'curve'
      }));
      const dots = s.dots ? s.points.filter((_, k) => k % turns === turn) : [];
      for (const [a, b, e] of dots) {
        const text = `${s.name}: ${digits(a)}, ${digits(b)}` + (e ? ` ± ${digits(e, 2)}` : '');
        if (e)
          svg.append(
              el('line',
                 {x1: px(a), x2: px(a), y1: py(b - e), y2: py(b + e), style: `stroke:${color}`}));
        svg.append(el(
            'circle', {cx: px(a), cy: py(b), r: 3, style: `fill:${color}`}, el('title', {}, text)));
      }
    }
  });
  const legend = el('p', {class: 'legend'});
  series.forEach(
      (s, i) => legend.append(el('span', {}, el('i', {style: `background:${colorOf(i)}`}), s.name)),
  );
  const groups = new Set(same.filter((list) => list.length > 1)
                             .map((list) => list.map((i) => series[i].name).join(' = ')));
  if (groups.size)
    legend.append(
        el('small', {}, say('Curves that coincide: ', '重合的曲线：') + [...groups].join('; ')));
  return el('div', {}, svg, legend);
}

function axisText(t, axis) {
  if (axis.names) return axis.names(t);
  return axis.log && (t >= 1000 || t < 0.001) ? `1e${Math.round(Math.log10(t))}` : digits(t, 3);
}

// Bars of a vector's elements; with `numbers` each value is written under its bar.
function bars(values, most, numbers = false) {
  const W = 320, H = 44, step = W / values.length, below = numbers ? 12 : 0;
  const svg =
      el('svg', {
        viewBox: `0 0 ${W} ${H + below}`,
        class: 'bars',
        role: 'img',
        'aria-label': values.map((v) => digits(v)).join(' ')
      },
         el('line', {x1: 0, x2: W, y1: H / 2, y2: H / 2, class: 'grid'}));
  values.forEach((v, i) => {
    const h = Math.min(1, Math.abs(v) / most) * (H / 2 - 1);
    svg.append(
        el('rect', {
          x: i * step + step * 0.1,
          width: Math.max(step * 0.8, 1),
          y: v > 0 ? H / 2 - h : H / 2,
          height: Math.max(h, 0.5),
          style: `fill:var(--figure-${v < 0 ? 2 : 1})`
        },
           el('title', {}, `${i}: ${digits(v)}`)));
    const shown = digits(v, values.length > 8 ? 2 : 4).replace('-', '−');
    if (numbers)
      svg.append(
          el('text', {
            x: (i + 0.5) * step,
            y: H + 9,
            'text-anchor': 'middle',
            style: `font-size:${Math.min(8.5, 1.6 * step / shown.length)}px`
          },
             shown));
  });
  return svg;
}

// ---- controls --------------------------------------------------------------------

// A labelled control that keeps settings[key] and calls changed(). kind: select, range, number,
// text.
function control(settings, key, text, kind, options, changed) {
  const shown = el('output', {});
  const show = () => {
    if (kind === 'range')
      shown.textContent = options.show ? options.show(+settings[key]) : settings[key];
  };
  let input;
  if (kind === 'select')
    input =
        el('select', {},
           ...Object.entries(options).map(([value, name]) => el('option', {value}, name)));
  else if (kind === 'range')
    input = el('input', {type: 'range', min: options.min, max: options.max, step: options.step});
  else
    input = el('input', {type: kind, min: options?.min, max: options?.max, step: options?.step});
  input.value = settings[key];
  input.addEventListener(kind === 'text' || kind === 'number' ? 'change' : 'input', () => {
    settings[key] = input.value;
    show();
    changed();
  });
  show();
  const label = el('label', {}, text + ' ', input, ' ', shown);
  label.update = () => {
    input.value = settings[key];
    show();
  };
  return label;
}

// Three things to try: each sets the settings.
function trials(settings, list, apply) {
  return el(
      'ol', {class: 'trials'},
      ...list.map(
          ([text, values]) =>
              el('li', {},
                 el('button', {type: 'button', onclick: () => apply(values)}, say('try', '试试')),
                 ' ' + text)));
}

// Keys for a toolbar, whose controls share one tab stop: that of the pressed control, or of the
// first. Arrow keys, Home and End move it. Returns the toolbar; `controls` are its new children,
// text included.
function fillToolbar(bar, children) {
  const focused = bar.contains(document.activeElement);
  bar.replaceChildren(...children);
  const controls = [...bar.querySelectorAll('button')];
  const stop = controls.find((c) => c.ariaPressed === 'true') ?? controls[0];
  for (const c of controls) c.tabIndex = c === stop ? 0 : -1;
  if (focused) stop?.focus();
  bar.onkeydown = (event) => {
    const at = controls.indexOf(document.activeElement), last = controls.length - 1;
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last}[event.key];
    if (at < 0 || !controls[to]) return;
    event.preventDefault();
    controls[at].tabIndex = -1;
    controls[to].tabIndex = 0;
    controls[to].focus();
  };
}

// ---- placing them -----------------------------------------------------------------------------

// Each figure is a file of figures/, which enters its function here, and is
// loaded when it is needed; a figure of a table has none.
const FIGURES = {};
const BUILT =
    ['axes', 'backward', 'eps', 'explorer', 'gradients', 'massive', 'playground', 'space', 'token'];

// A figure above the anchor of the address grows when it is built: back to the anchor, for ten
// seconds or until the reader moves. (The browser tells nobody that the scroll bar is dragged.)
let moved = false;
for (const event of ['wheel', 'keydown', 'pointerdown', 'touchstart'])
  addEventListener(event, () => moved = true, {once: true, passive: true});
function keepPlace() {
  const id = decodeURIComponent(location.hash.slice(1));
  const anchor = id && document.getElementById(id);
  if (anchor && !moved && performance.now() < 10000) anchor.scrollIntoView({behavior: 'instant'});
}

// Builds the figure of an element, with the settings of the address.
async function placeOne(box, query) {
  const name = box.dataset.figure;
  await script(`figures/${BUILT.includes(name) ? name : 'curves'}.js`);
  const build = FIGURES[name];
  const settings = {...(build?.defaults ?? {group: undefined})};
  for (const [key, value] of new URLSearchParams(query))
    if (key in settings) settings[key] = value;
  const alone = el('a', {}, say('this figure alone', '单独打开此图'));
  const changed = () => {
    const query = new URLSearchParams({figure: name, lang: ZH ? 'zh' : 'en', ...settings});
    alone.href = `${APP}../figure.html?${query}`;
  };
  changed();
  try {
    if (build)
      await build(box, settings, changed);
    else {
      await script('tables.js');
      tableCurves(box, settings, changed, window.normaTables[name]);
    }
    box.append(el('p', {class: 'alone'}, alone));
    box.querySelector('.still')?.remove();
    box.dataset.ready = 'yes';
  } catch (error) {
    box.append(el('p', {class: 'note'}, error.message));
    box.dataset.ready = 'failed';
  }
  keepPlace();
}

// A figure starts when it comes near the window.
function placeAll() {
  const watcher = new IntersectionObserver((entries) => {
    for (const e of entries)
      if (e.isIntersecting) {
        watcher.unobserve(e.target);
        placeOne(e.target, e.target.dataset.query ?? '');
      }
  }, {rootMargin: '300px'});
  for (const box of document.querySelectorAll('[data-figure]')) watcher.observe(box);
}

if (document.readyState === 'loading')
  document.addEventListener('DOMContentLoaded', placeAll);
else
  placeAll();
