// Heat maps: a panel for each K with M down and N to the right, one cell a shape; keyboard and pointer.
'use strict';

const most = 24;  // more values of K than that are no grid

const heat = {panels: [], cells: new Map()};

// Panels and cells once; colours follow the comparison and the filters.
function buildHeatMaps() {
  const ks = distinct(data.k);
  if (ks.length > most) {
    byId('panels').remove();
    show(byId('heat-note'), `These shapes have ${ks.length} values of K and make no grid; the list of shapes below has them all.`);
    return;
  }
  const at = new Map();
  for (let i = 0; i < shapeCount; ++i) at.set(`${data.m[i]},${data.n[i]},${data.k[i]}`, i);
  for (const k of ks) heat.panels.push(buildPanel(k, at));
  show(byId('panels'), ...heat.panels.map((panel) => panel.element));
}

function buildPanel(k, at) {
  const inside = data.k.flatMap((value, i) => (value === k ? [i] : []));
  const ms = distinct(inside.map((i) => data.m[i]));
  const ns = distinct(inside.map((i) => data.n[i]));
  const mean = make('span', {class: 'mean'});
  const grid = make('div', {role: 'grid', class: 'grid', 'aria-label': `Speed-up for K = ${k}`, '--columns': ns.length});
  const rows = [];
  for (const m of ms) {
    const row = make('div', {role: 'row', class: 'cells'}, make('span', {role: 'rowheader', class: 'axis', 'aria-label': `M = ${m}`}, shortSize(m)));
    rows.push(ns.map((n) => {
      const i = at.get(`${m},${n},${k}`);
      const cell = make('div', {role: 'gridcell', class: 'cell none', tabindex: -1, 'data-shape': i, 'aria-label': `${m} × ${n} × ${k}: not measured`});
      if (i !== undefined) heat.cells.set(i, cell);
      row.append(cell);
      return cell;
    }));
    grid.append(row);
  }
  const foot = make('div', {role: 'row', class: 'cells'}, make('span', {class: 'axis corner', role: 'columnheader'}, 'M\u2009\\\u2009N'),
    ...ns.map((n) => make('span', {role: 'columnheader', class: 'axis', 'aria-label': `N = ${n}`}, shortSize(n))));
  grid.append(foot);
  rows[0][0].tabIndex = 0;
  listenToGrid(grid, rows);
  const element = make('figure', {class: 'panel'}, make('figcaption', {}, make('span', {}, `K = ${k}`), mean), grid);
  return {k, element, mean, inside};
}

const shapeOfCell = (cell) => (cell && cell.dataset.shape !== undefined ? Number(cell.dataset.shape) : -1);

function listenToGrid(grid, rows) {
  const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  grid.addEventListener('keydown', (event) => {
    const cell = event.target.closest('.cell');
    if (!cell) return;
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      select(shapeOfCell(cell), cell);
      return;
    }
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const row = rows.findIndex((cells) => cells.includes(cell));
    const next = rows[row + move[0]]?.[rows[row].indexOf(cell) + move[1]];
    if (!next) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  grid.addEventListener('click', (event) => {
    const cell = event.target.closest('.cell');
    if (cell) select(shapeOfCell(cell), cell);
  });
  grid.addEventListener('pointermove', (event) => {
    const i = shapeOfCell(event.target.closest('.cell'));
    if (i >= 0) showTip(event.clientX, event.clientY, tipOfShape(i));
    else hideTip();
  });
  grid.addEventListener('pointerleave', hideTip);
  grid.addEventListener('focusin', (event) => {
    const cell = event.target.closest('.cell');
    if (!cell || !cell.matches(':focus-visible')) return;
    const box = cell.getBoundingClientRect();
    if (shapeOfCell(cell) >= 0) showTip(box.right, box.bottom, tipOfShape(shapeOfCell(cell)));
  });
  grid.addEventListener('focusout', hideTip);
}

function paintHeatMaps() {
  const all = [];
  for (let i = 0; i < shapeCount; ++i) all.push(ratioOf(state.comparison, i));
  const limit = rangeLimit(all.filter((ratio) => ratio !== null));
  show(byId('heat-legend'), heatLegend(limit));
  for (const [i, cell] of heat.cells) {
    const ratio = all[i];
    const {side, strength} = ratio === null ? {side: 'none', strength: 0} : tint(ratio, limit);
    cell.className = `cell ${side}${strength > 0.72 ? ' strongest' : strength > 0.55 ? ' strong' : ''}${passes(i) ? '' : ' off'}${i === state.selected ? ' selected' : ''}`;
    cell.style.setProperty('--strength', `${(100 * strength).toFixed(1)}%`);
    cell.textContent = ratio === null ? '' : ratio.toFixed(2);
    cell.setAttribute('aria-label', `${shapeName(i)}: ${ratio === null ? 'not measured' : `${times(ratio)} as fast`}`);
    cell.setAttribute('aria-selected', i === state.selected);
  }
  for (const panel of heat.panels) {
    panel.element.hidden = state.k.size > 0 && !state.k.has(panel.k);
    const ratios = panel.inside.filter((i) => passes(i) && all[i] !== null).map((i) => all[i]);
    show(panel.mean, ratios.length ? times(geometricMean(ratios)) : 'none');
  }
}

function heatLegend(limit) {
  const steps = [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1];
  const labels = new Map([[-1, `≤ ${(1 / limit).toFixed(2)}`], [-0.5, limit ** -0.5], [0, 1], [0.5, limit ** 0.5], [1, `≥ ${limit.toFixed(2)}`]]);
  const swatches = steps.map((step) => make('span', {class: 'step'},
    make('i', {class: `cell ${step < 0 ? 'loss' : 'gain'}`, '--strength': `${100 * Math.abs(step)}%`}),
    make('span', {}, labels.has(step) ? (typeof labels.get(step) === 'number' ? labels.get(step).toFixed(2) : labels.get(step)) : '')));
  return make('div', {class: 'legend'}, make('span', {class: 'quiet'}, 'slower'), make('span', {class: 'steps'}, ...swatches),
    make('span', {class: 'quiet'}, 'faster'), make('span', {class: 'step apart'}, make('i', {class: 'cell none'}), make('span', {}, 'not measured')));
}
