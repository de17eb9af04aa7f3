// A massive channel of a published model, and what int8 makes of it.
'use strict';

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
                  '第 0 层：没有哪个通道占主导，两种归一化很接近。'),
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

FIGURES.massive = massiveChannel;
