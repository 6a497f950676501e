// Drill-down: everything that is known of one shape, in a panel beside the page.
'use strict';

let openedFrom = null;  // gets the focus back

// i < 0: nothing was hit. from: the element that opened it, or null.
function select(i, from) {
  if (i < 0) return;
  const previous = state.selected;
  const before = from?.getBoundingClientRect().top;
  state.selected = i;
  openedFrom = from;
  for (const each of [previous, i]) {
    const cell = heat.cells.get(each);
    cell?.classList.toggle('selected', each === i);
    cell?.setAttribute('aria-selected', each === i);
  }
  drawDetail(i);
  drawCharts();
  // The panel takes width from the page: what was clicked stays where it was.
  if (from?.isConnected) window.scrollBy({top: from.getBoundingClientRect().top - before, behavior: 'instant'});
  history.replaceState(null, '', `#${data.m[i]}x${data.n[i]}x${data.k[i]}`);
  byId('detail').focus({preventScroll: true});
}

function closeDetail() {
  const cell = heat.cells.get(state.selected);
  cell?.classList.remove('selected');
  cell?.setAttribute('aria-selected', false);
  state.selected = -1;
  byId('detail').hidden = true;
  document.body.classList.remove('with-detail');
  history.replaceState(null, '', location.pathname + location.search);
  drawCharts();
  (openedFrom?.isConnected ? openedFrom : byId('heat-values')).focus({preventScroll: true});
}

function drawDetail(i) {
  const panel = byId('detail');
  const bytes = 2 * (data.m[i] * data.k[i] + data.k[i] * data.n[i] + data.m[i] * data.n[i]);
  const ours = timeOf('offline.ours_us', i) ?? timeOf(state.comparison.ours, i);
  const flops = 2 * data.m[i] * data.n[i] * data.k[i];
  const rates = ours ? `${rate(flops / ours, 'FLOP/s')}, ${rate(bytes / ours, 'B/s')}` : '';
  show(panel,
    make('div', {class: 'heading'}, make('h2', {id: 'detail-title'}, shapeName(i)),
      make('button', {type: 'button', class: 'button', 'aria-label': 'Close', onclick: closeDetail}, '✕')),
    make('p', {class: 'quiet'}, `${sizeName} ${log2Size(i).toFixed(1)}, bucket ${bucketNames[data.bucket[i]]}${rates ? `; ours ${rates}` : ''}`),
    ratioList(i), layoutNote(i), timeBars(i), recipePart(i), gatesPart(i), furtherColumns(i));
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add('with-detail');
}

// perMicrosecond: floating-point operations or bytes.
function rate(perMicrosecond, unit) {
  const tera = perMicrosecond / 1e6;
  return tera >= 1 ? `${tera.toPrecision(3)} T${unit}` : `${(1e3 * tera).toPrecision(3)} G${unit}`;
}

function ratioList(i) {
  const known = data.comparisons.filter((c) => c.baseline === 'auto' && ratioOf(c, i) !== null);
  return make('dl', {class: 'ratios'}, ...known.map((comparison) => {
    const ratio = ratioOf(comparison, i);
    return make('div', {title: modeMeanings[comparison.mode]}, make('dt', {}, modeNames[comparison.mode]), make('dd', {class: ratio >= 1 ? 'gain-text' : 'loss-text'}, times(ratio)));
  }));
}

function layoutNote(i) {
  const parts = [['Ours', 'ours'], ['cuBLASLt', 'lt_auto']].flatMap(([name, subject]) => {
    const layout = layoutOf(subject, i);
    if (!layout) return [];
    const [nn, tn] = [timeOf(`offline.${subject}_nn_us`, i), timeOf(`offline.${subject}_tn_us`, i)];
    const [fast, slow] = layout === 'nn' ? [nn, tn] : [tn, nn];
    return [`${name}: ${layout.toUpperCase()} won, ${duration(fast)} against ${duration(slow)}.`];
  });
  return parts.length ? make('p', {class: 'layouts'}, parts.join(' ')) : null;
}

// ---- times

const timeGroups = [
  {title: 'Cold', prefix: 'offline', keys: ['ours_us', 'ours_nn_us', 'ours_tn_us', 'ours_pdl_us', 'lt_auto_us', 'lt_auto_nn_us', 'lt_auto_tn_us', 'lt_heuristic_us', 'cublas_us']},
  {title: 'Warm', prefix: 'offline', keys: ['ours_warm_us', 'ours_warm_nn_us', 'ours_warm_tn_us', 'ours_pdl_warm_us', 'lt_auto_warm_us', 'lt_auto_warm_nn_us', 'lt_auto_warm_tn_us']},
  {title: 'Call', prefix: 'call', keys: ['ours_us', 'lt_auto_us', 'lt_heuristic_us', 'cublas_us']},
  {title: 'Server, median', prefix: 'server', keys: ['ours_us', 'lt_auto_us', 'lt_heuristic_us', 'cublas_us']},
  {title: 'Server, 95th percentile', prefix: 'server', keys: ['ours_p95_us', 'lt_auto_p95_us', 'lt_heuristic_p95_us', 'cublas_p95_us']},
];

