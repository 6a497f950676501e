// Tables: headline tiles, means with their intervals, every comparison, the list of shapes, the tables that come along.
'use strict';

const groupOf = (comparison, bucket) => comparison.groups.find((group) => group.bucket === bucket);

// ---- headline

function buildTiles() {
  const wanted = ['cold', 'warm', 'pdl', 'call', 'server'].map((mode) => comparisonOf(mode, 'auto')).filter(Boolean);
  show(byId('tiles'), ...wanted.map((comparison, index) => {
    const group = groupOf(comparison, 'all');
    const interval = group.interval ? `95 %: ${group.interval[0].toFixed(3)} to ${group.interval[1].toFixed(3)}` : 'one shape';
    return make('div', {class: `tile${index === 0 ? ' first' : ''}`},
      make('div', {class: 'tile-name'}, modeNames[comparison.mode]),
      make('div', {class: 'tile-value'}, times(group.geomean)),
      make('div', {class: 'quiet'}, interval),
      make('div', {class: 'quiet'}, `faster on ${grouped(Math.round(group.wins * group.count))} of ${grouped(group.count)}`));
  }));
}

// Geometric means per bucket with their intervals on a common axis, a column a comparison; the shares are of the first.
function forestTable(caption, columns) {
  const bounds = columns.flatMap(({comparison}) => comparison.groups.flatMap((g) => g.interval ?? [g.geomean]));
  const axis = {low: Math.min(0.97, ...bounds) * 0.99, high: Math.max(1.03, ...bounds) * 1.01};
  const main = columns[0].comparison;
  const head = make('tr', {}, make('th', {scope: 'col'}, sizeName), make('th', {scope: 'col', class: 'number'}, 'Shapes'),
    ...columns.map(({title}) => make('th', {scope: 'col', colspan: 2, class: 'forest-head'}, title)),
    make('th', {scope: 'col', class: 'number'}, 'Faster'), make('th', {scope: 'col', class: 'number'}, 'by > 1 %'),
    make('th', {scope: 'col', class: 'number'}, 'Slower by > 1 %'), make('th', {scope: 'col', class: 'number'}, 'Slowest'));
  const rows = main.groups.map((group) => make('tr', {class: group.bucket === 'all' ? 'total' : null},
    make('th', {scope: 'row'}, bucketName(group.bucket)), make('td', {class: 'number'}, grouped(group.count)),
    ...columns.flatMap(({comparison}) => forestCells(groupOf(comparison, group.bucket), axis)),
    ...[group.wins, group.clearWins, group.clearLosses].map((share) => make('td', {class: 'number'}, percent(share))),
    make('td', {class: 'number'}, group.min.toFixed(2))));
  return make('table', {class: `forest${columns.length > 3 ? ' dense' : ''}`}, make('caption', {}, caption), make('thead', {}, head), make('tbody', {}, ...rows));
}

function forestCells(group, axis) {
  if (!group) return [make('td', {class: 'number quiet'}, '–'), make('td', {})];
  const x = logarithmic(axis.low, axis.high, 2, 118);
  const side = group.geomean >= 1 ? 'gain' : 'loss';
  const mark = svg('svg', {viewBox: '0 0 120 18', class: 'whisker', 'aria-hidden': 'true'}, rule(x(1), 0, x(1), 18, 'unity'));
  if (group.interval) mark.append(svg('line', {x1: x(group.interval[0]), x2: x(group.interval[1]), y1: 9, y2: 9, class: `span ${side}`}));
  mark.append(svg('circle', {cx: x(group.geomean), cy: 9, r: 3.6, class: `point ${side}`}));
  const text = group.interval ? `${group.interval[0].toFixed(2)}–${group.interval[1].toFixed(2)}` : '';
  return [make('td', {class: 'number value'}, make('b', {}, group.geomean.toFixed(3)), make('span', {class: 'quiet interval'}, text)), make('td', {class: 'plot'}, mark)];
}

function buildForests() {
  const modes = ['cold', 'warm', 'pdl'].map((mode) => comparisonOf(mode, 'auto')).filter(Boolean);
  if (modes.length) {
    show(byId('forest'), forestTable('Geometric mean of the speed-up over auto-tuned cuBLASLt with its 95 % interval; shares of the first column.',
      modes.map((comparison) => ({title: modeNames[comparison.mode], comparison}))));
  }
  for (const [section, parts] of [['call', ['call']], ['server', ['server', 'server-p95']]]) {
    const columns = parts.flatMap((mode) => data.comparisons.filter((c) => c.mode === mode && (mode !== 'server-p95' || c.baseline === 'auto'))
      .map((comparison) => ({title: `${mode === 'server-p95' ? 'p95 over' : 'Over'} ${baselineNames[comparison.baseline]}`, comparison})));
    if (!columns.length) continue;
    byId(section).hidden = false;
    show(byId(section).querySelector('.forest'), forestTable('Geometric mean of the speed-up with its 95 % interval; shares of the first column.', columns));
  }
}

