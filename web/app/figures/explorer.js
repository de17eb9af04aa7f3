// The first screen: a token's vector through the layers, beside the story that the model tells.
// One button removes the norms, one swaps them, a layer is changed by a press on it; a file that is
// dropped anywhere on the page takes the bundled model's place.
'use strict';

explorer.defaults = {
  kind: 'own',
  layer: 'all',
  seed: '12',
  prompt: ''
};
const START = 'Once upon a time';  // for models without BOS, which need a first token
const LARGE = 50e6;                // weights; larger models tell shorter stories

// The files of a drop or of a file input, as {path: File}; folders with what they contain.
async function droppedFiles(transfer) {
  const found = {};
  const walk = async (entry, path) => {
    if (entry.isFile) {
      found[path + entry.name] = await new Promise((done, no) => entry.file(done, no));
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((done, no) => reader.readEntries(done, no));
      if (!some.length) return;
      for (const e of some) await walk(e, `${path}${entry.name}/`);
    }
  };
  // All at once: after an await the items are gone. A page on a disk may read files, not entries.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.());
  const files = [...transfer.files];
  if (!entries.some((entry) => entry?.isDirectory))
    return Object.fromEntries(files.map((file) => [file.name, file]));
  for (const entry of entries.filter(Boolean)) await walk(entry, '');
  return found;
}

// What norma opens: {path in its file system: File}, and the name to show.
function asModel(files) {
  const paths = Object.keys(files);
  const config = paths.find((p) => /(^|\/)config\.json$/.test(p));
  if (config) {
    const folder = config.slice(0, -'config.json'.length);
    const inside =
        paths.filter((p) => p.startsWith(folder) && !p.slice(folder.length).includes('/'));
    return {
      name: folder.split('/').at(-2) ?? say('a folder', '一个文件夹'),
      files: Object.fromEntries(inside.map((p) => [`model/${p.slice(folder.length)}`, files[p]]))
    };
  }
  const model = paths.find((p) => !/tok/i.test(p)) ?? paths[0];
  const tokenizer = paths.find((p) => p !== model);
  return {
    name: model,
    files: {model: files[model], ...(tokenizer && {'tokenizer.bin': files[tokenizer]})}
  };
}

async function readAll(files) {
  const size = Object.values(files).reduce((sum, file) => sum + file.size, 0);
  if (size > MAX_BYTES)
    throw new Error(
        say(`The files have ${gigabytes(size)}; this page holds at most ${
                gigabytes(MAX_BYTES)}. Use the program (./run FILE).`,
            `文件共 ${gigabytes(size)}，网页最多容纳 ${
                gigabytes(MAX_BYTES)}。请用程序打开（./run FILE）。`));
  const read = Object.entries(files).map(
      async ([path, file]) => [path, new Uint8Array(await file.arrayBuffer())]);
  return Object.fromEntries(await Promise.all(read));
}

// A strip of a vector: an element is a column, blue above 0, orange below, strong if large.
function strip(canvas, values, full) {
  canvas.width = values.length;
  canvas.height = 1;
  const image = new ImageData(values.length, 1);
  values.forEach((v, i) => {
    const color = v < 0 ? [226, 120, 20] : [45, 125, 200];
    const strength = Number.isFinite(v) ? Math.min(1, Math.sqrt(Math.abs(v) / full)) : 1;
    image.data.set([...color, 255 * strength], 4 * i);
  });
  canvas.getContext('2d').putImageData(image, 0, 0);
}

// A row of the picture: a layer (after the last: the classifier), which a press changes.
function layerRow(name, press) {
  const line = (text) => {
    const canvas = el('canvas', {'aria-hidden': 'true'}), rms = el('output', {});
    return {canvas, rms, parts: [el('small', {}, text), canvas, rms]};
  };
  const stream = line(say('stream', '残差流')), read = line(say('reads', '读到'));
  const what = el('span', {class: 'what'});
  const button =
      el('button', {type: 'button', class: 'layer', 'aria-pressed': 'false', onclick: press},
         el('span', {class: 'name'}, el('b', {}, name), what), ...stream.parts, ...read.parts);
  return {button, stream, read, what};
}

