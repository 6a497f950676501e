// Puts the page together: controls, filters, theme, sections; redraws what depends on the state.
'use strict';

function redraw() {
  paintHeatMaps();
  drawCharts();
  drawShapeTable();
  drawSelection();
}

function drawSelection() {
  const ratios = selection().map((i) => ratioOf(state.comparison, i)).sort((a, b) => a - b);
  const what = `${modeNames[state.comparison.mode]} over ${baselineNames[state.comparison.baseline]}`;
  if (!ratios.length) return show(byId('selection'), `${what}: no shape passes the filter.`);
  const share = (test) => percent(ratios.filter(test).length / ratios.length);
  show(byId('selection'), make('b', {}, `${what}: ${times(geometricMean(ratios))}`),
    ` over ${grouped(ratios.length)} shapes; median ${quantile(ratios, 0.5).toFixed(3)}, ${ratios[0].toFixed(2)} to ${ratios[ratios.length - 1].toFixed(2)}; faster on ${share((r) => r > 1)}, slower by more than 1 % on ${share((r) => r < 0.99)}`);
}

// ---- controls

// Buttons of which one is pressed. options: [{value, title, hint}].
function choice(label, options, chosen, choose) {
  return make('div', {class: 'choice', role: 'group', 'aria-label': label}, ...options.map(({value, title, hint}) =>
    make('button', {type: 'button', 'aria-pressed': String(value === chosen), title: hint, 'data-value': value, onclick: () => choose(value)}, title)));
}

function drawModes() {
  const {mode, baseline} = state.comparison;
  const compare = (comparison, focused) => {
    state.comparison = comparison;
    drawModes();
    redraw();
    byId('modes').querySelector(`[data-value="${focused}"]`)?.focus();
  };
  const modes = modesPresent.map((each) => ({value: each, title: modeNames[each], hint: modeMeanings[each]}));
  const baselines = data.comparisons.filter((c) => c.mode === mode).map((c) => ({value: c.baseline, title: baselineNames[c.baseline]}));
  show(byId('modes'),
    choice('Mode', modes, mode, (value) => compare(comparisonOf(value, baseline) ?? data.comparisons.find((c) => c.mode === value), value)),
    make('span', {class: 'quiet'}, 'over'),
    choice('Baseline', baselines, baseline, (value) => compare(comparisonOf(mode, value), value)));
}

function buildFilters() {
  const families = [...new Set(data.m.map((_, i) => familyOf(i)))].filter(Boolean).sort();
  const ks = distinct(data.k);
  const rows = [
    {label: 'K', set: state.k, options: ks.length <= most ? ks.map((k) => [k, grouped(k)]) : []},
    {label: sizeName, set: state.bucket, options: distinct(data.bucket).map((b) => [b, bucketNames[b]])},
    {label: 'Family', set: state.family, options: families.map((family) => [family, family])},
  ].filter((row) => row.options.length > 1);
  const clear = make('button', {type: 'button', class: 'link', onclick: () => {
    for (const {set} of rows) set.clear();
    filtersChanged();
  }}, 'Clear');
  show(byId('filter-rows'), ...rows.map(({label, set, options}) => make('div', {class: 'row', role: 'group', 'aria-label': label},
    make('span', {class: 'row-name quiet'}, label), ...options.map(([value, title]) => {
      const chip = make('button', {type: 'button', class: 'chip', 'aria-pressed': 'false'}, title);
      chip.addEventListener('click', () => {
        if (!set.delete(value)) set.add(value);
        filtersChanged();
      });
      chip.pressed = () => set.has(value);
      return chip;
    }))), make('div', {class: 'row'}, make('span', {class: 'row-name'}), clear));
}

function filtersChanged() {
  for (const chip of document.querySelectorAll('.chip')) chip.setAttribute('aria-pressed', String(chip.pressed()));
  const chosen = [...[...state.k].map((k) => `K = ${k}`), ...[...state.bucket].map((b) => `${sizeName} ${bucketNames[b]}`), ...state.family];
  byId('filter-note').textContent = filtering() ? chosen.join(', ') : '';
  redraw();
}

function listenToSearch() {
  byId('find').addEventListener('submit', (event) => {
    event.preventDefault();
    const sizes = byId('find-shape').value.match(/\d+/g)?.map(Number) ?? [];
    const i = shapeAt(sizes);
    byId('find-answer').textContent = i < 0 ? 'no such shape here' : '';
    select(i, byId('find-shape'));
  });
}

// ---- frame

function buildFrame() {
  const fact = (key) => data.files.flatMap((file) => file.facts).find(([name]) => name === key)?.[1];
  const known = [['driver', 'driver'], ['cuda', 'CUDA'], ['cublas', 'cuBLAS'], ['commit', 'commit']].filter(([key]) => fact(key)).map(([key, name]) => `${name} ${fact(key)}`);
  const date = fact('date')?.slice(0, 10);
  show(byId('subtitle'), [`warpsmith against cuBLAS and cuBLASLt on ${grouped(shapeCount)} shapes`, ...(date ? [date] : []), ...known].join(' · '));
  const sections = [...document.querySelectorAll('main > section:not([hidden])')];
  show(byId('sections'), ...sections.map((section) => make('a', {href: `#${section.id}`}, section.dataset.title)));
}

function listenToTheme() {
  const button = byId('theme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? 'dark' : 'light')) === 'dark';
  const update = () => {
    button.setAttribute('aria-pressed', String(isDark()));
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', isDark() ? 'Use light colours' : 'Use dark colours');
  };
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    update();
  });
  system.addEventListener('change', update);
  update();
}

// "#64x4096x64" opens that shape; the place of a section is known only now that all is drawn.
function openFromAddress() {
  const sizes = /^#(\d+)x(\d+)x(\d+)$/.exec(location.hash)?.slice(1);
  if (sizes) select(shapeAt(sizes.map(Number)), null);
  else if (location.hash) byId(location.hash.slice(1))?.scrollIntoView();
}

buildTiles();
buildForests();
buildWinTable();
buildLlm();
buildAccuracy();
buildFacts();
buildFrame();
buildHeatMaps();
buildFilters();
drawModes();
listenToSearch();
listenToTheme();
byId('heat-values').addEventListener('change', (event) => byId('panels')?.classList.toggle('with-values', event.target.checked));
byId('more').addEventListener('click', () => {
  listed.all = !listed.all;
  drawShapeTable();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !byId('detail').hidden) closeDetail();
});
document.addEventListener('scroll', hideTip, {passive: true});
redraw();
let width = window.innerWidth;
window.addEventListener('resize', () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  drawCharts();
});
openFromAddress();
