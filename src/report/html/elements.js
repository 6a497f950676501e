// Small tools for elements: making HTML and SVG, scales, axes, the tooltip. All text is set as text, never as markup.
'use strict';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name.startsWith('--')) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
const byId = (id) => document.getElementById(id);
const show = (element, ...children) => element.replaceChildren(...children);

// ---- scales of ratios

// A symmetric range [1 / limit, limit] of ratios that holds all but the outermost 2 % of them.
function rangeLimit(ratios) {
  const sorted = ratios.map((r) => Math.abs(Math.log(r))).sort((a, b) => a - b);
  const reach = sorted.length ? Math.exp(quantile(sorted, 0.98)) : 1.1;
  return [1.1, 1.2, 1.3, 1.5, 1.75, 2, 2.5, 3, 4].find((limit) => reach <= limit * 1.0001) ?? 4;
}

// Ticks of a logarithmic axis of ratios from low to high, 1 among them.
function ratioTicks(low, high) {
  const span = Math.log(high / low);
  const steps = span > 1.6 ? [0.25, 0.5, 1, 2, 4, 8] : span > 0.75 ? [0.5, 0.6, 0.7, 0.8, 1, 1.25, 1.5, 2, 2.5, 3] :
    [0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5];
  return steps.filter((tick) => tick >= low * 0.9999 && tick <= high * 1.0001);
}

const linear = (from, to, start, end) => (value) => start + (value - from) / (to - from) * (end - start);
const logarithmic = (from, to, start, end) => (value) => start + Math.log(value / from) / Math.log(to / from) * (end - start);

// How far a ratio is from 1 on the colour scale, in [0, 1], and to which side.
function tint(ratio, limit) {
  const strength = Math.min(Math.abs(Math.log(ratio)) / Math.log(limit), 1);
  return {side: ratio >= 1 ? 'gain' : 'loss', strength};
}

// ---- tooltip

// Shows lines of text beside a point of the window.
function showTip(x, y, lines) {
  const tip = byId('tip');
  show(tip, ...lines.map((line, i) => make(i === 0 ? 'strong' : 'span', {}, line)));
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  const left = x + 14 + width > window.innerWidth ? x - 14 - width : x + 14;
  const top = y + 14 + height > window.innerHeight ? y - 14 - height : y + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}
const hideTip = () => { byId('tip').hidden = true; };

function tipOfShape(i) {
  const comparison = state.comparison;
  const ratio = ratioOf(comparison, i);
  const lines = [shapeName(i)];
  if (ratio === null) return [...lines, 'not measured'];
  lines.push(`${times(ratio)} as fast as ${baselineNames[comparison.baseline]}`);
  lines.push(`${duration(timeOf(comparison.ours, i))} against ${duration(timeOf(comparison.theirs, i))}`);
  const layouts = comparison.mode === 'cold' && comparison.baseline === 'auto' ? [layoutOf('ours', i), layoutOf('lt_auto', i)] : [];
  if (layouts[0] && layouts[1]) lines.push(`fastest in ${layouts[0].toUpperCase()}, theirs in ${layouts[1].toUpperCase()}`);
  return lines;
}