// ---- every comparison

function buildWinTable() {
  const buckets = ['all', ...data.buckets];
  const limit = rangeLimit(data.comparisons.flatMap((c) => c.groups.map((group) => group.geomean)));
  const head = make('tr', {}, make('th', {scope: 'col'}, 'Mode'), make('th', {scope: 'col'}, 'Over'),
    ...buckets.map((bucket) => make('th', {scope: 'col', class: 'number'}, bucketName(bucket))));
  const rows = data.comparisons.map((comparison, index) => {
    const {mode} = comparison;
    const first = data.comparisons[index - 1]?.mode !== mode;
    const span = data.comparisons.filter((c) => c.mode === mode).length;
    return make('tr', {class: first ? 'first' : null},
      first ? make('th', {scope: 'rowgroup', rowspan: span, title: modeMeanings[mode]}, modeNames[mode]) : null,
      make('th', {scope: 'row'}, baselineNames[comparison.baseline]),
      ...buckets.map((bucket) => winCell(groupOf(comparison, bucket), limit)));
  });
  show(byId('win-table'), make('table', {class: 'wins'}, make('thead', {}, head), make('tbody', {}, ...rows)));
}

function winCell(group, limit) {
  if (!group) return make('td', {class: 'number quiet'}, '–');
  const {side, strength} = tint(group.geomean, limit);
  const p = group.p < 0.001 ? 'p < 0.001' : `p = ${group.p.toFixed(3)}`;
  return make('td', {class: `number win ${side}`, '--strength': `${(45 * strength).toFixed(1)}%`,
    title: `${group.count} shapes; 5th to 95th percentile ${group.p5.toFixed(2)} to ${group.p95.toFixed(2)}; Wilcoxon ${p}`},
  make('b', {}, group.geomean.toFixed(3)), make('span', {class: 'quiet'}, percent(group.wins)));
}

// ---- list of shapes

const listed = {key: 'ratio', descending: false, all: false};
const firstRows = 20;

const shapeColumns = [
  {key: 'm', title: 'M', value: (i) => data.m[i], text: (i) => grouped(data.m[i])},
  {key: 'n', title: 'N', value: (i) => data.n[i], text: (i) => grouped(data.n[i])},
  {key: 'k', title: 'K', value: (i) => data.k[i], text: (i) => grouped(data.k[i])},
  {key: 'size', title: sizeName, value: log2Size, text: (i) => log2Size(i).toFixed(1)},
  {key: 'ours', title: 'Ours', value: (i) => timeOf(state.comparison.ours, i), text: (i) => duration(timeOf(state.comparison.ours, i))},
  {key: 'theirs', title: 'Theirs', value: (i) => timeOf(state.comparison.theirs, i), text: (i) => duration(timeOf(state.comparison.theirs, i))},
  {key: 'ratio', title: 'Speed-up', value: (i) => ratioOf(state.comparison, i), text: (i) => times(ratioOf(state.comparison, i))},
  {key: 'layout', title: 'Layout', words: true, value: (i) => layoutOf('ours', i), text: (i) => layoutOf('ours', i).toUpperCase() || '–'},
  {key: 'family', title: 'Family', words: true, value: familyOf, text: (i) => familyOf(i) || '–'},
  {key: 'gates', title: 'Gates', words: true, value: (i) => textOf('offline.gates', i), text: (i) => textOf('offline.gates', i) || '–'},
];

function drawShapeTable() {
  const column = shapeColumns.find((each) => each.key === listed.key);
  const order = (a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    return (x < y ? -1 : x > y ? 1 : a - b) * (listed.descending ? -1 : 1);
  };
  const shapes = selection().sort(order);
  const shown = listed.all ? shapes : shapes.slice(0, firstRows);
  const head = make('tr', {}, ...shapeColumns.map((each) => make('th', {scope: 'col', class: each.words ? null : 'number',
    'aria-sort': each === column ? (listed.descending ? 'descending' : 'ascending') : null},
  make('button', {type: 'button', class: 'sort', 'data-key': each.key, onclick: () => sortBy(each.key)}, each.title,
    make('span', {'aria-hidden': 'true'}, each === column ? (listed.descending ? ' ↓' : ' ↑') : '')))), make('th', {scope: 'col'}, make('span', {class: 'unseen'}, 'Details')));
  const rows = shown.map((i) => make('tr', {class: i === state.selected ? 'selected' : null},
    ...shapeColumns.map((each) => make('td', {class: `${each.words ? '' : 'number'}${each.key === 'ratio' ? ratioOf(state.comparison, i) >= 1 ? ' gain-text' : ' loss-text' : ''}`}, each.text(i))),
    make('td', {}, make('button', {type: 'button', class: 'link', 'aria-label': `Details of ${shapeName(i)}`, onclick: (event) => select(i, event.currentTarget)}, 'details'))));
  show(byId('shape-table'), make('table', {class: 'shapes'}, make('thead', {}, head), make('tbody', {}, ...rows)));
  const more = byId('more');
  more.hidden = shapes.length <= firstRows;
  more.textContent = listed.all ? `Show ${firstRows} only` : `Show all ${grouped(shapes.length)}`;
}

