// The timeline: width is time (or one each), height is nearness to the machine's limit.
const strip = byId("strip");
const HEIGHT = 150;
const TOP = 20;
let proportional = timed;
let edges = [];

function layOut(width) {
  const weights = operators.map((op) => (proportional ? op.time || 0 : 1));
  const rest = proportional && raw.rest ? Math.max(0, raw.rest[0]) : 0;
  const total = weights.reduce((sum, weight) => sum + weight, rest) || 1;
  edges = [0];
  for (const weight of weights) edges.push(edges[edges.length - 1] + (weight * width) / total);
  return { rest, total };
}

const box = (x, y, width, height) => `M${x.toFixed(2)} ${y.toFixed(1)}h${width.toFixed(2)}v${height.toFixed(1)}h${(-width).toFixed(2)}z`;

function bars() {
  const faint = new Map();
  const solid = new Map();
  let muted = "";
  const add = (map, key, path) => map.set(key, (map.get(key) || "") + path);
  operators.forEach((op, i) => {
    const gap = edges[i + 1] - edges[i] > 4 ? 1 : 0;
    const width = Math.max(0.35, edges[i + 1] - edges[i] - gap);
    const near = op.percent === null ? 1 : Math.min(1, op.percent / 100);
    const whole = box(edges[i], TOP, width, HEIGHT);
    if (isFiltered() && !passes(op)) {
      muted += whole;
      return;
    }
    add(faint, op.category.style, whole);
    add(solid, op.category.style, box(edges[i], TOP + HEIGHT * (1 - near), width, HEIGHT * near));
  });
  return [
    draw("path", { d: muted, class: "muted" }),
    ...[...faint].map(([style, d]) => draw("path", { d, class: `faint ${style}` })),
    ...[...solid].map(([style, d]) => draw("path", { d, class: `paint ${style}` })),
  ];
}

function runsOf(key) {
  const runs = [];
  operators.forEach((op, i) => {
    const last = runs[runs.length - 1];
    if (last && last.key === key(op)) last.end = i + 1;
    else runs.push({ key: key(op), start: i, end: i + 1, op });
  });
  return runs;
}

function brackets() {
  if (!operators.some((op) => op.partition !== null)) return [];
  const y = TOP + HEIGHT + 8;
  let inside = "";
  let outside = "";
  const labels = [];
  for (const run of runsOf((op) => (op.partition === null ? "" : `${op.partition}`))) {
    const from = edges[run.start] + 0.75;
    const to = Math.max(from + 1, edges[run.end] - 1.75);
    const middle = (from + to) / 2;
    if (run.key === "") outside += `M${from} ${y + 5}H${to}`;
    else inside += `M${from} ${y}v5H${to}v-5`;
    const room = Math.floor((to - from) / 6.6);
    const text = run.op.place || (run.key ? `partition ${run.key}` : "");
    if (text && text.length <= room) labels.push(draw("text", { x: middle, y: y + 21, "text-anchor": "middle" }, text));
  }
  return [draw("path", { d: inside, class: "bracket" }), draw("path", { d: outside, class: "outside" }), ...labels];
}

function marks() {
  return operators.filter((op) => conversions.has(op.index)).map((op) => {
    const x = (edges[op.position] + edges[op.position + 1]) / 2;
    return draw("path", { d: `M${x - 6} 3h12l-6 11z`, class: "mark" });
  });
}

function niceStep(span, count) {
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

function ruler(width, total) {
  const y = TOP + HEIGHT + 46;
  const step = niceStep(total, Math.max(2, width / 130));
  const parts = [draw("path", { d: `M0 ${y - 14}H${width}`, class: "axis" })];
  for (let at = 0; at <= total; at += step) {
    const x = (at / total) * width;
    const anchor = x < 20 ? "start" : x > width - 34 ? "end" : "middle";
    parts.push(draw("path", { d: `M${x} ${y - 14}v4`, class: "axis" }));
    parts.push(draw("text", { x, y: y + 2, "text-anchor": anchor }, at ? plain(duration(at)) : "0"));
  }
  return parts;
}

function drawStrip() {
  const width = strip.clientWidth;
  if (!width) return;
  const { rest, total } = layOut(width);
  const height = TOP + HEIGHT + (proportional ? 52 : 32);
  const plot = draw("svg", { class: "plot", height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  plot.append(...bars());
  if (rest) {
    const from = edges[edges.length - 1];
    plot.append(draw("path", { d: box(from, TOP, width - from, HEIGHT), class: "paint cat-unaccounted" }));
  }
  if (operators.some((op) => op.percent !== null)) plot.append(draw("path", { d: `M0 ${TOP - 0.5}H${width}`, class: "dashed" }));
  plot.append(...marks(), ...brackets());
  if (proportional) plot.append(...ruler(width, total));
  plot.append(draw("rect", { class: "chosen", id: "chosen", y: TOP - 2, height: HEIGHT + 4, rx: 2 }));
  strip.replaceChildren(plot);
  ring();
}

function ring() {
  const mark = byId("chosen");
  if (!mark || !selected) return;
  const from = edges[selected.position];
  mark.setAttribute("x", from - 1);
  mark.setAttribute("width", Math.max(3, edges[selected.position + 1] - from + 1));
}

function operatorAt(x) {
  let low = 0;
  let high = operators.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (edges[middle + 1] > x) high = middle;
    else low = middle + 1;
  }
  return operators[low];
}

const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageDown: 10, PageUp: -10 };

function onKey(event) {
  const last = operators.length - 1;
  let to = selected.position + (STEPS[event.key] || 0);
  if (event.key === "Home") to = 0;
  else if (event.key === "End") to = last;
  else if (!STEPS[event.key]) return;
  event.preventDefault();
  select(operators[Math.min(last, Math.max(0, to))]);
}

function setWidths(byTime) {
  proportional = byTime;
  byId("by-time").setAttribute("aria-pressed", byTime);
  byId("by-order").setAttribute("aria-pressed", !byTime);
  drawStrip();
}

if (strip) {
  const point = (event) => select(operatorAt(event.clientX - strip.getBoundingClientRect().left));
  strip.addEventListener("pointermove", point);
  strip.addEventListener("pointerdown", point);
  strip.addEventListener("keydown", onKey);
  if (byId("by-time")) {
    byId("by-time").addEventListener("click", () => setWidths(true));
    byId("by-order").addEventListener("click", () => setWidths(false));
  }
  whenFiltered.push(drawStrip);
  whenSelected.push((op) => {
    strip.setAttribute("aria-valuenow", op.position);
    strip.setAttribute("aria-valuetext", `${op.name}${op.time === null ? "" : `, ${duration(op.time)}`}`);
    ring();
  });
  new ResizeObserver(drawStrip).observe(strip);
}
