// The figures that compute. Each is a function of its element and its settings;
// the settings are in the address of the figure alone (figure.html), so that a
// teacher can show or embed it. Numbers come from norma.js, drawing is here.
'use strict';

const ZH = document.documentElement.lang.startsWith('zh');
const say = (en, zh) => (ZH ? zh : en);
const APP = document.currentScript.src.replace(/[^/]*$/, '');
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

// A new norma with the bundled model.
async function startNorma() {
  await Promise.all(['norma.js', 'wasm.js', 'model.js'].map(script));
  const norma = await Norma.start(await unpack(window.normaFiles.wasm));
  norma.open(await unpack(window.normaFiles.model), null);
  return norma;
}

// ---- charts --------------------------------------------------------------------

const colorOf = (i) => `var(--figure-${i % 9 + 1})`;

// A chart with linear or logarithmic axes. series: {name, points: [[x, y, error]],
// dashed, dots, bars}.
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
  series.forEach((s, i) => {
    const color = colorOf(i);
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
      svg.append(
          el('path', {d, style: `stroke:${color}`, class: s.dashed ? 'curve dashed' : 'curve'}));
      for (const [a, b, e] of s.dots ? s.points : []) {
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
  return el('div', {}, svg, legend);
}

function axisText(t, axis) {
  if (axis.names) return axis.names(t);
  return axis.log && (t >= 1000 || t < 0.001) ? `1e${Math.round(Math.log10(t))}` : digits(t, 3);
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

// ---- the playground ----------------------------------------------------------------

const KINDS = {
  rms: 'RMSNorm',
  layer: 'LayerNorm',
  none: say('none', '无'),
  'dyt:1': 'DyT, α = 1',
  'dyt:0.5': 'DyT, α = 0.5'
};
const EPS = {
  min: -8,
  max: 1,
  step: 0.25,
  show: (e) => (e <= -8 ? say('the model\'s', '模型自己的') : `1e${e}`)
};

playground.defaults = {
  attn: 'rms',
  mlp: 'rms',
  final: 'rms',
  eps: '-8',
  seed: '12',
  prompt: ''
};
async function playground(box, settings, changed) {
  let norma = await startNorma();
  const story = el('p', {class: 'story', 'aria-live': 'polite'});
  const numbers = el('dl', {class: 'numbers'}), stream = el('div', {});
  const note = el('p', {class: 'note', role: 'alert'});
  let running = 0, own, tried = new Map();
  const spec = () => ['attn', 'mlp', 'final'].map((site) => `${site}=${settings[site]}`).join(',');
  const eps = () => (+settings.eps <= -8 ? null : 10 ** +settings.eps);
  const measure = () => {
    const nats = norma.nll(FIXED_TEXT), rms = norma.streamRms();
    return {nats, rms};
  };
  const show = (rate, share) => {
    const is = measure();
    const names = ['attn', 'mlp', 'final'].map((site) => KINDS[settings[site]]);
    tried.set([...names, `eps ${EPS.show(+settings.eps)}`].join(', '), is.nats);
    numbers.replaceChildren(
        ...[[
          say('nats per token on a fixed text', '固定文本上的 nat / token'),
          `${digits(is.nats)} (${say('its own norms', '原来的归一化')}: ${digits(own.nats)})`
        ],
            [
              say('tried so far (attn, mlp, final)', '试过的（attn、mlp、final）'),
              el('ul', {class: 'tried'},
                 ...[...tried].slice(-6).map(
                     ([name, nats]) => el('li', {}, `${name}: ${digits(nats)}`)))
            ],
            [
              say('norms\' share of a token\'s time', '归一化占每个 token 时间的'),
              share === undefined ? '…' : `${digits(share * 100, 2)} %`
            ],
            [say('speed', '速度'), rate === undefined ? '…' : `${Math.round(rate)} token/s`],
    ].flatMap(([a, b]) => [el('dt', {}, a), el('dd', {}, b)]));
    const points = (rms) => rms.map((r, i) => [i, Math.max(r, 1e-6)]);
    const all = [...is.rms, ...own.rms].filter((v) => Number.isFinite(v) && v > 0);
    stream.replaceChildren(chart({
      label: say('RMS of the residual stream at each norm', '各归一化处残差流的 RMS'),
      x: {
        min: -0.5,
        max: is.rms.length - 0.5,
        ticks: is.rms.map((_, i) => i),
        names: (i) => `${i >> 1}${i % 2 ? 'm' : 'a'}`,
        title:
            say('layer; a: before attention, m: before the MLP', '层；a：注意力之前，m：MLP 之前')
      },
      y: {min: Math.min(...all) / 1.5, max: Math.max(...all) * 1.5, log: true, title: 'RMS'},
      series: [
        {name: say('these norms', '现在的归一化'), points: points(is.rms), dots: true},
        {name: say('the model\'s own', '模型自己的'), points: points(own.rms), dashed: true},
      ],
    }));
  };
  async function tell() {
    const mine = ++running;
    note.textContent = '';
    try {
      norma.norms(spec(), eps());
      show();
      norma.begin(
          settings.prompt, {seed: Math.max(1, +settings.seed | 0), temperature: 1, topP: 0.9});
      story.textContent = settings.prompt;
      let tokens = 0, spent = 0;
      for (let piece = ''; piece !== null && tokens < 256;) {
        const start = performance.now();
        while (performance.now() - start < 12 && tokens < 256 && (piece = norma.next()) !== null) {
          story.append(piece);
          tokens++;
        }
        spent += performance.now() - start;
        await new Promise((next) => setTimeout(next));
        if (mine !== running) return;
      }
      box.dataset.ms = digits(spent);
      show((tokens * 1000) / spent, norma.normTime() / ((spent * 1000) / tokens));
    } catch (error) {
      note.textContent = error.message;
    }
  }
  const controls = ['attn', 'mlp', 'final'].map(
      (site) => control(settings, site, site + '_norm', 'select', KINDS, () => {
        changed();
        tell();
      }));
  controls.push(
      control(
          settings, 'eps', 'eps', 'range', EPS,
          () => {
            changed();
            tell();
          }),
      control(settings, 'seed', say('seed', '种子'), 'number', {min: 1, max: 1e9, step: 1}, () => {
        changed();
        tell();
      }), control(settings, 'prompt', say('begins with', '开头'), 'text', {}, () => {
        changed();
        tell();
      }));
  const apply = (values) => {
    Object.assign(settings, playground.defaults, values);
    controls.forEach((c) => c.update());
    changed();
    tell();
  };
  const file = el('input', {type: 'file', multiple: '', onchange: () => open([...file.files])});
  async function open(files) {
    running++;
    try {
      const bytes =
          await Promise.all(files.map(async (f) => new Uint8Array(await f.arrayBuffer())));
      const model = files.findIndex((f) => !/tok/i.test(f.name));
      norma.open(bytes[Math.max(model, 0)], files.length > 1 ? bytes[1 - model] : null);
      own = measure();
      tried = new Map();
      tell();
    } catch (error) {  // the bundled model again, in memory that no bad file has touched
      norma = await startNorma();
      own = measure();
      await tell();
      note.textContent = error.message;
    }
  }
  box.addEventListener('dragover', (e) => e.preventDefault());
  box.addEventListener('drop', (e) => {
    e.preventDefault();
    open([...e.dataTransfer.files]);
  });
  own = measure();
  box.append(
      el('p', {},
         say('models/stories.gguf as q8_0 (by -m convert), 2 million parameters, in this page.',
             '本页里运行的是 models/stories.gguf 的 q8_0 版本（由 -m convert 生成），200 万个参数。')),
      el('div', {class: 'controls'}, ...controls,
         el('button', {type: 'button', onclick: tell}, say('tell', '讲故事'))),
      note, story, numbers, stream,
      trials(
          settings,
          [
            [
              say('LayerNorm only before attention, only before the MLP, only at the end: ' +
                      'does it cost anything?',
                  '把 attn 换成 LayerNorm；改为只换 mlp；再改为只换 final：哪一处有代价吗？'),
              {attn: 'layer'}
            ],
            [
              say('No norm before the MLPs: where does the stream leave its own curve?',
                  '去掉 MLP 之前的归一化：残差流从哪一层开始偏离？'),
              {mlp: 'none'}
            ],
            [
              say('eps = 1e-2: which norm has the smallest input, and so loses most?',
                  'eps = 1e-2：哪一处的输入最小，因而损失最大？'),
              {eps: '-2'}
            ],
          ],
          apply),
      el('p', {},
         el('label', {},
            say('Your file (GGUF, or llama2.c\'s .bin with its tokenizer) stays on this machine: ',
                '你自己的文件（GGUF，或 llama2.c 的 .bin 加分词器），不会离开这台机器：'),
            file)));
  await tell();
}

// ---- eps inside and outside the root --------------------------------------------------

epsCurves.defaults = {
  eps: '-5'
};
async function epsCurves(box, settings, changed) {
  const norma = await startNorma();
  norma.nll(FIXED_TEXT);
  const sites = norma.streamRms();
  const smallest = Math.min(...sites), where = sites.indexOf(smallest);
  const site = `${where >> 1}.${where % 2 ? 'mlp_norm' : 'attn_norm'}`;
  const drawing = el('div', {});
  const draw = () => {
    const eps = 10 ** +settings.eps, inside = [], outside = [];
    for (let e = -7; e <= 1.001; e += 0.1) {
      const r = 10 ** e;
      inside.push([r, norma.norm(0, eps, [r, -r, r, -r], [0, 0, 0, 0]).y[0]]);
      outside.push([r, r / (r + eps)]);
    }
    drawing.replaceChildren(
        chart({
          label:
              say('RMS of a norm\'s output by the RMS of its input',
                  '归一化输出的 RMS 随输入 RMS 的变化'),
          x: {
            min: 1e-7,
            max: 10,
            log: true,
            title:
                say('RMS of the input; vertical lines: sites of the bundled model',
                    '输入的 RMS；竖线：自带模型的各处')
          },
          y: {min: 0, max: 1, title: say('RMS of the output', '输出的 RMS')},
          series: [
            {name: say('inside the root (norm.c)', '根号内（norm.c）'), points: inside},
            {
              name: say('outside: x / (RMS + eps)', '根号外：x / (RMS + eps)'),
              points: outside,
              dashed: true
            },
          ],
          marks: sites.map(
              (r, i) =>
                  ({x: r, name: `${i >> 1}.${i % 2 ? 'mlp_norm' : 'attn_norm'}: ${digits(r)}`})),
        }),
        el('p', {},
           say(`Half of the output is lost at RMS ${
                   digits(Math.sqrt(eps / 3), 3)} inside the root, at ${digits(eps, 3)} outside.`,
               `输出减半时，根号内的输入 RMS 是 ${digits(Math.sqrt(eps / 3), 3)}，根号外是 ${
                   digits(eps, 3)}。`)),
        el('p', {}, (() => {
             const kept = [
               smallest / Math.sqrt(smallest ** 2 + eps), smallest / (smallest + eps)
             ].map((share) => digits(100 * share));
             const at = digits(smallest, 3);
             return say(
                 `The bundled model's smallest input, RMS ${at} of ${site}, keeps ${
                     kept[0]} % inside the root, ${kept[1]} % outside.`,
                 `自带模型里最小的输入是 ${site} 的，RMS 为 ${at}：eps 在根号内保留 ${
                     kept[0]} %，在根号外保留 ${kept[1]} %。`);
           })()));
  };
  const slider = control(
      settings, 'eps', 'eps', 'range', {min: -8, max: 0, step: 0.25, show: (e) => `1e${e}`}, () => {
        changed();
        draw();
      });
  box.append(
      el('div', {class: 'controls'}, slider), drawing,
      trials(
          settings,
          [
            [
              say('eps = 1e-5, LLaMA\'s: is any site of this model near the bend?',
                  'eps = 1e-5，LLaMA 的取值：模型里有哪一处靠近拐弯吗？'),
              {eps: '-5'}
            ],
            [
              say('eps = 1e-1: which site loses most?', 'eps = 1e-1：哪一处损失最大？'), {eps: '-1'}
            ],
            [
              say('eps = 1e-8: where do the two curves part?', 'eps = 1e-8：两条曲线从哪里分开？'),
              {eps: '-8'}
            ],
          ],
          (values) => {
            Object.assign(settings, values);
            slider.update();
            changed();
            draw();
          }));
  draw();
}

// ---- the backward pass -------------------------------------------------------------------

backwardBars.defaults = {
  kind: '0',
  x: '1 2 3 4',
  dy: '1 0 0 0'
};
async function backwardBars(box, settings, changed) {
  const norma = await startNorma();
  const drawing = el('div', {class: 'rows'});
  const numbers = (key) => settings[key].trim().split(/[\s,;+]+/).map(Number).slice(0, 16);
  const draw = () => {
    const x = numbers('x'), dy = numbers('dy'), n = x.length, layer = settings.kind === '1';
    if (n !== dy.length || [...x, ...dy].some((v) => !Number.isFinite(v))) {
      drawing.replaceChildren(
          el('p', {class: 'note'},
             say('x and g need the same number of elements, at most 16.',
                 'x 和 g 的元素个数要相同，至多 16 个。')));
      return;
    }
    const {y, dx} = norma.norm(+settings.kind, 0, x, dy);
    const mean = dy.reduce((a, b) => a + b, 0) / n,
          along = dy.reduce((a, b, i) => a + b * y[i], 0) / n;
    const rows = [
      ['x̂ = norm(x)', [...y]],
      ['g = dL/dy', dy],
      [
        say('mean(g), subtracted by LayerNorm only', 'mean(g)，只有 LayerNorm 减去它'),
        dy.map(() => (layer ? -mean : 0))
      ],
      [
        say('x̂ mean(g x̂), subtracted by both', 'x̂ mean(g x̂)，两者都减去'),
        [...y].map((v) => -v * along)
      ],
      [say('dx = what is left, divided by RMS(x)', 'dx：剩下的除以 RMS(x)'), [...dx]],
    ];
    const most = Math.max(1e-9, ...rows.flatMap(([, v]) => v.map(Math.abs)));
    drawing.replaceChildren(...rows.map(
        ([name, values]) =>
            el('div', {}, el('b', {}, name), bars(values, most),
               el('code', {}, values.map((v) => digits(v)).join('  ')))));
    const dot = x.reduce((a, b, i) => a + b * dx[i], 0), sum = dx.reduce((a, b) => a + b, 0);
    drawing.append(el('p', {}, `Σ x dx = ${digits(dot, 2)}, Σ dx = ${digits(sum, 2)}`));
  };
  const update = () => {
    changed();
    draw();
  };
  const controls = [
    control(
        settings, 'kind', say('norm', '归一化'), 'select', {0: 'RMSNorm', 1: 'LayerNorm'}, update),
    control(settings, 'x', 'x', 'text', {}, update),
    control(settings, 'dy', 'g', 'text', {}, update)
  ];
  box.append(
      el('div', {class: 'controls'}, ...controls), drawing,
      trials(
          settings,
          [
            [
              say('g along x: nothing is left but rounding, since scaling x does not change y.',
                  'g 与 x 同向：除舍入误差外什么也不剩，因为 x 的缩放不改变 y。'),
              {kind: '0', x: '1 2 3 4', dy: '1 2 3 4'}
            ],
            [
              say('The same g for every element: LayerNorm removes it, RMSNorm does not.',
                  '每个元素的 g 相同：LayerNorm 把它去掉，RMSNorm 不会。'),
              {kind: '1', x: '1 2 3 4', dy: '1 1 1 1'}
            ],
            [
              say('x ten times as large: x̂ is the same, dx is a tenth.',
                  'x 放大十倍：x̂ 不变，dx 变成十分之一。'),
              {kind: '0', x: '10 20 30 40', dy: '1 0 0 0'}
            ],
          ],
          (values) => {
            Object.assign(settings, values);
            controls.forEach((c) => c.update());
            update();
          }));
  draw();
}

function bars(values, most) {
  const W = 320, H = 44, step = W / values.length;
  const svg =
      el('svg', {
        viewBox: `0 0 ${W} ${H}`,
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
  });
  return svg;
}

// ---- the way of a token ----------------------------------------------------------------------

// The vectors of layer l in the order in which they are computed: name, what it is, its lines of
// plain.c (window.normaPlain), how norma computes it.
const BOXES = [
  [
    'x', say('the residual stream at the layer\'s input', '这一层输入处的残差流'), 'layer',
    (n, l) => n.vector('x', l)
  ],
  [
    'norm(x)', say('attn_norm: RMSNorm before attention', 'attn_norm：注意力之前的 RMSNorm'),
    'norm', (n, l) => n.normed(l, 0, n.vector('x', l))
  ],
  [
    'q', say('the queries of all heads, rotated', '所有头的 query，已旋转'), 'attention',
    (n, l) => n.vector('q', l + 1)
  ],
  [
    'k', say('the keys, rotated; they go into the cache', 'key，已旋转，写入缓存'), 'attention',
    (n, l) => n.vector('k', l + 1)
  ],
  ['v', say('the values', 'value'), 'attention', (n, l) => n.vector('v', l + 1)],
  [
    'heads', say('softmax(q k / sqrt(d)) v of each head', '每个头的 softmax(q k / sqrt(d)) v'),
    'attend', (n, l) => n.vector('heads', l + 1)
  ],
  [
    'x + attention', say('the stream after attention', '加上注意力之后的残差流'), 'layer',
    (n, l) => n.vector('x', l, true)
  ],
  [
    'norm(x)', say('mlp_norm: RMSNorm before the MLP', 'mlp_norm：MLP 之前的 RMSNorm'), 'norm',
    (n, l) => n.normed(l, 1, n.vector('x', l, true))
  ],
  [
    'silu(gate) up', say('the gated products inside the MLP', 'MLP 内部门控后的乘积'), 'swiglu',
    (n, l) => n.vector('gated', l + 1)
  ],
  [
    'x + mlp', say('the stream after the layer', '这一层之后的残差流'), 'layer',
    (n, l) => n.vector('x', l + 1)
  ],
  [
    'final norm(x)',
    say('after the last layer: the classifier\'s input', '最后一层之后：分类器的输入'), 'logits',
    (n) => n.normed(n.config.layers, 0, n.vector('x', n.config.layers))
  ],
];

tokenBoxes.defaults = {
  layer: '0',
  box: '1',
  text: 'Once upon a time, there was a little girl'
};
async function tokenBoxes(box, settings, changed) {
  const norma = await startNorma();
  const layers = norma.config.layers;
  const diagram = el('div', {class: 'boxes'}), detail = el('div', {});
  const draw = () => {
    const layer = Math.min(layers - 1, Math.max(0, +settings.layer | 0));
    norma.nll(settings.text || ' ');
    diagram.replaceChildren(...BOXES.map(
        ([name, text], i) =>
            el('button', {
              type: 'button',
              'aria-pressed': String(i === +settings.box),
              title: text,
              onclick: () => {
                settings.box = String(i);
                changed();
                draw();
              }
            },
               name)));
    const [name, text, key, compute] = BOXES[+settings.box];
    const v = compute(norma, layer);
    const n = v.length, mean = v.reduce((a, b) => a + b, 0) / n,
          rms = Math.sqrt(v.reduce((a, b) => a + b * b, 0) / n);
    const largest = [...v.keys()].sort((a, b) => Math.abs(v[b]) - Math.abs(v[a])).slice(0, 5);
    detail.replaceChildren(
        el('p', {}, el('b', {}, name), ` [${n}]: ${text}`),
        bars([...v], Math.max(...v.map(Math.abs))),
        el('p', {},
           `RMS ${digits(rms)}, ${say('mean', '均值')} ${digits(mean, 3)}, ${
               say('largest', '最大的')}: ` +
               largest.map((i) => `[${i}] ${digits(v[i], 3)}`).join(', ')),
        el('pre', {}, el('code', {}, window.normaPlain[key])));
  };
  await script('plain.js');
  const update = () => {
    changed();
    draw();
  };
  const controls = [
    control(
        settings, 'layer', say('layer', '层'), 'range', {min: 0, max: layers - 1, step: 1}, update),
    control(
        settings, 'text', say('text, whose last token is shown', '文本，显示它的最后一个 token'),
        'text', {}, update)
  ];
  box.append(
      el('div', {class: 'controls'}, ...controls), diagram, detail,
      trials(
          settings,
          [
            [
              say('The stream before attention, layer by layer: how fast does its RMS grow?',
                  '逐层看注意力之前的残差流：RMS 长得多快？'),
              {box: '0', layer: String(layers - 1)}
            ],
            [
              say('After the norm: is RMS 1? (No: gamma multiplies.)',
                  '归一化之后：RMS 是 1 吗？（不是：还乘了 gamma。）'),
              {box: '1', layer: '0'}
            ],
            [
              say('Inside the MLP: how many of the products are nearly 0?',
                  'MLP 内部：有多少个乘积接近 0？'),
              {box: '8', layer: '1'}
            ],
          ],
          (values) => {
            Object.assign(settings, values);
            controls.forEach((c) => c.update());
            update();
          }));
  draw();
}

// ---- figures from tables ---------------------------------------------------------------------

// Curves of a committed table (window.normaTables): a select picks the group, points are [x, y,
// spread].
function tableCurves(box, settings, changed, table) {
  settings.group ??= table.trials[0][2].group;
  const drawing = el('div', {});
  const draw = () => {
    const chosen = table.series.filter((s) => settings.group === '' || s.group === settings.group);
    const beside = table.series.filter((s) => s.group === table.beside && !chosen.includes(s));
    const series = [...chosen, ...beside];
    const all = series.flatMap((s) => s.points);
    const pad = (a, b, log) =>
        (log ? [a / 1.1, b * 1.1] : [a - (b - a) * 0.05, b + (b - a) * 0.05]);
    const [x0, x1] =
        pad(Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0])), table.x.log);
    const [y0, y1] =
        pad(Math.min(...all.map((p) => p[1])), Math.max(...all.map((p) => p[1])), table.y.log);
    drawing.replaceChildren(chart({
      label: say(...table.title),
      x: {min: x0, max: x1, log: table.x.log, ticks: table.x.ticks, title: say(...table.x.title)},
      y: {min: y0, max: y1, log: table.y.log, title: say(...table.y.title)},
      series: series.map(
          (s) => ({name: s.name, points: s.points, dots: true, dashed: beside.includes(s)}))
    }));
    const note = (text) => el('p', {}, say(...text));
    drawing.append(...chosen.filter((s) => s.note).map((s) => note(s.note)), note(table.note));
  };
  const groups = Object.fromEntries(
      [['', say('all', '全部')], ...table.series.map((s) => [s.group, s.group])]);
  const select = control(settings, 'group', say('show', '显示'), 'select', groups, () => {
    changed();
    draw();
  });
  box.append(
      el('div', {class: 'controls'}, select), drawing,
      trials(settings, table.trials.map(([en, zh, values]) => [say(en, zh), values]), (values) => {
        Object.assign(settings, values);
        select.update();
        changed();
        draw();
      }));
  draw();
}