function subjectName(key) {
  const subject = key.startsWith('ours') ? 'ours' : key.startsWith('lt_auto') ? 'cuBLASLt auto' : key.startsWith('lt_heuristic') ? 'cuBLASLt heuristic' : 'cuBLAS';
  const layout = /_(nn|tn|pdl)_/.exec(key);
  return layout ? `${subject}, ${layout[1].toUpperCase()}` : subject;
}

function timeBars(i) {
  const known = new Set(timeGroups.flatMap(({prefix, keys}) => keys.map((key) => `${prefix}.${key}`)));
  const other = Object.keys(data.times).filter((key) => !known.has(key)).map((key) => ({key, name: key}));
  const groups = [...timeGroups.map(({title, prefix, keys}) => ({title, bars: keys.map((key) => ({key: `${prefix}.${key}`, name: subjectName(key)}))})), {title: 'Further times', bars: other}];
  return make('div', {class: 'bars'}, ...groups.flatMap(({title, bars}) => {
    const shown = bars.map((bar) => ({...bar, time: timeOf(bar.key, i)})).filter((bar) => bar.time);
    if (!shown.length) return [];
    const longest = Math.max(...shown.map((bar) => bar.time));
    return [make('h3', {}, title), make('table', {class: 'times'}, make('tbody', {}, ...shown.map((bar) => make('tr', {},
      make('th', {scope: 'row'}, bar.name), make('td', {class: 'track'}, make('i', {class: bar.name.startsWith('ours') ? 'ours' : 'theirs', '--length': `${(100 * bar.time / longest).toFixed(1)}%`})),
      make('td', {class: 'number'}, duration(bar.time))))))];
  }));
}

// ---- recipe, gates, the rest

function recipePart(i) {
  const text = textOf(recipeKey, i);
  if (!text) return null;
  const [family, ...knobs] = text.trim().split(/\s+/);
  const copy = make('button', {type: 'button', class: 'button small'}, 'Copy');
  copy.addEventListener('click', () => navigator.clipboard?.writeText(text).then(() => { copy.textContent = 'Copied'; }, () => { copy.textContent = 'Not allowed'; }));
  const pairs = knobs.map((knob) => (knob.includes('=') ? [knob.slice(0, knob.indexOf('=')), knob.slice(knob.indexOf('=') + 1)] : [knob, '']));
  return make('div', {}, make('div', {class: 'heading'}, make('h3', {}, `Recipe: ${family}`), copy), make('code', {class: 'recipe-text'}, text),
    make('dl', {class: 'knobs'}, ...pairs.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value)))), otherRecipes(i, text));
}

// Those of the other layout and the other modes, where they differ.
function otherRecipes(i, text) {
  const keys = Object.keys(data.texts).filter((key) => isRecipe(key) && textOf(key, i) && textOf(key, i) !== text);
  if (!keys.length) return null;
  return make('details', {class: 'others'}, make('summary', {}, 'Other layouts and modes'),
    ...keys.flatMap((key) => [make('h3', {}, textTitle(key)), make('code', {class: 'recipe-text'}, textOf(key, i))]));
}

const isRecipe = (key) => /\.recipe(_|$)/.test(key);
const textTitle = (key) => key.replace(/^offline\./, '').replace(/^lt_auto$/, 'cuBLASLt auto').replace(/[._]/g, ' ').replace(/ (nn|tn)$/, (layout) => layout.toUpperCase());

function gatesPart(i) {
  const text = textOf('offline.gates', i);
  return text ? make('div', {}, make('h3', {}, 'Gates'), make('p', {class: 'gates'}, text)) : null;
}

function furtherColumns(i) {
  const keys = Object.keys(data.texts).filter((key) => !isRecipe(key) && key !== 'offline.gates' && textOf(key, i) !== '');
  if (!keys.length) return null;
  return make('div', {}, make('h3', {}, 'Further columns'),
    make('dl', {class: 'facts'}, ...keys.flatMap((key) => [make('dt', {}, textTitle(key)), make('dd', {}, textOf(key, i))])));
}
