// The report's data, decoded once; elements are built with textContent only, never from markup.
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const raw = JSON.parse(byId("data").textContent);
const categories = raw.categories.map(([name, style]) => ({ name, style }));
const conversions = new Map(raw.conversions.map(([index, order]) => [index, raw.strings[order]]));
const [peakGmacs, bandwidths] = raw.peaks;

const operators = raw.operators.map((row, position) => {
  const text = (number) => raw.strings[number];
  const [index, kind, kernel, category, time, spread, share, gmacs, gbs, limitGbs, percent, memory, place,
    partition, origins, types, source, output, remarks] = row;
  return {
    position, index, kind: text(kind), kernel: text(kernel), category: categories[category], time,
    spread, share, gmacs, gbs, limitGbs, percent, bound: memory ? "memory" : "compute", place: text(place),
    partition, origins: origins.map(text), types: types.map(text), source: text(source),
    output: text(output), remarks: remarks.map(text),
  };
});
for (const op of operators) {
  op.name = `${op.kind} ${op.origins[0] || ""}`;
  op.haystack = [op.kind, op.kernel, op.category.name, op.place, op.output, op.source,
    ...op.origins, ...op.types].join("\n").toLowerCase();
}
const timed = operators.some((op) => op.time > 0);
const byIndex = new Map(operators.map((op) => [op.index, op]));

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function draw(tag, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}

const isolated = (text) => element("bdi", {}, text);

function significant(number, digits = 3) {
  if (!number) return "0";
  const rounded = Number(number.toPrecision(digits));
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(rounded))));
  const shown = Math.min(places, 12);
  return number.toLocaleString("en-US", { minimumFractionDigits: shown, maximumFractionDigits: shown });
}

function duration(ns) {
  if (ns < 0) return `-${duration(-ns)}`;
  for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= unit * 0.9995) return `${significant(ns / unit)} ${name}`;
  }
  return `${significant(ns, ns >= 1 ? 3 : 2)} ns`;
}

function percent(share) {
  const number = 100 * share;
  if (number && Math.abs(number) < 0.1) return "<0.1 %";
  return number >= 99.95 ? `${number.toFixed(0)} %` : `${number.toFixed(1)} %`;
}

// Without the zeros that only pad: for the marks of an axis.
const plain = (text) => text.replace(/\.0+ /, " ").replace(/(\.\d*[1-9])0+ /, "$1 ");

function size(bytes) {
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (bytes >= unit) return `${significant(bytes / unit, 2)} ${name}`;
  }
  return `${bytes} B`;
}

const plural = (count, noun) => `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
