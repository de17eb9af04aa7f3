// Gradients by depth of a model of 8 layers with random weights, computed when a control changes.
'use strict';

// As web/depth.c lists them.
const PLACES_OF_NORMS = ['pre', 'post', 'inside', 'sandwich', 'peri'];
const SUBLAYERS = 16, DRAWS = 10;

gradients.defaults = {
  of: 'stream',
  gain: '1',
  embedding: '1'
};

async function gradients(box, settings, changed) {
  const norma = await startNorma();
  const drawing = el('div', {}), at = norma.c.malloc(4 * (2 * SUBLAYERS + 1));
  const weights = at + 4 * (SUBLAYERS + 1);

  // [[depth, mean, standard error]] of a place over the draws.
  const measure = (place) => {
    const of = settings.of === 'stream' ? [at, SUBLAYERS + 1] : [weights, SUBLAYERS];
    const runs = [];
    for (let draw = 1; draw <= DRAWS; draw++) {
      norma.c.page_depth(place, draw, +settings.gain, +settings.embedding, at, weights);
      runs.push([...norma.floats(...of)]);
    }
    return runs[0].map((_, depth) => {
      const values = runs.map((run) => run[depth]);
      const mean = values.reduce((sum, v) => sum + v, 0) / DRAWS;
      const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (DRAWS - 1);
      return [depth + (settings.of !== 'stream'), mean, Math.sqrt(variance / DRAWS)];
    });
  };

  const draw = () => {
    const series = PLACES_OF_NORMS.map((name, i) => ({name, dots: true, points: measure(i)}));
    const all = series.flatMap((s) => s.points.map((p) => p[1])).filter((v) => v > 0);
    const last = (name) => series[PLACES_OF_NORMS.indexOf(name)].points.at(-1)[1];
    const first = (name) => series[PLACES_OF_NORMS.indexOf(name)].points[0][1];
    drawing.replaceChildren(
        chart({
          label: say('gradient by depth', '各深度的梯度'),
          x: {
            min: -0.4,
            max: SUBLAYERS + 0.4,
            ticks: Array.from({length: 9}, (_, i) => 2 * i),
            title: settings.of === 'stream' ?
                say('sublayers before (0: the embedding)', '之前的子层数（0：嵌入）') :
                say('sublayer', '子层')
          },
          y: {
            min: Math.min(...all) / 1.3,
            max: Math.max(...all) * 1.3,
            log: true,
            title: settings.of === 'stream' ? '|dL/dx| / |dL/dy|' : '|dL/dW| / |dL/dy|'
          },
          series
        }),
        el('p', {role: 'status'},
           say('First / last: ', '最前 / 最后：') +
               PLACES_OF_NORMS.map((name) => `${name} ${digits(first(name) / last(name), 2)}`)
                   .join(', ') +
               say('.', '。')));
  };
  const update = () => {
    changed();
    draw();
  };
  const times = (v) => `× ${digits(+v, 3)}`;
  const controls = [
    control(
        settings, 'of', say('gradient of', '梯度，对'), 'select',
        {stream: say('the stream', '残差流'), weights: say('W2 of each branch', '每个分支的 W2')},
        update),
    control(
        settings, 'gain', say('weights', '权重'), 'range',
        {min: 0.25, max: 4, step: 0.25, show: times}, update),
    control(
        settings, 'embedding', say('RMS of the embedding', '嵌入的 RMS'), 'range',
        {min: 0.05, max: 3, step: 0.05}, update)
  ];
  box.append(
      el('div', {class: 'controls'}, ...controls), drawing,
      el('p', {},
         say(`8 layers of two sublayers, dim 64, ${
                 DRAWS} draws of random weights, run forward and backward in this page with norma’s norms (norm.c) and their gradients (lab/norm_backward.c). A branch f is an MLP: norma has no backward pass of attention. `,
             `8 层，每层两个子层，dim 64，随机权重抽 ${
                 DRAWS} 次；前向和反向都在本页里用 norma 的归一化（norm.c）及其梯度（lab/norm_backward.c）计算。分支 f 是 MLP：norma 没有注意力的反向。`),
         say('pre: x + f(norm(x)); post: norm(x + f(x)); inside: x + norm(f(x)); sandwich: x + norm(f(norm(x))); peri: the same with a norm of the embedding.',
             'pre：x + f(norm(x))；post：norm(x + f(x))；inside：x + norm(f(x))；sandwich：x + norm(f(norm(x)))；peri：同 sandwich，嵌入也做归一化。')),
      trials(
          settings,
          [
            [
              say('A small embedding (RMS 0.1): where does pre-norm’s gradient become large? What does peri change?',
                  '嵌入很小（RMS 0.1）：pre-norm 的梯度在哪里变大？peri 改变了什么？'),
              {of: 'stream', gain: '1', embedding: '0.1'}
            ],
            [
              say('Weights twice as large: which places do not notice?',
                  '权重放大一倍：哪些位置不受影响？'),
              {of: 'stream', gain: '2', embedding: '1'}
            ],
            [
              say('The gradient of the weights: which layers learn fastest with pre-norm?',
                  '权重的梯度：pre-norm 时哪些层学得最快？'),
              {of: 'weights', gain: '1', embedding: '1'}
            ],
          ],
          (values) => {
            Object.assign(settings, values);
            controls.forEach((c) => c.update());
            update();
          }));
  draw();
}

FIGURES.gradients = gradients;
