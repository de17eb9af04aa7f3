// The bundled model with other norms, eps, seed and prompt, each set by its own control.
'use strict';

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
  const norma = await startNorma();
  const story = el('p', {class: 'story', 'aria-live': 'polite'});
  const numbers = el('dl', {class: 'numbers'}), stream = el('div', {});
  const note = el('p', {class: 'note', role: 'alert'});
  let running = 0, own;
  const tried = new Map();
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
          apply));
  await tell();
}

FIGURES.playground = playground;