function sortBy(key) {
  listed.descending = listed.key === key ? !listed.descending : false;
  listed.key = key;
  drawShapeTable();
  byId('shape-table').querySelector(`[data-key="${key}"]`)?.focus();
}

// ---- tables that come along, with whatever columns they have

const subjectTitles = {ours: 'ours', lt_auto: 'cuBLASLt auto', lt_heuristic: 'cuBLASLt heuristic', lt_f32: 'cuBLASLt FP32', lt_f16: 'cuBLASLt FP16', cublas: 'cuBLAS'};

// "lt_auto_us" is "cuBLASLt auto µs".
function columnTitle(key) {
  const subject = Object.keys(subjectTitles).find((name) => key.startsWith(`${name}_`));
  const rest = (subject ? key.slice(subject.length + 1) : key).replace(/(^|_)us$/, '$1µs').replaceAll('_', ' ');
  return subject ? `${subjectTitles[subject]} ${rest}` : rest;
}

function recipeCell(text) {
  return make('details', {class: 'recipe'}, make('summary', {}, text.split(' ')[0]), make('code', {}, text));
}

// columns: indices of those to show. made: columns that are computed, {title, value(row)} of ratios, after the others.
function givenTable(table, columns, made = []) {
  const numeric = (c) => table.rows.every((row) => row[c] === '' || row[c] === 'inf' || Number.isFinite(Number(row[c])));
  const numbers = new Set(columns.filter(numeric));
  const shown = (row, c) => (numbers.has(c) && table.columns[c].endsWith('_us') && row[c] ? Number(row[c]).toPrecision(4) : row[c]);
  const ratioCell = (ratio) => (Number.isFinite(ratio) ? make('td', {class: `number ${ratio >= 1 ? 'gain-text' : 'loss-text'}`}, times(ratio)) : make('td', {class: 'number quiet'}, '–'));
  const head = make('tr', {}, ...columns.map((c) => make('th', {scope: 'col', class: numbers.has(c) ? 'number' : null}, columnTitle(table.columns[c]))),
    ...made.map(({title}) => make('th', {scope: 'col', class: 'number'}, title)));
  const rows = table.rows.map((row) => make('tr', {},
    ...columns.map((c) => make('td', {class: numbers.has(c) ? 'number' : null}, table.columns[c] === 'recipe' && row[c] ? recipeCell(row[c]) : shown(row, c))),
    ...made.map(({value}) => ratioCell(value(row)))));
  return make('table', {class: 'given'}, make('thead', {}, head), make('tbody', {}, ...rows));
}

// Of a table like the offline one the best layouts and what names the shape; the file has the rest.
function buildLlm() {
  const table = data.llm;
  if (!table) return;
  byId('llm').hidden = false;
  const comparisons = (data.llmComparisons ?? []).filter((c) => c.baseline === 'auto' && ['cold', 'warm', 'pdl'].includes(c.mode));
  if (comparisons.length) {
    show(byId('llm').querySelector('.forest'), forestTable('Geometric mean of the speed-up over auto-tuned cuBLASLt with its 95 % interval; shares of the first column.',
      comparisons.map((comparison) => ({title: modeNames[comparison.mode], comparison}))));
  }
  const hidden = /_(nn|tn|warm|pdl)(_|$)|^(lt_auto|rounds|clock_mhz|gates)$/;
  const columns = table.columns.flatMap((key, c) => (hidden.test(key) ? [] : [c]));
  const value = (key, row) => Number(row[table.columns.indexOf(key.slice('offline.'.length))] || NaN);
  show(byId('llm').querySelector('.table'), givenTable(table, columns,
    comparisons.map((c) => ({title: modeNames[c.mode], value: (row) => value(c.theirs, row) / value(c.ours, row)}))));
}

