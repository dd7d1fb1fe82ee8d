// What is chosen: a filter (text, categories, place) and one operator. Views listen to both.
const filter = { text: "", categories: new Set(), place: "" };
const whenFiltered = [];
const whenSelected = [];
let selected = null;

const isFiltered = () => filter.text !== "" || filter.categories.size > 0 || filter.place !== "";

function passes(op) {
  return (!filter.categories.size || filter.categories.has(op.category.name))
    && (!filter.place || op.place === filter.place)
    && filter.text.split(/\s+/).every((word) => op.haystack.includes(word));
}

function refilter() {
  document.body.classList.toggle("filtered", filter.categories.size > 0);
  for (const listener of whenFiltered) listener();
}

function toggleCategory(name) {
  if (!filter.categories.delete(name)) filter.categories.add(name);
  refilter();
}

function select(op) {
  if (!op || op === selected) return;
  selected = op;
  for (const listener of whenSelected) listener(op);
}

function markCategories() {
  for (const button of document.querySelectorAll("button[data-category]")) {
    const chosen = filter.categories.has(button.dataset.category);
    button.classList.toggle("chosen", chosen);
    if (button.hasAttribute("aria-pressed")) button.setAttribute("aria-pressed", chosen);
  }
}
whenFiltered.push(markCategories);

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-category], button[data-operator]");
  if (!button) return;
  if (button.dataset.category !== undefined) toggleCategory(button.dataset.category);
  else reveal(byIndex.get(Number(button.dataset.operator)));
});

function reveal(op) {
  select(op);
  byId("timeline").scrollIntoView({ behavior: "smooth", block: "start" });
}

// The panel under the timeline.
function pair(name, value, style = "") {
  return value ? element("div", style ? { class: style } : {}, element("dt", {}, name), element("dd", {}, isolated(value))) : null;
}

function measures(op) {
  return [
    pair("time", op.time === null ? "" : duration(op.time)),
    pair("share of the run", op.share === null ? "" : percent(op.share)),
    pair("arithmetic", op.gmacs ? `${significant(op.gmacs)} GMAC/s` : ""),
    pair("memory", op.gbs ? `${significant(op.gbs)} GB/s` : ""),
    pair("of the limit", op.percent === null ? "" : `${significant(op.percent, 2)} %, ${op.bound}`),
    pair("memory limit", op.limitGbs ? `${significant(op.limitGbs)} GB/s` : ""),
    pair("runs on", op.place),
    pair("result", op.output),
    pair("layout conversion", conversions.get(op.index)),
  ];
}

function describe(op) {
  const head = element("div", {},
    element("p", { class: "name" }, element("span", { class: `swatch paint ${op.category.style}` }), isolated(op.kind),
      element("span", { class: "soft small" }, `#${op.index}`)),
    op.origins.length ? element("p", { class: "from" }, isolated(op.origins.slice(0, 3).join(", "))) : null,
    op.source ? element("p", { class: "from soft code" }, isolated(op.source)) : null,
    op.kernel && op.kernel !== op.kind ? element("p", { class: "from soft" }, isolated(op.kernel)) : null);
  byId("about").replaceChildren(head, element("dl", {}, ...measures(op).filter(Boolean)));
}
if (byId("about")) whenSelected.push(describe);
