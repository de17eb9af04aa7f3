// A token in three dimensions: LayerNorm's projection onto the plane of mean 0, RMSNorm's onto the
// sphere, gamma's ellipsoid, and the gradient, which is orthogonal to x. A drag turns the picture,
// or moves the token if it begins there; the arrow keys turn it, too.
'use strict';

space.defaults = {
  x: '0.3 1.7 0.9',
  shift: '0',
  scale: '1',
  gamma: '0',
  turn: '-15'
};
const GAMMA = [1.4, 0.7, 1], UPSTREAM = [0.9, 0.5, -0.8];  // of the figure; g = dL/dy

async function space(box, settings, changed) {
  const norma = await startNorma();
  const W = 360, H = 300, UNIT = 58;
  let turn = +settings.turn, tilt = 18;
  const svg = el('svg', {
    viewBox: `0 0 ${W} ${H}`,
    class: 'space',
    tabindex: '0',
    role: 'img',
    'aria-label':
        say('a token in three dimensions; arrow keys turn it', '三维空间里的一个 token；方向键旋转')
  });
  const numbers = el('div', {class: 'numbers', role: 'status'});
  const dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0);

  // The axes of the window in space: right, up.
  const axes = () => {
    const [a, b] = [turn, tilt].map((d) => d * Math.PI / 180);
    return [
      [-Math.sin(a), Math.cos(a), 0],
      [-Math.cos(a) * Math.sin(b), -Math.sin(a) * Math.sin(b), Math.cos(b)]
    ];
  };
  const at = (p) => axes().map((axis, i) => (i ? H : W) / 2 + (i ? -1 : 1) * UNIT * dot(axis, p));
  const path = (points, attributes) => svg.append(el('path', {
    d: 'M' + points.map((p) => at(p).map((v) => v.toFixed(1))).join('L'),
    fill: 'none',
    ...attributes
  }));
  const circle = (u, v, stretch) => Array.from({length: 61}, (_, i) => {
    const [c, s] = [Math.cos, Math.sin].map((f) => Math.sqrt(3) * f(i * Math.PI / 30));
    return u.map((_, k) => (c * u[k] + s * v[k]) * stretch[k]);
  });
  const label = (p, text, color, below) => {
    const [x, y] = at(p);
    svg.append(el('text', {x: x + 6, y: y + (below ? 15 : -5), style: `fill:${color}`}, text));
  };
  const arrow = (from, to, color, text, below) => {
    path([from, to], {style: `stroke:${color};stroke-width:2.5`});
    const [x, y] = at(to);
    svg.append(el('circle', {cx: x, cy: y, r: 4, style: `fill:${color}`}));
    label(to, text, color, below);
  };
  const token = () => settings.x.split(' ').map((v) => +v * +settings.scale + +settings.shift);

  function draw() {
    const x = token(), gamma = settings.gamma === '1' ? GAMMA : [1, 1, 1];
    const g = UPSTREAM.map((v, i) => v * gamma[i]), mean = (x[0] + x[1] + x[2]) / 3;
    const rms = norma.norm(0, 1e-5, x, g), layer = norma.norm(1, 1e-5, x, g);
    const scaled = (y) => [...y].map((v, i) => v * gamma[i]);
    const centered = x.map((v) => v - mean), zero = [0, 0, 0], line = 'var(--figure-line)';
    svg.replaceChildren();
    const [d, e] = [[1, -1, 0].map((v) => v / Math.SQRT2), [1, 1, -2].map((v) => v / Math.sqrt(6))];
    path(
        circle(d, e, gamma),
        {style: 'fill:var(--figure-2);fill-opacity:0.12;stroke:var(--figure-2)'});
    const E = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    for (const [i, j] of [[0, 1], [1, 2], [2, 0]])
      path(circle(E[i], E[j], gamma), {style: `stroke:${line}`});
    E.forEach((axis, i) => {
      path([zero, axis.map((v) => 2.3 * v)], {style: `stroke:${line}`});
      label(axis.map((v) => 2.3 * v), `x${i + 1}`, 'currentcolor');
    });
    path([x, centered], {style: 'stroke:var(--figure-2);stroke-dasharray:4 3'});
    arrow(zero, x, 'var(--figure-5)', 'x');
    arrow(zero, scaled(layer.y), 'var(--figure-2)', 'LayerNorm', true);
    arrow(zero, scaled(rms.y), 'var(--figure-1)', 'RMSNorm', true);
    const tip = x.map((v, i) => v + rms.dx[i] * 1.2);
    arrow(x, tip, 'var(--figure-3)', 'dx');
    const show = (v) => '[' + [...v].map((n) => n.toFixed(2).replace('-', '−')).join(', ') + ']';
    numbers.replaceChildren(
        ...[[
          'x',
          `${show(x)}, RMS ${digits(norma.rms(x), 3)}, ${say('mean', '均值')} ${digits(mean, 3)}`
        ],
            [settings.gamma === '1' ? 'RMSNorm γ' : 'RMSNorm', show(scaled(rms.y))],
            [settings.gamma === '1' ? 'LayerNorm γ' : 'LayerNorm', show(scaled(layer.y))],
            ['dx', `${show(rms.dx)}; x · dx = ${digits(dot(x, [...rms.dx]), 1)}`]]
            .map(([name, text]) => el('p', {}, el('b', {}, name), ' ', text)));
  }

  const update = () => {
    settings.turn = String(Math.round(turn));
    changed();
    draw();
  };
  let held = null;  // 'token' or 'view' while a pointer is down
  svg.addEventListener('pointerdown', (e) => {
    const frame = svg.getBoundingClientRect(), scale = frame.width / W;
    const [x, y] = at(token());
    const near = Math.hypot(frame.x + x * scale - e.clientX, frame.y + y * scale - e.clientY) < 24;
    held = near ? 'token' : 'view';
    svg.setPointerCapture(e.pointerId);
  });
  svg.addEventListener('pointerup', () => held = null);
  svg.addEventListener('pointercancel', () => held = null);
  svg.addEventListener('pointermove', (e) => {
    if (!held) return;
    if (held === 'view') {
      turn -= e.movementX / 2;
      tilt = Math.max(-85, Math.min(85, tilt + e.movementY / 2));
    } else {
      const [right, up] = axes(), size = UNIT * svg.getBoundingClientRect().width / W;
      settings.x =
          settings.x.split(' ')
              .map(
                  (v, i) =>
                      (+v + (right[i] * e.movementX - up[i] * e.movementY) / size / +settings.scale)
                          .toFixed(2))
              .join(' ');
    }
    update();
  });
  svg.addEventListener('keydown', (e) => {
    const step = {ArrowLeft: [-5, 0], ArrowRight: [5, 0], ArrowUp: [0, 5], ArrowDown: [
                    0, -5
                  ]}[e.key];
    if (!step) return;
    e.preventDefault();
    turn += step[0];
    tilt = Math.max(-85, Math.min(85, tilt + step[1]));
    update();
  });
  const controls = [
    control(
        settings, 'shift', say('shift', '平移'), 'range', {min: -1.5, max: 1.5, step: 0.05},
        update),
    control(
        settings, 'scale', say('scale', '缩放'), 'range', {min: 0.3, max: 1.6, step: 0.05}, update),
    control(
        settings, 'gamma', 'γ', 'select', {
          0: say('1 (the sphere)', '1（球面）'),
          1: say('[1.4, 0.7, 1] (an ellipsoid)', '[1.4, 0.7, 1]（椭球面）')
        },
        update)
  ];
  const apply = (values) => {
    Object.assign(settings, values);
    controls.forEach((c) => c.update());
    update();
  };
  box.append(
      el('div', {class: 'beside'}, svg, numbers), el('div', {class: 'controls'}, ...controls),
      trials(
          settings,
          [
            [
              say('Scale: x moves, both results stay.', '缩放：x 动了，两个结果都不动。'),
              {scale: '1.6', shift: '0'}
            ],
            [
              say('Shift: RMSNorm turns, LayerNorm stays in its plane and does not move.',
                  '平移：RMSNorm 转了方向，LayerNorm 留在平面里不动。'),
              {scale: '1', shift: '1'}
            ],
            [
              say('Gamma: the sphere becomes an ellipsoid. The green arrow, the gradient, is still orthogonal to x.',
                  'γ：球面变成椭球面。绿色箭头是梯度，仍与 x 正交。'),
              {gamma: '1', shift: '0'}
            ],
          ],
          apply));
  draw();
}

FIGURES.space = space;
