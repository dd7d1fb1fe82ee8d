// The operator table: sorted, filtered, and built a page at a time so that 5,000 rows stay quick.
const PAGE = 60;
const MORE = 500;
const NUMBERS = new Set(["index", "time", "share", "gmacs", "gbs", "percent"]);
const order = timed ? { key: "time", down: true } : { key: "index", down: false };
let limit = PAGE;
const built = new Map();
const table = byId("table");

function compare(a, b) {
  const [left, right] = [a[order.key], b[order.key]];
  if (left === null || right === null) return (left === null) - (right === null) || a.position - b.position;
  const ascending = NUMBERS.has(order.key) ? left - right : left.localeCompare(right, "en", { numeric: true });
  return (order.down ? -ascending : ascending) || a.position - b.position;
}

function cell(style, ...children) {
  return element("td", { class: style }, ...children);
}

function meter(share, style) {
  const fill = element("i", { class: `paint ${style}` });
  fill.style.width = `${Math.min(100, (100 * share) / largestShare)}%`;
  return element("span", { class: "meter", "aria-hidden": "true" }, fill);
}
const largestShare = operators.reduce((most, op) => Math.max(most, op.share || 0), 0) || 1;

function roof(op) {
  const mark = element("i");
  mark.style.left = `${Math.min(100, op.percent)}%`;
  return element("span", { class: `roof ${op.bound} ${op.category.style}`, "aria-hidden": "true" }, mark);
}

function buildRow(op) {
  const button = element("button", { type: "button", "aria-expanded": "false" },
    element("span", { class: `swatch paint ${op.category.style}`, title: op.category.name }),
    element("span", {}, element("b", {}, isolated(op.kind), conversions.has(op.index) ? element("span", { class: "badge" }, "layout") : null), element("em", {}, isolated(op.origins[0] || op.kernel || "no node of the model"))));
  const row = element("tr", { class: "row", "data-index": op.index },
    cell("n index", String(op.index)),
    cell("name", button),
    cell("n time", op.time === null ? "–" : duration(op.time), op.spread ? element("small", {}, `± ${duration(op.spread / 2)}`) : null),
    cell("n shared", op.share === null ? "–" : percent(op.share), op.share === null ? null : meter(op.share, op.category.style)),
    cell("n rate speed", op.gmacs ? significant(op.gmacs) : "–"),
    cell("n rate speed", op.gbs ? significant(op.gbs) : "–"),
    cell("n near", op.percent === null ? "–" : `${significant(op.percent, 2)} % ${op.bound}`, op.percent === null ? null : roof(op)),
    cell("where", isolated(op.place)),
    cell("source", element("span", {}, isolated(op.kernel === op.kind ? "" : op.kernel)), element("span", { class: "code" }, isolated(op.source))));
  row.addEventListener("click", () => expand(op, row, button));
  return row;
}

// A cell that spans more columns than are shown would add empty ones to a fixed table.
const visibleColumns = () => [...table.tHead.rows[0].cells].filter((head) => head.offsetWidth > 0).length;

function respan() {
  for (const inside of table.querySelectorAll(".more > td")) inside.colSpan = visibleColumns();
}

function expand(op, row, button) {
  const open = row.classList.toggle("open");
  button.setAttribute("aria-expanded", open);
  if (!open) {
    row.nextSibling.remove();
    return;
  }
  const pairs = [pair("kernel", op.kernel), pair("category", op.category.name), ...measures(op),
    pair("computes", op.types.join(", ")), pair("nodes", op.origins.join(", "), "wide"), pair("source", op.source, "wide code"),
    ...op.remarks.map((text) => pair("remark", text, "wide"))];
  const inside = element("td", { colspan: String(visibleColumns()) }, element("dl", { class: "pairs" }, ...pairs.filter(Boolean)));
  row.after(element("tr", { class: "more" }, inside));
  select(op);
}

