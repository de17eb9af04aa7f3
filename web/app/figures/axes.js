// Axes: which numbers of a batch share a mean, and what padding does to it. A press chooses a
// number; those that share its statistics are marked.
'use strict';

const LENGTHS = [4, 3, 2], CHANNELS = 4, LONGEST = 8;  // of the batch: tokens of each text
// Two digits of sin(): numbers without a pattern, of mean 0.4.
const numberAt = (text, token, channel) =>
    Math.round(10 * (0.4 + 1.6 * Math.sin(7 * text + 3 * token * token + 5 * channel + 1))) / 10;
// Which cells share the statistics of the chosen one.
const SHARED = {
  token: (a, b) => a.text === b.text && a.token === b.token,
  batch: (a, b) => a.channel === b.channel,
  text: (a, b) => a.channel === b.channel && a.text === b.text,
};

axes.defaults = {
  axis: 'token',
  padding: '0',
  side: 'after',
  chosen: '1.1.1'
};

const signed = (v, n) => digits(v, n).replace('-', '−');

async function axes(box, settings, changed) {
  const norma = await startNorma();
  const drawing = el('div', {
    class: 'batch',
    role: 'toolbar',
    'aria-label':
        say('numbers of a batch; arrow keys move between them', '一批里的数；方向键在其间移动')
  });
  const status = el('p', {role: 'status'}), history = el('p', {});

  // The cells of a batch: texts are filled up to the longest one's tokens, and by `padding` more.
  const cellsOf = (padding) => {
    const width = Math.min(LONGEST, Math.max(...LENGTHS) + padding);
    return LENGTHS.flatMap((n, text) => {
      const shift = settings.side === 'after' ? 0 : width - n;
      return Array.from({length: CHANNELS * width}, (_, i) => {
        const channel = Math.floor(i / width), column = i % width, token = column - shift;
        const padded = token < 0 || token >= n;
        const value = padded ? 0 : numberAt(text, token, channel);
        return {text, channel, column, token: padded ? `padding ${column}` : token, padded, value};
      });
    });
  };
  // The chosen number among others, normalized by norm.c with mean and variance.
  const result = (padding) => {
    const cells = cellsOf(padding), [text, token, channel] = settings.chosen.split('.').map(Number);
    const chosen = cells.find((c) => c.text === text && c.token === token && c.channel === channel);
    const shared = cells.filter((c) => SHARED[settings.axis](c, chosen));
    const values = shared.map((c) => c.value), zeros = values.map(() => 0);
    return {cells, chosen, shared, y: norma.norm(1, 1e-5, values, zeros).y[shared.indexOf(chosen)]};
  };

  function draw() {
    const {cells, chosen, shared, y} = result(+settings.padding);
    const columns = Math.max(...cells.map((c) => c.column)) + 1;
    const cell = (c) => {
      const shade = Math.min(1, Math.abs(c.value) / 2) * 70, color = c.value < 0 ? 2 : 1;
      const attributes = {
        class: `cell${shared.includes(c) ? ' shared' : ''}${c.padded ? ' padded' : ''}`,
        style: `--shade:${shade}%;--hue:var(--figure-${color})`
      };
      if (c.padded) return el('span', attributes, '0');
      return el(
          'button', {
            ...attributes,
            type: 'button',
            'aria-pressed': String(c === chosen),
            onclick: () => {
              settings.chosen = `${c.text}.${c.token}.${c.channel}`;
              update();
            }
          },
          signed(c.value, 2));
    };
    drawing.style.setProperty('--columns', columns);
    fillToolbar(
        drawing,
        LENGTHS.flatMap(
            (_, text) =>
                [el('small', {},
                    say(`text ${text + 1}: tokens →, channels ↓`,
                        `文本 ${text + 1}：token →，通道 ↓`)),
                 el('div', {class: 'cells'}, ...cells.filter((c) => c.text === text).map(cell))]));
    status.textContent =
        say(`${signed(chosen.value, 2)} shares mean and variance with ${
                shared.length - 1} numbers, of which ${
                shared.filter((c) => c.padded).length} are padding. It becomes ${signed(y, 4)}.`,
            `${signed(chosen.value, 2)} 与 ${shared.length - 1} 个数共用均值和方差，其中 ${
                shared.filter((c) => c.padded).length} 个是填充。结果是 ${signed(y, 4)}。`);
    history.textContent = say('By columns of padding: ', '按填充的列数：') +
        Array
            .from(
                {length: LONGEST - Math.max(...LENGTHS) + 1},
                (_, p) => `${p}: ${signed(result(p).y, 4)}`)
            .join(', ') +
        say('.', '。');
  }
  const update = () => {
    changed();
    draw();
  };
  const controls = [
    control(
        settings, 'axis', say('mean over', '均值取自'), 'select', {
          token:
              say('a token’s channels (RMSNorm, LayerNorm)',
                  '一个 token 的各通道（RMSNorm、LayerNorm）'),
          batch: say(
              'a channel’s tokens, whole batch (BatchNorm)', '一个通道、整批的 token（BatchNorm）'),
          text:
              say('a channel’s tokens, one text (InstanceNorm)',
                  '一个通道、一条文本的 token（InstanceNorm）')
        },
        update),
    control(
        settings, 'padding', say('padding', '填充'), 'range',
        {min: 0, max: LONGEST - Math.max(...LENGTHS), step: 1}, update),
    control(
        settings, 'side', say('padding stands', '填充在'), 'select',
        {after: say('after the text', '文本之后'), before: say('before it', '文本之前')}, update)
  ];
  box.append(
      el('div', {class: 'controls'}, ...controls), drawing, status, history,
      trials(
          settings,
          [
            [
              say('A token’s channels: add padding. Does the result move?',
                  '一个 token 的各通道：加填充，结果会动吗？'),
              {axis: 'token', padding: '4'}
            ],
            [
              say('BatchNorm: the same. How much of it is padding?',
                  'BatchNorm：同样加填充。其中有多少是填充？'),
              {axis: 'batch', padding: '4'}
            ],
            [
              say('Move the padding before the texts: does BatchNorm notice? Would attention?',
                  '把填充移到文本之前：BatchNorm 会变吗？注意力呢？'),
              {axis: 'batch', padding: '4', side: 'before'}
            ],
          ],
          (values) => {
            Object.assign(settings, values);
            controls.forEach((c) => c.update());
            update();
          }));
  draw();
}

FIGURES.axes = axes;
