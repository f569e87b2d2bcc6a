"use strict";
// Draws the data of the page. Every number comes from there; what happens here is formatting.
const D = JSON.parse(document.getElementById("data").textContent);
const P = D.plans[0];

// ---- words ------------------------------------------------------------------------------------
const GIB = 2 ** 30;
const digits = (x, n = 3) => x === 0 ? "0" : Number(x.toPrecision(n)).toLocaleString("en", { maximumFractionDigits: 6 });
const seconds = s => {
  if (s === null || s === undefined) return "–";
  const a = Math.abs(s);
  if (a === 0) return "0 s";
  if (a >= 1) return digits(s, 4) + " s";
  if (a >= .9995e-3) return digits(s * 1e3) + " ms";
  if (a >= .9995e-6) return digits(s * 1e6) + " µs";
  return digits(s * 1e9) + " ns";
};
const bytes = b => b >= 1024 * GIB ? digits(b / GIB / 1024) + " TiB"
  : b >= GIB / 10 ? digits(b / GIB) + " GiB" : digits(b / 2 ** 20) + " MiB";
const percent = x => digits(100 * x) + " %";
const count = n => n.toLocaleString("en");
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const cssVar = i => `var(--c${i})`;

// ---- building blocks --------------------------------------------------------------------------
const main = d3.select("#main");
const nav = d3.select("nav").append("div");
function section(id, title, lead) {
  nav.append("a").attr("href", "#" + id).text(title);
  const s = main.append("section").attr("id", id).attr("aria-label", title);
  s.append("h2").text(title);
  if (lead) s.append("p").attr("class", "lead").text(lead);
  return s;
}
const card = s => s.append("div").attr("class", "card");
const chart = (parent, width, height, label) => parent.append("svg")
  .attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img").attr("aria-label", label);
const wide = () => Math.max(320, Math.min(1040, main.node().clientWidth - 34));
// Drawings that depend on the width are drawn again when it changes, and when the colours do.
const drawings = [];
function drawing(draw) {
  drawings.push(draw);
  draw();
}
function table(parent, columns, rows, options = {}) {
  const t = parent.append("div").attr("class", "scroll").append("table");
  if (options.className) t.attr("class", options.className);
  t.append("thead").append("tr").selectAll("th").data(columns).join("th")
    .attr("scope", "col").attr("class", c => c.text ? "text" : null).text(c => c.title);
  const tr = t.append("tbody").selectAll("tr").data(rows).join("tr")
    .attr("class", r => options.isThis && options.isThis(r) ? "this" : null);
  tr.selectAll("td").data(r => columns.map(c => [c, c.of(r)])).join("td")
    .attr("class", ([c]) => c.long ? "text long" : c.text ? "text" : "number").text(([, v]) => v);
  return t;
}
function legend(parent, entries) {
  const li = parent.append("ul").attr("class", "legend").selectAll("li").data(entries).join("li");
  li.append("i").style("background", e => e.colour);
  li.append("span").text(e => e.name);
}
function choices(parent, names, label, choose) {
  const box = parent.append("div").attr("class", "choice").attr("role", "group").attr("aria-label", label);
  const buttons = box.selectAll("button").data(names).join("button").attr("type", "button").text(n => n);
  const pick = i => {
    buttons.attr("aria-pressed", (n, j) => String(i === j));
    choose(i);
  };
  buttons.on("click", (n, i) => pick(i));
  if (names.length < 2) box.remove();
  pick(0);
}
// A line of text below a drawing that says what is pointed at or focused.
const detail = (parent, text) => parent.append("p").attr("class", "detail").attr("aria-live", "polite").html(text);
const escaped = text => String(text).replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
function tells(selection, line, words) {
  selection.attr("tabindex", 0).attr("role", "img").attr("aria-label", d => words(d).replace(/<[^>]*>/g, ""))
    .on("mouseenter focus click", d => line.html(words(d)));
}
function patterns(svg) {
  const p = svg.append("defs").append("pattern").attr("id", "hatch").attr("width", 6).attr("height", 6)
    .attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)");
  p.append("rect").attr("width", 6).attr("height", 6).attr("fill", "var(--card)");
  p.append("rect").attr("width", 2.5).attr("height", 6).attr("fill", "var(--hatch)");
}