// Marks the words of `after` that are not those of `before` at the same place.
function wordByWord(element, after, before) {
  const old = before.split(/\s+/);
  element.replaceChildren(...after.split(/(\s+)/).map((word, i) => {
    if (i % 2 || word === old[i / 2]) return word;
    return el('mark', {}, word);
  }));
}

async function explorer(box, settings, changed) {
  let norma, name, rows, before, chosen, running = 0;
  const nats = new Map();
  const title = el('p', {class: 'model'}), note = el('p', {class: 'note', role: 'alert'});
  const picture = el('div', {class: 'layers'}),
        verdict = el('p', {class: 'verdict', role: 'status'});
  const own = el('p', {
    class: 'story own',
    role: 'toolbar',
    'aria-label':
        say('words of the story; arrow keys move between them', '故事里的词；方向键在词之间移动')
  });
  const other = el('p', {class: 'story other', 'aria-live': 'off'});
  const otherTitle = el('h4', {}), about = el('p', {class: 'token'});
  const table = el('div', {class: 'table-wrapper'}), cost = el('div', {});
  const button = (kind, big) => el('button', {
    type: 'button',
    class: big ? 'big' : '',
    'data-kind': kind,
    onclick: () => choose(settings.kind === kind ? 'own' : kind, 'all')
  });
  const remove = button('none', true), swap = button('layer', true);
  const changedNow = () => settings.kind !== 'own';
  const where = () => (settings.layer === 'all' ? undefined : +settings.layer);
  const use = (kind) => norma.swap(kind, kind === 'own' ? undefined : where());
  const limit = () => (norma.weights > LARGE ? 32 : 100);

  function choose(kind, layer) {
    Object.assign(settings, {kind, layer: kind === 'own' ? 'all' : layer});
    changed();
    show();
  }

  // Numbers of a token under the norms in use: the stream at each layer and what its norm makes of
  // it.
  const trace = () => norma.trace(chosen, Infinity).map((at, layer) => {
    const read = norma.normed(layer, 0, at.x);
    return {...at, read, readRms: norma.rms(read)};
  });

  function draw(now, was) {
    const loudest = Math.max(...was.map((at) => at.rms));
    rows.forEach(({button, stream, read, what}, layer) => {
      const is = now[layer], hit = changedNow() && (settings.layer === 'all' || where() === layer);
      strip(stream.canvas, is.x, 2 * loudest);
      strip(read.canvas, is.read, 2 * loudest);
      stream.rms.textContent = digits(is.rms, 2);
      read.rms.textContent = digits(is.readRms, 2);
      what.textContent =
          hit ? (settings.kind === 'none' ? say('no norm', '无归一化') : 'LayerNorm') : '';
      button.setAttribute('aria-pressed', String(hit));
    });
    about.replaceChildren(
        say('The vector of ', '第一个故事里 '), el('b', {}, `“${chosen.trim().split(/\s+/).at(-1)}”`),
        say(' in the first story: blue above 0, orange below; on the right its size (RMS, the root of the mean square). Press a word or a layer.',
            ' 的向量逐层的样子：蓝大于 0，橙小于 0；右边是大小（RMS，均方根）。可以点一个词或一层。'));
    table.replaceChildren(normTable(now));
  }

  // The norms of each layer: what stands before attention, and what LayerNorm would take.
  function normTable(now) {
    const head = [
      say('layer', '层'), say('RMS of the stream', '残差流的 RMS'),
      say('RMS of what the layer reads', '这一层读到的 RMS'),
      say('LayerNorm would subtract: |mean| / RMS', 'LayerNorm 会减去：|均值| / RMS')
    ];
    const cells = (list, tag) => el('tr', {}, ...list.map((text) => el(tag, {}, text)));
    return el(
        'table', {}, el('thead', {}, cells(head, 'th')),
        el('tbody', {},
           ...now.map(
               (at, layer) => cells(
                   [
                     layer < norma.config.layers ? String(layer) : say('end', '末尾'),
                     digits(at.rms, 3), digits(at.readRms, 3), `${digits(100 * at.mean, 2)} %`
                   ],
                   'td'))));
  }

  function judge(now, was) {
    const key = `${settings.kind} ${settings.layer}`;
    use('own');
    if (!nats.has('own all')) nats.set('own all', norma.nll(FIXED_TEXT));
    use(settings.kind);
    if (!nats.has(key)) nats.set(key, norma.nll(FIXED_TEXT));
    const [is, were] = [nats.get(key), nats.get('own all')].map((v) => digits(v, 3));
    const rms = (list) => digits(list.at(-1).rms, 2);
    box.dataset.nats = String(nats.get(key));
    const one = settings.layer !== 'all', at = Math.min(where() ?? 0, now.length - 1);
    const reads = (list) => digits(list[at].readRms, 2);
    const sizes = was.map((at) => at.readRms);
    const span =
        [Math.min(...sizes), Math.max(...sizes)].map((v) => digits(v, 2)).join(say(' to ', ' 到 '));
    const error = [
      `Error on a fixed text: ${is} nats per token, not ${were}; less is better.`,
      `固定文本上的误差：每个 token ${is} nat，不是 ${were}（越小越好）。`
    ];
    const smaller = !one && now.at(-1).rms < was.at(-1).rms;
    const why = smaller ?
        [' A layer that reads small numbers adds little.', '读到的数小，层加上去的也少。'] :
        ['', ''];
    const [bold, text] = !changedNow() ?
        [
          say('Before each layer reads the vector, RMSNorm divides it by its size, then multiplies each number by a learned weight, γ.',
              '每一层读取向量之前，RMSNorm 先把它除以它的大小，再把每个数乘以学到的权重 γ。'),
          say(`From layer to layer the vector (the stream) grows from ${digits(was[0].rms, 2)} to ${
                  rms(was)}. What a layer reads has a size of ${
                  span}, which γ sets, not the stream.`,
              `逐层传递的向量（残差流）从 ${digits(was[0].rms, 2)} 长到 ${
                  rms(was)}；各层读到的大小是 ${span}，由 γ 决定，与残差流的大小无关。`)
        ] :
        settings.kind === 'none' ?
        [
          one ?
              say(`Layer ${settings.layer} reads the vector as it is, of size ${reads(now)}, not ${
                      reads(was)}.`,
                  `第 ${settings.layer} 层直接读原始向量：大小是 ${reads(now)}，不是 ${
                      reads(was)}。`) :
              say(`Every layer reads the vector as it is: layer 0 reads size ${reads(now)}, not ${
                      reads(was)}.`,
                  `每一层直接读原始向量：第 0 层读到的大小是 ${reads(now)}，不是 ${reads(was)}。`),
          say(`It was not trained for that.${why[0]} The stream ends at ${rms(now)}, not ${
                  rms(was)}. ${error[0]}`,
              `训练时从未见过这样的数。${why[1]}残差流最后是 ${rms(now)}，不是 ${rms(was)}。${
                  error[1]}`)
        ] :
        [
          say('LayerNorm first subtracts the mean, then divides by the size.',
              'LayerNorm 先减去均值，再除以大小。'),
          say(`Here the mean is ${
                  digits(
                      100 * was[where() ?? 1]?.mean,
                      2)} % of the size, so the numbers hardly change; after its first other word a story goes its own way. ${
                  error[0]}`,
              `这里均值是大小的 ${
                  digits(
                      100 * was[where() ?? 1]?.mean,
                      2)} %，所以数值几乎不变；只要有一个词不同，故事就会走上另一条路。${error[1]}`)
        ];
    verdict.replaceChildren(el('b', {}, bold), text);
  }

  // Tells a story; each(text) is called as it grows. Returns it, or null if another began.
  async function tell(mine, each) {
    let story = settings.prompt, piece = '', count = 0;
    norma.begin(story, {seed: Math.max(1, +settings.seed | 0)});
    const start = performance.now();
    while (count < limit() && piece !== null) {
      const turn = performance.now();
      while (count < limit() && performance.now() - turn < 12 && (piece = norma.next()) !== null) {
        story += piece;
        count++;
      }
      each(story);
      await new Promise((next) => setTimeout(next));
      if (mine !== running) return null;
    }
    box.dataset.ms = digits(performance.now() - start);
    return story;
  }

  // The words of the model's own story; a press on one shows its vector.
  function ownStory(story) {
    let at = 0;
    fillToolbar(own, story.split(/(\s+)/).map((word) => {
      const end = at += word.length;
      if (!word.trim()) return word;
      const press = () => {
        chosen = story.slice(0, end);
        show();
      };
      const pressed = String(chosen.length === end);
      return el(
          'button', {type: 'button', class: 'word', 'aria-pressed': pressed, onclick: press}, word);
    }));
  }

  async function show() {
    const mine = ++running;
    note.textContent = '';
    delete box.dataset.told;
    try {
      const label = (b, off, on) => {
        const pressed = settings.kind === b.dataset.kind;
        b.textContent = pressed ? on : off;
        b.setAttribute('aria-pressed', String(pressed));
      };
      label(remove, say('Remove the norms', '去掉归一化'), say('Put the norms back', '恢复归一化'));
      label(
          swap, say('Swap in LayerNorm', '换成 LayerNorm'),
          say('Put RMSNorm back', '换回 RMSNorm'));
      if (!before) {
        use('own');
        own.textContent = other.textContent = '';
        const story = await tell(mine, (text) => own.textContent = text);
        if (story === null) return;
        before = story;
        chosen = story.split(/(?<=\S)(?=\s)/).slice(0, 5).join('') || story;
      }
      ownStory(before);
      use('own');
      const was = trace();
      use(settings.kind);
      const now = changedNow() ? trace() : was;
      draw(now, was);
      judge(now, was);
      otherTitle.textContent = changedNow() ?
          (settings.kind === 'none' ?
               say('Without (red: other words)', '去掉之后（红：不同的词）') :
               say('With LayerNorm (red: other words)', '用 LayerNorm（红：不同的词）')) :
          '';
      box.classList.toggle('changed', changedNow());
      other.textContent = '';
      if (changedNow() && !Number.isFinite(+box.dataset.nats))
        other.textContent =
            say('The numbers overflow: there is no next word.', '数值溢出：没有下一个词。');
      else if (changedNow()) {
        use(settings.kind);
        const story = await tell(mine, (text) => wordByWord(other, text, before));
        if (story === null) return;
      }
      box.dataset.told = 'yes';
    } catch (error) {
      if (mine === running) fail(error);
    }
  }

  function fail(error) {
    own.textContent = other.textContent = verdict.textContent = about.textContent = '';
    picture.replaceChildren();
    table.replaceChildren();
    note.textContent = error.message;
    box.dataset.told = 'failed';
  }

  // Enters the model that norma has opened.
  function enter(modelName) {
    name = modelName;
    const c = norma.config;
    norma.weights = c.vocabSize * c.dim +
        c.layers * (2 * c.dim * c.headSize * (c.heads + c.kvHeads) + 3 * c.dim * c.hiddenDim);
    title.replaceChildren(
        el('b', {}, name),
        say(` runs in this page: ${c.layers} layers and the output; a vector has ${c.dim} numbers.`,
            ` 就在本页里运行：${c.layers} 层和输出，向量有 ${c.dim} 个数。`),
        norma.fused ? '' :
                      say(' This browser has no fused multiply-add: the last digits are its own.',
                          ' 此浏览器没有融合乘加：末几位数字与程序不同。'));
    nats.clear();
    before = undefined;
    cost.replaceChildren();
    if (where() > c.layers) Object.assign(settings, {kind: 'own', layer: 'all'});
    if (!settings.prompt && norma.encode('').length === 0) settings.prompt = START;
    prompt.value = settings.prompt;
    rows = Array.from({length: c.layers + 1}, (_, layer) => {
      const text =
          layer < c.layers ? say(`layer ${layer}`, `第 ${layer} 层`) : say('output', '输出');
      return layerRow(
          text,
          () => changedNow() && where() === layer ?
              choose('own', 'all') :
              choose(settings.kind === 'layer' ? 'layer' : 'none', String(layer)));
    });
    picture.replaceChildren(...rows.map((row) => row.button));
    picture.classList.toggle('many', c.layers > 8);
  }

  // Opens files in place of the model before, of which nothing stays; the bundled model again if
  // they are refused.
  async function open(files) {
    running++;
    fail(new Error(say('reading …', '正在读取……')));
    delete box.dataset.told;
    title.textContent = '';
    settings.kind = 'own';
    settings.prompt = '';
    try {
      const model = asModel(files), bytes = await readAll(model.files);
      title.textContent = model.name;
      await new Promise((next) => setTimeout(next, 30));
      norma = await startNorma();
      norma.openFiles(bytes);
      enter(model.name);
      changed();
      await show();
    } catch (error) {
      norma = await startNorma();
      enter(BUNDLED);
      changed();
      await show();
      box.dataset.told = 'refused';
      note.textContent =
          `${Object.keys(files)[0] ?? ''}: ${error.message.replace(/^norma: |[.。]$/g, '')}. ` +
          say('This is the bundled model again.', '已换回自带的模型。');
    }
  }

  const fromInput = (input) =>
      open(Object.fromEntries([...input.files].map((f) => [f.webkitRelativePath || f.name, f])));
  const prompt = el('input', {
    type: 'text',
    'aria-label': say('the story begins with', '故事的开头'),
    placeholder: say('Begin the story …', '故事的开头……'),
    onchange: () => {
      settings.prompt = prompt.value;
      again();
    }
  });
  const again = () => {
    before = undefined;
    changed();
    show();
  };
  const whole =
      el('button', {
        type: 'button',
        'aria-pressed': 'false',
        onclick: () => whole.ariaPressed = String(stories.classList.toggle('whole'))
      },
         say('Show all', '全文'));
  const another =
      el('button', {
        type: 'button',
        onclick: () => {
          settings.seed = String((+settings.seed | 0) + 1);
          again();
        }
      },
         say('Another story', '换个故事'));
  const file = el('input', {type: 'file', multiple: '', onchange: () => fromInput(file)});
  const folder =
      el('input', {type: 'file', webkitdirectory: '', onchange: () => fromInput(folder)});
  addEventListener('dragover', (e) => e.preventDefault());
  addEventListener('drop', async (e) => {
    e.preventDefault();
    try {
      open(await droppedFiles(e.dataTransfer));
    } catch {
      note.textContent =
          say('This browser does not let a page on a disk read a dropped folder; choose it below.',
              '此浏览器不允许磁盘上的网页读取拖入的文件夹，请在下方选择。');
    }
  });
  const measure =
      el('button', {
        type: 'button',
        onclick: () => {
          use(settings.kind);
          const frame = el('iframe', {title: say('a profile', '性能剖析'), class: 'profile'});
          frame.srcdoc = norma.profile(before || FIXED_TEXT);
          cost.replaceChildren(frame);
        }
      },
         say('Time each layer in this browser', '在此浏览器里测各层的时间'));
  const stories =
      el('div', {class: 'stories'},
         el('div', {}, el('h4', {}, say('With its norms', '有归一化')), own),
         el('div', {class: 'after'}, otherTitle, other));
  box.append(
      title, el('div', {class: 'controls'}, remove, swap), note, picture, verdict, stories,
      el('div', {class: 'controls'}, prompt, another, whole), about,
      el('details', {},
         el('summary', {},
            say('Your own model; its norms; their cost', '你自己的模型、它的归一化和开销')),
         el('p', {},
            say('Drop a file anywhere on this page: GGUF, llama2.c’s .bin with its tokenizer, or a Hugging Face folder. It stays on this machine: the page’s policy forbids every connection. ',
                '把文件拖到本页任意处：GGUF、llama2.c 的 .bin 加分词器，或 Hugging Face 文件夹。文件不会离开这台机器：本页的策略禁止一切网络连接。'),
            el('label', {}, say('Or choose files: ', '或选择文件：'), file), ' ',
            el('label', {}, say('or a folder: ', '或文件夹：'), folder)),
         table, measure, cost));
  norma = await startNorma();
  enter(BUNDLED);
  await show();
}

FIGURES.explorer = explorer;