// A strip of dots a subject; those of one figure share a logarithmic axis.
function buildAccuracy() {
  const table = data.accuracy;
  if (!table) return;
  byId('accuracy').hidden = false;
  const figures = new Map();
  table.columns.forEach((key, c) => {
    const [, subject, figure] = /^(.+?)_((?:max|p99)_(?:error|ulp))$/.exec(key) ?? [];
    const values = table.rows.map((row) => (row[c] === 'inf' ? Infinity : row[c] === '' ? NaN : Number(row[c])));
    if (!figure || !values.some((v) => v > 0)) return;
    figures.set(figure, [...(figures.get(figure) ?? []), {name: subjectTitles[subject] ?? subject, values}]);
  });
  show(byId('accuracy-note'), `Against FP64 on ${table.rows.length} shapes: each dot a shape, the bar their median.${noWorse(figures)}`);
  const parts = [...figures].map(([figure, strips]) => ({strips, host: make('div', {}, make('h3', {}, columnTitle(figure)))}));
  show(byId('accuracy').querySelector('.strips'), ...parts.map(({host}) => host));  // all, so that each has its width
  for (const {strips, host} of parts) host.append(errorStrips(strips, host));
  show(byId('accuracy').querySelector('.table'), make('details', {}, make('summary', {}, 'All values'), givenTable(table, table.columns.map((_, c) => c))));
}

// On how many shapes ours is no worse than cuBLASLt with FP32 compute, by each figure that both have.
function noWorse(figures) {
  const parts = [...figures].flatMap(([figure, strips]) => {
    const [ours, theirs] = ['ours', 'lt_f32'].map((subject) => strips.find(({name}) => name === subjectTitles[subject]));
    if (!ours || !theirs) return [];
    return [`${columnTitle(figure)} on ${ours.values.filter((v, i) => v <= theirs.values[i]).length} of ${ours.values.length}`];
  });
  return parts.length ? ` Ours no worse than cuBLASLt FP32: ${parts.join(', ')}.` : '';
}

function errorStrips(strips, host) {
  const positive = strips.flatMap(({values}) => values.filter((v) => v > 0 && v < Infinity));
  if (!positive.length) positive.push(1);
  const from = Math.floor(Math.log10(Math.min(...positive)));
  const to = Math.max(Math.ceil(Math.log10(Math.max(...positive)) + 1e-9), from + 1);
  const {root, width, height} = chartFrame(host, 26 * strips.length + 34, 'Errors of each subject; the table below has all values.');
  const x = linear(from, to, 150, width - 70);
  for (let tick = from; tick <= to; ++tick) {
    root.append(rule(x(tick), 4, x(tick), height - 28), axisText(x(tick), height - 10, `1e${tick}`));
  }
  strips.forEach(({name, values}, row) => {
    const y = 17 + 26 * row;
    root.append(axisText(138, y + 4, name, 'end', 'label'));
    const finite = values.filter((v) => v > 0 && v < Infinity).sort((a, b) => a - b);
    for (const value of finite) root.append(svg('circle', {cx: x(Math.log10(value)).toFixed(1), cy: y, r: 3, class: 'dot'}));
    if (finite.length) root.append(rule(x(Math.log10(quantile(finite, 0.5))), y - 9, x(Math.log10(quantile(finite, 0.5))), y + 9, 'middle'));
    const infinite = values.filter((v) => v === Infinity).length;
    if (infinite) root.append(axisText(width - 60, y + 4, `${infinite} infinite`, 'start'));
  });
  return root;
}

// ---- provenance

// Facts that all tables share stand once.
function buildFacts() {
  const tables = data.files.filter((file) => file.facts.length);
  const key = (fact) => fact.join('\n');
  const shared = tables.length < 2 ? [] : tables[0].facts.filter((fact) => tables.every((file) => file.facts.some((other) => key(other) === key(fact))));
  const known = new Set(shared.map(key));
  const parts = data.files.map((file) => ({name: file.name, rows: file.rows, facts: file.facts.filter((fact) => !known.has(key(fact)))}));
  if (shared.length) parts.unshift({name: 'All tables', rows: 0, facts: shared});
  show(byId('facts'), ...parts.map(({name, rows, facts}) => make('div', {class: 'file'},
    make('h3', {}, name, make('span', {class: 'quiet'}, rows ? ` ${grouped(rows)} rows` : '')),
    make('dl', {}, ...facts.flatMap(factItems)))));
  const details = byId('run-summary');
  details.hidden = !data.summary;
  details.addEventListener('toggle', () => {
    const rows = flattened(data.summary, '').map(([path, value]) => make('tr', {}, make('th', {scope: 'row'}, path), make('td', {}, value)));
    show(details.querySelector('.scroll'), make('table', {class: 'given'}, make('tbody', {}, ...rows)));
  }, {once: true});
}

const factItems = ([key, value]) => (key ? [make('dt', {}, key), make('dd', {}, value)] : [make('dd', {class: 'remark'}, value)]);

function flattened(value, path) {
  if (value === null || typeof value !== 'object') return [[path, String(value)]];
  if (Array.isArray(value) && value.every((each) => each === null || typeof each !== 'object')) return [[path, value.join(', ')]];
  return Object.entries(value).flatMap(([key, each]) => flattened(each, path ? `${path} › ${key}` : key));
}