// ---- a massive channel ------------------------------------------------------------------------

const median = (v) => [...v].map(Math.abs).sort((a, b) => a - b)[v.length >> 1];
const GROUP = 32;  // activations that share an int8 scale

// Rotates v by a Hadamard matrix of 128 in each block: every element becomes a sum of 128.
function hadamard(v) {
  const y = [...v];
  for (let first = 0; first + 128 <= y.length; first += 128)
    for (let step = 1; step < 128; step *= 2)
      for (let i = first; i < first + 128; i++)
        if (!((i - first) & step)) {
          const a = y[i], b = y[i + step];
          y[i] = (a + b) * Math.SQRT1_2;
          y[i + step] = (a - b) * Math.SQRT1_2;
        }
  return y;
}

massiveChannel.defaults = {
  site: '3.mlp',
  rotate: '0'
};
async function massiveChannel(box, settings, changed) {
  await script('tables.js');
  const norma = await startNorma(), table = window.normaTables.massive;
  const drawing = el('div', {class: 'rows'});
  const draw = () => {
    const {x, gamma} = table.sites[settings.site], n = x.length;
    const zeros = Array(n).fill(0);
    const [rms, layer] = [0, 1].map(
        (kind) => [...norma.norm(kind, table.eps, x, zeros).y].map((v, i) => v * gamma[i]));
    const top = x.map(Math.abs).indexOf(Math.max(...x.map(Math.abs)));
    const mean = x.reduce((a, b) => a + b, 0) / n, size = norma.rms(x);
    const turned = settings.rotate === '1' ? hadamard(rms) : rms;
    const lost = () => {
      let zero = 0;
      for (let g = 0; g < n; g += GROUP) {
        const part = turned.slice(g, g + GROUP), step = Math.max(...part.map(Math.abs)) / 127;
        zero += part.filter((v) => Math.abs(v) < step / 2).length;
      }
      return zero / n;
    };
    const changedBy = rms.map((v, i) => layer[i] - v);
    const row = (name, values, note) =>
        el('div', {}, el('b', {}, name), bars(values, Math.max(...values.map(Math.abs))),
           el('p', {}, note));
    const largest = (v) => digits(Math.max(...v.map(Math.abs)), 3);
    drawing.replaceChildren(
        row('x', x,
            `RMS ${digits(size, 3)}, ${say('median', '中位数')} |x| ${digits(median(x), 3)}, ` +
                say('largest', '最大') +
                ` x[${top}] = ${digits(x[top], 3)} (gamma ${digits(gamma[top], 3)}); |${
                    say('mean', '均值')}| / RMS ${digits(Math.abs(mean) / size, 2)}, |${
                    say('mean', '均值')}| / ${say('median', '中位数')} ${
                    digits(Math.abs(mean) / median(x), 2)}`),
        row('RMSNorm(x) gamma', rms, `${say('largest', '最大')} ${largest(rms)}`),
        row('LayerNorm(x) gamma − RMSNorm(x) gamma', changedBy,
            `${say('RMS of the difference / RMS of the result', '差的 RMS / 结果的 RMS')}: ${
                digits(norma.rms(changedBy) / norma.rms(rms), 3)}`),
        row(settings.rotate === '1' ? say('rotated (Hadamard)', '旋转之后（Hadamard）') :
                                      say('as the product reads it', '矩阵乘读到的样子'),
            turned,
            say(`int8 in groups of ${GROUP}: ${digits(100 * lost(), 2)} % become 0`,
                `int8，每 ${GROUP} 个一组：${digits(100 * lost(), 2)} % 变成 0`)));
  };
  const update = () => {
    changed();
    draw();
  };
  const names = Object.fromEntries(Object.keys(table.sites).map((k) => [k, `${k}_norm`]));
  const controls = [
    control(settings, 'site', say('norm', '归一化'), 'select', names, update),
    control(
        settings, 'rotate', say('before int8', 'int8 之前'), 'select',
        {0: say('as it is', '不变'), 1: say('rotate', '旋转')}, update)
  ];
  box.append(
      el('p', {}, `${table.model}: “${table.text}”`), el('div', {class: 'controls'}, ...controls),
      drawing,
      trials(
          settings,
          [
            [
              say('Layer 0: no channel dominates, and the norms agree.',
                  '第 0 层：没有哪个通道独大，两种归一化很接近。'),
              {site: '0.attn', rotate: '0'}
            ],
            [
              say('Layer 3: how large is the mean beside a typical channel?',
                  '第 3 层：均值与普通通道相比有多大？'),
              {site: '3.mlp', rotate: '0'}
            ],
            [
              say('Rotate it: how many activations survive int8?',
                  '旋转一下：int8 之后还剩多少激活？'),
              {rotate: '1'}
            ],
          ],
          (values) => {
            Object.assign(settings, values);
            controls.forEach((c) => c.update());
            update();
          }));
  draw();
}

// ---- placing them -----------------------------------------------------------------------------

const FIGURES = {
  massive: massiveChannel,
  playground: playground,
  eps: epsCurves,
  backward: backwardBars,
  token: tokenBoxes
};

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
  const name = box.dataset.figure, build = FIGURES[name];
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
