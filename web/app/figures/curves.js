// Curves of committed tables (window.normaTables).
'use strict';

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
