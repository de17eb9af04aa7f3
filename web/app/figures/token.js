// The way of a token: the vectors of a layer, in the order in which they are computed.
'use strict';

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

FIGURES.token = tokenBoxes;
