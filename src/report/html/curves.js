// Charts of many ratios: against size, and their distribution. Drawn at the width they are given, again when it changes.
'use strict';

const lineStyles = {auto: 'solid', heuristic: 'dashed', cublas: 'dotted'};

function chartFrame(host, height, label) {
  const width = Math.max(320, Math.round(host.clientWidth || 800));
  const root = svg('svg', {viewBox: `0 0 ${width} ${height}`, class: 'chart', role: 'img', 'aria-label': label});
  return {root, width, height};
}

const axisText = (x, y, text, anchor = 'middle', kind = 'tick') => svg('text', {x, y, 'text-anchor': anchor, class: kind}, text);
const rule = (x1, y1, x2, y2, kind = 'rule') => svg('line', {x1, y1, x2, y2, class: kind});

function drawCharts() {
  drawSizeChart();
  drawDistribution();
}

// ---- speed-up against size

function drawSizeChart() {
  const host = byId('size-chart');
  const shapes = selection();
  if (!shapes.length) return show(host, emptyNote());
  const comparison = state.comparison;
  const points = shapes.map((i) => ({i, x: log2Size(i), y: ratioOf(comparison, i)}));
  const lines = data.comparisons.filter((c) => c.mode === comparison.mode).map((c) => ({comparison: c, at: meansBySize(c)}));
  const {root, width, height} = chartFrame(host, 380,
    `Speed-up of ${shapes.length} shapes against size; the table of comparisons has the figures.`);
  const margin = {left: 48, right: width > 560 ? 128 : 16, top: 14, bottom: 44};
  const ys = [...points.map((p) => p.y), ...lines.flatMap((line) => line.at.map((p) => p.y))];
  const low = Math.min(0.95, ...ys) * 0.985, high = Math.max(1.05, ...ys) * 1.015;
  const xs = points.map((p) => p.x);
  const x = linear(Math.floor(Math.min(...xs)) - 0.4, Math.ceil(Math.max(...xs)) + 0.4, margin.left, width - margin.right);
  const y = logarithmic(low, high, height - margin.bottom, margin.top);

  drawBuckets(root, x, width, height, margin);
  for (const tick of ratioTicks(low, high)) {
    root.append(rule(margin.left, y(tick), width - margin.right, y(tick), tick === 1 ? 'unity' : 'rule'),
      axisText(margin.left - 8, y(tick) + 4, times(tick, tick * 10 % 1 ? 2 : 1), 'end'));
  }
  root.append(axisText((margin.left + width - margin.right) / 2, height - 6, sizeName, 'middle', 'label'));
  const dots = svg('g', {class: 'dots'});
  for (const p of points) {
    dots.append(svg('circle', {cx: x(p.x).toFixed(1), cy: y(p.y).toFixed(1), r: 2.6, class: `${p.y >= 1 ? 'gain' : 'loss'}${p.i === state.selected ? ' selected' : ''}`}));
  }
  root.append(dots);
  drawLines(root, lines, x, y, width, margin);
  listenToPoints(root, points, x, y, width);
  show(host, lineKey(lines), root);
}

// Geometric means over the selected shapes whose size rounds to the same power of two.
function meansBySize(comparison) {
  const bins = new Map();
  for (const i of selection(comparison)) {
    const bin = Math.round(log2Size(i));
    if (!bins.has(bin)) bins.set(bin, []);
    bins.get(bin).push(ratioOf(comparison, i));
  }
  return [...bins].filter(([, ratios]) => ratios.length >= 3).sort((a, b) => a[0] - b[0])
    .map(([bin, ratios]) => ({x: bin, y: geometricMean(ratios)}));
}

function drawBuckets(root, x, width, height, margin) {
  const edges = [24, 28, 32, 36];
  for (const edge of edges) {
    if (x(edge) <= margin.left || x(edge) >= width - margin.right) continue;
    root.append(rule(x(edge), margin.top, x(edge), height - margin.bottom, 'edge'));
  }
  const step = width > 560 ? 2 : 4;
  for (let tick = 0; tick <= 64; tick += step) {
    if (x(tick) >= margin.left && x(tick) <= width - margin.right) root.append(axisText(x(tick), height - margin.bottom + 18, String(tick)));
  }
}

function drawLines(root, lines, x, y, width, margin) {
  const labels = [];
  for (const {comparison, at} of lines) {
    if (at.length < 2) continue;
    const path = at.map((p, i) => `${i ? 'L' : 'M'}${x(p.x).toFixed(1)} ${y(p.y).toFixed(1)}`).join('');
    root.append(svg('path', {d: path, class: 'halo'}), svg('path', {d: path, class: `line ${lineStyles[comparison.baseline]}`}));
    labels.push({text: `over ${baselineNames[comparison.baseline].replace('cuBLASLt ', '')}`, y: y(at[at.length - 1].y)});
  }
  if (margin.right < 100) return;
  labels.sort((a, b) => a.y - b.y);
  labels.forEach((label, i) => {
    if (i) label.y = Math.max(label.y, labels[i - 1].y + 15);
    root.append(axisText(width - margin.right + 8, label.y + 4, label.text, 'start', 'label'));
  });
}

function lineKey(lines) {
  const drawn = lines.filter((line) => line.at.length > 1);
  const key = drawn.map(({comparison}) => make('span', {class: 'key'},
    svg('svg', {width: 26, height: 10, 'aria-hidden': 'true'}, svg('line', {x1: 1, y1: 5, x2: 25, y2: 5, class: `line ${lineStyles[comparison.baseline]}`})),
    `over ${baselineNames[comparison.baseline]}`));
  return make('div', {class: 'keys quiet'}, make('span', {}, `Each dot a shape, over ${baselineNames[state.comparison.baseline]}. Lines: geometric means by size${drawn.length ? ',' : ''}`), ...key);
}