function rowOf(op) {
  if (!built.has(op)) built.set(op, buildRow(op));
  return built.get(op);
}

function close(row) {
  row.classList.remove("open");
  row.querySelector("button").setAttribute("aria-expanded", "false");
  return row;
}

function fill() {
  const found = operators.filter(passes).sort(compare);
  byId("rows").replaceChildren(...found.slice(0, limit).map((op) => close(rowOf(op))));
  if (!found.length) byId("rows").append(element("tr", {}, element("td", { colspan: String(visibleColumns()), class: "none" }, "No operator matches.")));
  byId("rest").replaceChildren(...footer());
  byId("all").hidden = found.length <= limit;
  const rest = found.length - limit;
  byId("all").textContent = rest <= MORE ? `Show all ${plural(found.length, "operator")}` : `Show ${MORE} more of ${plural(rest, "operator")} left`;
  byId("reset").hidden = !isFiltered();
  const time = found.reduce((sum, op) => sum + (op.time || 0), 0);
  const share = found.reduce((sum, op) => sum + (op.share || 0), 0);
  const counted = isFiltered() ? `${found.length.toLocaleString("en-US")} of ${plural(operators.length, "operator")}` : plural(operators.length, "operator");
  byId("count").textContent = timed ? `${counted}: ${duration(time)}, ${percent(share)} of the run` : counted;
}

function footer() {
  if (!raw.rest || isFiltered()) return [];
  const [time, share] = raw.rest;
  const why = time < 0 ? "by so much the operators exceed the run" : "time of the run that no operator explains";
  const row = element("tr", {}, cell("n index"), cell("name", element("b", {}, "Unaccounted"), element("small", {}, why)),
    cell("n time", duration(time)), cell("n shared", percent(share)));
  for (const style of ["n rate speed", "n rate speed", "n near", "where", "source"]) row.append(cell(style));
  return [row];
}

function sortBy(key) {
  const first = NUMBERS.has(key) && key !== "index";
  order.down = order.key === key ? !order.down : first;
  order.key = key;
  markOrder();
  fill();
}

function markOrder() {
  for (const head of table.querySelectorAll("th")) {
    if (head.dataset.key === order.key) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

function chips() {
  for (const category of categories) {
    const count = operators.filter((op) => op.category === category).length;
    if (!count) continue;
    byId("chips").append(element("button", { type: "button", class: `chip ${category.style}`, "data-category": category.name, "aria-pressed": "false" },
      element("span", { class: "swatch paint" }), element("span", { class: "name" }, isolated(category.name)), element("small", {}, count.toLocaleString("en-US"))));
  }
}

function places() {
  const counts = new Map();
  for (const op of operators) counts.set(op.place, (counts.get(op.place) || 0) + 1);
  counts.delete("");
  for (const [place, count] of counts) byId("place").append(element("option", { value: place }, `${place} (${count})`));
  byId("place").hidden = counts.size < 2;
}

function resetFilter() {
  filter.text = byId("search").value = "";
  filter.place = byId("place").value = "";
  filter.categories.clear();
  refilter();
}

if (table) {
  table.classList.toggle("untimed", !timed);
  chips();
  places();
  for (const head of table.querySelectorAll("th")) head.firstElementChild.addEventListener("click", () => sortBy(head.dataset.key));
  byId("search").addEventListener("input", (event) => {
    filter.text = event.target.value.trim().toLowerCase();
    refilter();
  });
  byId("place").addEventListener("change", (event) => {
    filter.place = event.target.value;
    refilter();
  });
  byId("reset").addEventListener("click", resetFilter);
  byId("all").addEventListener("click", () => {
    limit += MORE;
    fill();
  });
  whenFiltered.push(() => {
    limit = PAGE;
    fill();
  });
  new ResizeObserver(respan).observe(table);
  markOrder();
  fill();
  select(operators.reduce((slowest, op) => ((op.time || 0) > (slowest.time || 0) ? op : slowest), operators[0]));
}
