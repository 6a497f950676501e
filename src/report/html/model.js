// The page's data and what is computed from it: times, ratios, filters, statistics of a selection. Knows no elements.
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const shapeCount = data.m.length;

const modeNames = {
  'cold': 'Cold', 'warm': 'Warm', 'pdl': 'PDL', 'nn': 'NN', 'tn': 'TN', 'warm-nn': 'NN warm', 'warm-tn': 'TN warm', 'pdl-warm': 'PDL warm',
  'call': 'Call', 'server': 'Server', 'server-p95': 'Server p95',
};
const modeMeanings = {
  'cold': 'back-to-back launches, operands not in L2, faster layout of ours over faster layout of theirs',
  'warm': 'the same operands every launch',
  'pdl': 'ours with programmatic dependent launch, cold',
  'nn': 'both with B stored K × N, cold',
  'tn': 'both with B stored N × K, cold',
  'warm-nn': 'both with B stored K × N, warm',
  'warm-tn': 'both with B stored N × K, warm',
  'pdl-warm': 'ours with programmatic dependent launch, warm',
  'call': 'host clock around one call and its completion',
  'server': 'calls at random intervals on an idle GPU, median latency',
  'server-p95': 'calls at random intervals on an idle GPU, 95th percentile of the latency',
};
const baselineNames = {'auto': 'cuBLASLt auto-tuned', 'heuristic': 'cuBLASLt heuristic', 'cublas': 'cuBLAS'};
const sizeName = 'log\u2082(MNK)';
const bucketNames = data.buckets.map((name) => name.replace('>=', '≥').replace('-', '–'));
const bucketName = (name) => name === 'all' ? 'All' : bucketNames[data.buckets.indexOf(name)];

const state = {
  comparison: data.comparisons[0],
  k: new Set(), bucket: new Set(), family: new Set(),  // empty: no filter
  selected: -1,
};

const timeOf = (key, i) => (data.times[key] ? data.times[key][i] : null);
const textOf = (key, i) => (data.texts[key] ? data.texts[key].values[data.texts[key].index[i]] : '');
const recipeKey = ['offline.recipe', 'call.recipe', 'server.recipe'].find((key) => data.texts[key]);
const familyOf = (i) => textOf(recipeKey, i).split(' ')[0];
const shapeName = (i) => `${data.m[i]} × ${data.n[i]} × ${data.k[i]}`;
// -1: there is none of these sizes.
const shapeAt = (sizes) => data.m.findIndex((m, i) => sizes.length === 3 && m === sizes[0] && data.n[i] === sizes[1] && data.k[i] === sizes[2]);
const log2Size = (i) => Math.log2(data.m[i]) + Math.log2(data.n[i]) + Math.log2(data.k[i]);

// Their time over ours; null where one is missing.
function ratioOf(comparison, i) {
  const ours = timeOf(comparison.ours, i);
  const theirs = timeOf(comparison.theirs, i);
  return ours && theirs ? theirs / ours : null;
}

// 'nn' or 'tn', whichever is faster of ours ('ours') or theirs ('lt_auto'); '' where not both are known.
function layoutOf(subject, i) {
  const nn = timeOf(`offline.${subject}_nn_us`, i);
  const tn = timeOf(`offline.${subject}_tn_us`, i);
  return nn && tn ? (tn < nn ? 'tn' : 'nn') : '';
}

const comparisonOf = (mode, baseline) => data.comparisons.find((c) => c.mode === mode && c.baseline === baseline);
const modesPresent = [...new Set(data.comparisons.map((c) => c.mode))];
const distinct = (values) => [...new Set(values)].sort((a, b) => a - b);

function passes(i) {
  return (state.k.size === 0 || state.k.has(data.k[i])) &&
    (state.bucket.size === 0 || state.bucket.has(data.bucket[i])) &&
    (state.family.size === 0 || state.family.has(familyOf(i)));
}
const filtering = () => state.k.size + state.bucket.size + state.family.size > 0;

// Indices of the shapes that pass the filters and have a ratio in the comparison.
function selection(comparison = state.comparison) {
  const found = [];
  for (let i = 0; i < shapeCount; ++i) if (passes(i) && ratioOf(comparison, i) !== null) found.push(i);
  return found;
}

const geometricMean = (values) => Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length);

function quantile(sorted, fraction) {
  const at = fraction * (sorted.length - 1);
  const below = Math.floor(at);
  return sorted[below] + (at - below) * (sorted[Math.min(below + 1, sorted.length - 1)] - sorted[below]);
}

// ---- text of numbers

const grouped = (value) => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
const times = (ratio, digits = 3) => `${ratio.toFixed(digits)}×`;
const percent = (share) => `${(100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 0 : 1)} %`;

// Three significant digits of microseconds, in the unit that reads best.
function duration(microseconds) {
  const [value, unit] = microseconds >= 1e3 ? [microseconds / 1e3, 'ms'] : [microseconds, 'µs'];
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
}

function shortSize(size) {
  return size >= 1024 && size % 1024 === 0 ? `${size / 1024}k` : String(size);
}
