// The backward pass of a norm of a few numbers.
'use strict';

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
        ([name, values]) => el('div', {}, el('b', {}, name), bars(values, most, true))));
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

FIGURES.backward = backwardBars;
