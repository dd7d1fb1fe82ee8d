// The roofline: MAC per byte against GMAC/s, both logarithmic, with the measured limits: arithmetic,
// and memory for little and for much data. The key beside it names them, so that no labels collide.
const roofline = byId("roofline");
const rated = operators.filter((op) => op.gmacs > 0 && op.gbs > 0);
for (const op of rated) op.intensity = op.gmacs / op.gbs;
const MARGIN = { left: 46, right: 12, top: 30, bottom: 40 };
const ROOF_HEIGHT = 344;
const nearestGbs = bandwidths.length ? bandwidths[0][1] : null;
const farthestGbs = bandwidths.length ? bandwidths[bandwidths.length - 1][1] : null;

function scale(low, high, from, to) {
  const a = Math.log10(low);
  const b = Math.log10(high);
  const at = (value) => from + ((Math.log10(value) - a) / (b - a)) * (to - from);
  at.low = low;
  at.high = high;
  return at;
}

function scales(width) {
  const xs = rated.map((op) => op.intensity).concat(peakGmacs / nearestGbs, peakGmacs / farthestGbs);
  const ys = rated.map((op) => op.gmacs).concat(peakGmacs);
  const x = scale(Math.min(...xs) / 1.8, Math.max(...xs) * 1.8, MARGIN.left, width - MARGIN.right);
  const y = scale(Math.min(...ys) / 2, Math.max(...ys) * 1.7, ROOF_HEIGHT - MARGIN.bottom, MARGIN.top);
  return { x, y };
}

// Whole decades, and where fewer than three fit, 2 and 5 between them.
function gridValues({ low, high }) {
  const factors = high / low < 1e3 ? [1, 2, 5] : [1];
  const values = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
    for (const factor of factors) values.push(factor * 10 ** power);
  }
  return values.filter((value) => value >= low && value <= high);
}

// A label that would touch the one before is left out, its line is not.
function grid(at, room, line, label) {
  const parts = [];
  let last = -Infinity;
  for (const value of gridValues(at)) {
    const shown = value >= 1 ? value.toLocaleString("en-US") : String(Number(value.toPrecision(1)));
    parts.push(draw("path", { d: line(at(value)), class: "grid" }));
    if (Math.abs(at(value) - last) < room(shown)) continue;
    last = at(value);
    parts.push(label(last, shown));
  }
  return parts;
}

// From where the slope enters the plot up to the roof; a limit's path continues along the roof.
function slope(x, y, gbs) {
  const start = Math.max(x.low, y.low / gbs);
  const ridge = peakGmacs / gbs;
  return `M${x(start)} ${y(Math.min(peakGmacs, start * gbs))}L${x(Math.max(start, ridge))} ${y(peakGmacs)}`;
}

// A shape for each category, so that colour is not alone: circle, square, triangle, diamond.
const SHAPES = {
  "cat-convolution": (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  "cat-matrix": (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
  "cat-pooling": (x, y, r) => `M${x} ${y - r}l${r} ${2 * r}h${-2 * r}z`,
};
const diamond = (x, y, r) => `M${x} ${y - r * 1.3}l${r * 1.3} ${r * 1.3}l${-r * 1.3} ${r * 1.3}l${-r * 1.3} ${-r * 1.3}z`;

function drawRoofline() {
  const width = roofline.clientWidth;
  if (!width || !rated.length || !peakGmacs || !nearestGbs) return;
  const { x, y } = scales(width);
  const bottom = ROOF_HEIGHT - MARGIN.bottom;
  const plot = draw("svg", { class: "plot", height: ROOF_HEIGHT, viewBox: `0 0 ${width} ${ROOF_HEIGHT}`, role: "img", "aria-label": `Roofline of ${plural(rated.length, "operator")}` });
  plot.append(
    ...grid(x, (text) => 8 * text.length + 8, (at) => `M${at} ${MARGIN.top}V${bottom}`, (at, text) => draw("text", { x: at, y: bottom + 16, "text-anchor": "middle" }, text)),
    ...grid(y, () => 18, (at) => `M${MARGIN.left} ${at}H${width - MARGIN.right}`, (at, text) => draw("text", { x: MARGIN.left - 8, y: at + 4, "text-anchor": "end" }, text)),
    draw("text", { x: width - MARGIN.right, y: bottom + 34, "text-anchor": "end" }, "MAC per byte moved"),
    draw("text", { x: 0, y: 12 }, "GMAC/s"),
    draw("path", { d: `${slope(x, y, nearestGbs)}H${width - MARGIN.right}`, class: "limit" }),
    draw("path", { d: slope(x, y, farthestGbs), class: "limit far" }),
    ...points(x, y),
    draw("path", { class: "chosen", id: "allowed" }),
    draw("circle", { class: "chosen", id: "circled", r: 0 }));
  plot.place = { x, y };
  roofline.replaceChildren(plot);
  circle();
}

const radius = (op) => 3 + 26 * Math.sqrt(Math.min(0.2, op.share || 0));

function points(x, y) {
  const paths = new Map();
  for (const op of rated) {
    if (isFiltered() && !passes(op)) continue;
    const shape = SHAPES[op.category.style] || diamond;
    const path = shape(+x(op.intensity).toFixed(1), +y(op.gmacs).toFixed(1), +radius(op).toFixed(1));
    paths.set(op.category.style, (paths.get(op.category.style) || "") + path);
  }
  return [...paths].map(([style, d]) => draw("path", { d, class: `paint ${style}`, "fill-opacity": 0.62, stroke: "var(--card)", "stroke-width": 1, "fill-rule": "nonzero" }));
}

function circle() {
  const mark = byId("circled");
  if (!mark) return;
  const shown = selected && rated.includes(selected) ? selected : null;
  const { x, y } = roofline.firstChild.place;
  mark.setAttribute("r", shown ? radius(shown) + 3 : 0);
  byId("allowed").setAttribute("d", shown && shown.limitGbs ? slope(x, y, shown.limitGbs) : "");
  byId("named").textContent = shown ? `${shown.kind} #${shown.index}: ${significant(shown.percent, 2)} % of its limit` : "";
  if (!shown) return;
  mark.setAttribute("cx", x(shown.intensity));
  mark.setAttribute("cy", y(shown.gmacs));
}

function nearest(event) {
  const area = roofline.getBoundingClientRect();
  const { x, y } = roofline.firstChild.place;
  const [px, py] = [event.clientX - area.left, event.clientY - area.top];
  let best = null;
  let least = 40 ** 2;
  for (const op of rated) {
    if (isFiltered() && !passes(op)) continue;
    const distance = (x(op.intensity) - px) ** 2 + (y(op.gmacs) - py) ** 2;
    if (distance < least) [best, least] = [op, distance];
  }
  select(best);
}

if (roofline) {
  roofline.addEventListener("pointermove", nearest);
  roofline.addEventListener("pointerdown", nearest);
  whenFiltered.push(drawRoofline);
  whenSelected.push(circle);
  new ResizeObserver(drawRoofline).observe(roofline);
}