// The nearest dot within reach of the pointer shows its shape; a click opens it.
function listenToPoints(root, points, x, y, width) {
  const nearest = (event) => {
    const box = root.getBoundingClientRect();
    const scale = width / box.width;
    const at = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let best = null, reach = 12 ** 2;
    for (const p of points) {
      const distance = (x(p.x) - at[0]) ** 2 + (y(p.y) - at[1]) ** 2;
      if (distance < reach) [best, reach] = [p, distance];
    }
    return best;
  };
  root.addEventListener('pointermove', (event) => {
    const p = nearest(event);
    root.style.cursor = p ? 'pointer' : '';
    if (p) showTip(event.clientX, event.clientY, tipOfShape(p.i));
    else hideTip();
  });
  root.addEventListener('pointerleave', hideTip);
  root.addEventListener('click', (event) => {
    const p = nearest(event);
    if (p) select(p.i, null);
  });
}

// ---- distribution

function drawDistribution() {
  const host = byId('distribution-chart');
  const ratios = selection().map((i) => ratioOf(state.comparison, i)).sort((a, b) => a - b);
  if (!ratios.length) return show(host, emptyNote());
  const {root, width, height} = chartFrame(host, 404, `Distribution of ${ratios.length} speed-ups, median ${times(quantile(ratios, 0.5))}.`);
  const margin = {left: 48, right: 16, top: 14, bottom: 44};
  const low = Math.min(0.97, quantile(ratios, 0.004)), high = Math.max(1.03, quantile(ratios, 0.996));
  const step = [0.005, 0.01, 0.02, 0.05, 0.1].find((size) => Math.log(high / low) / size <= 64) ?? 0.1;
  const first = Math.floor(Math.log(low) / step), last = Math.ceil(Math.log(high) / step);
  const x = logarithmic(Math.exp(first * step), Math.exp(last * step), margin.left, width - margin.right);
  const floor = 216, bottom = height - margin.bottom;

  for (const tick of ratioTicks(Math.exp(first * step), Math.exp(last * step))) {
    root.append(rule(x(tick), margin.top, x(tick), bottom, tick === 1 ? 'unity' : 'rule'),
      axisText(x(tick), bottom + 18, times(tick, tick * 10 % 1 ? 2 : 1)));
  }
  root.append(axisText((margin.left + width - margin.right) / 2, height - 6, `speed-up over ${baselineNames[state.comparison.baseline]}`, 'middle', 'label'));
  drawHistogram(root, ratios, {first, last, step, x, top: margin.top + 10, floor, margin});
  drawCumulative(root, ratios, {x, top: floor + 26, bottom, width, margin, low: Math.exp(first * step), high: Math.exp(last * step)});
  show(host, make('div', {class: 'keys quiet'}, 'Above: shapes in each interval. Below: share of shapes whose speed-up is at most x.'), root);
}

// What lies outside the range counts in the outermost bars.
function drawHistogram(root, ratios, {first, last, step, x, top, floor, margin}) {
  const counts = new Array(last - first).fill(0);
  for (const ratio of ratios) {
    const bin = Math.floor(Math.log(ratio) / step + 1e-9) - first;
    ++counts[Math.min(Math.max(bin, 0), counts.length - 1)];
  }
  const most = Math.max(...counts);
  const y = linear(0, most, floor, top);
  root.append(axisText(margin.left - 8, y(most) + 4, String(most), 'end'), axisText(margin.left - 8, floor + 4, '0', 'end'));
  counts.forEach((count, bin) => {
    const from = Math.exp((first + bin) * step), to = Math.exp((first + bin + 1) * step);
    if (!count) return;
    const bar = svg('rect', {x: x(from) + 0.5, width: Math.max(x(to) - x(from) - 1, 1), y: y(count), height: floor - y(count), class: `bar ${first + bin >= 0 ? 'gain' : 'loss'}`});
    bar.addEventListener('pointermove', (event) => showTip(event.clientX, event.clientY, [`${from.toFixed(3)} to ${to.toFixed(3)}`, `${count} of ${ratios.length} shapes`]));
    bar.addEventListener('pointerleave', hideTip);
    root.append(bar);
  });
  root.append(rule(margin.left, floor, x(Math.exp(last * step)), floor, 'base'));
}

function drawCumulative(root, ratios, {x, top, bottom, width, margin, low, high}) {
  const y = linear(0, 1, bottom, top);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    root.append(rule(margin.left, y(share), width - margin.right, y(share)), axisText(margin.left - 8, y(share) + 4, `${100 * share} %`, 'end'));
  }
  let path = `M${margin.left} ${y(0).toFixed(1)}`;
  ratios.forEach((ratio, i) => {
    path += `H${x(Math.min(Math.max(ratio, low), high)).toFixed(1)}V${y((i + 1) / ratios.length).toFixed(1)}`;
  });
  const below = ratios.filter((ratio) => ratio <= 1).length / ratios.length;
  root.append(svg('path', {d: path + `H${width - margin.right}`, class: 'line solid'}),
    svg('circle', {cx: x(1), cy: y(below), r: 4, class: 'mark'}),
    axisText(x(1) + (below > 0.5 ? -10 : 12), y(below) + (below > 0.5 ? -6 : 5), `${percent(1 - below)} faster`, below > 0.5 ? 'end' : 'start', 'label ringed'));
}

const emptyNote = () => make('p', {class: 'quiet empty'}, 'No shape passes the filter.');
