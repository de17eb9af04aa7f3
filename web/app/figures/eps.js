// eps inside and outside the root.
'use strict';

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

FIGURES.eps = epsCurves;
