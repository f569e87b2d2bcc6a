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

// ---- head -------------------------------------------------------------------------------------
document.title = `${P.model} on ${P.cluster}: zplan report`;
d3.select("#subject").text(`${P.model} on ${P.cluster_words}`);
{
  const [first, ...rest] = P.verdict.split(": ");
  const h1 = d3.select("#verdict");
  h1.append("span").attr("class", P.fits ? "answer" : "answer no").text(P.fits ? "Yes" : "No");
  h1.append("span").text(": " + rest.join(": "));
  d3.select("#choices").selectAll("li").data(P.choices).join("li").text(t => t);
  const t = P.time, gpu = P.memory.gpu;
  const figures = [
    [seconds(t.step_s), `per step; ${seconds(t.interval.low_s)} to ${seconds(t.interval.high_s)} (${percent(t.interval.share)})`],
    [count(Math.round(t.tokens_per_s)), "tokens per second"],
    [t.mfu > 0 ? percent(t.mfu) : digits(t.model_tflops_per_gpu), t.mfu > 0 ? `MFU; ${digits(t.model_tflops_per_gpu)} TFLOP/s per GPU` : "TFLOP/s per GPU"],
    [bytes(gpu.peak_bytes), `GPU memory at the peak, of ${bytes(gpu.capacity_bytes)}`],
    [P.limit, "limits the step"],
  ];
  const f = d3.select("#figures").selectAll("div").data(figures).join("div").attr("class", "figure");
  f.classed("words", d => d[0].length > 14).append("b").text(d => d[0]);
  f.append("span").text(d => d[1]);
}

// ---- memory -----------------------------------------------------------------------------------
const CATEGORIES = ["parameters", "gradients", "optimizer", "activations", "checkpoints", "gathered", "workspace", "input"];
const TIERS = [["gpu", "GPU, each"], ["cpu", "CPU memory, per node"], ["nvme", "NVMe, per node"]]
  .filter(([k]) => P.memory[k] && P.memory[k].peak_bytes > 0);
{
  const s = section("memory", "Memory", "What each tier holds at its fullest moment, placed to the byte, against what the hardware has. Reserve is what contexts and communicators take; headroom is left free on purpose.");
  const c = card(s);
  const line = [];
  const draw = c.append("div");
  drawing(() => {
    draw.html("");
    const w = wide(), small = w < 600, row = small ? 80 : 62, above = small ? 18 : 0;
    const svg = chart(draw, w, TIERS.length * row, "Memory by tier");
    patterns(svg);
    TIERS.forEach(([key, title], i) => {
      const use = P.memory[key], top = i * row, y = top + above;
      const most = Math.max(use.capacity_bytes, use.peak_bytes + use.reserve_bytes);
      const x = d3.scaleLinear([0, most], [0, w]);
      svg.append("text").attr("y", top + 13).attr("font-weight", 600).text(title);
      svg.append("text").attr("x", small ? 0 : w).attr("y", y + 13).attr("text-anchor", small ? "start" : "end").attr("class", "soft")
        .text(`${bytes(use.peak_bytes)} + ${bytes(use.reserve_bytes)} reserve of ${bytes(use.capacity_bytes)}${use.fits ? "" : ": does not fit"}`);
      svg.append("rect").attr("x", 0).attr("y", y + 22).attr("width", x(use.capacity_bytes)).attr("height", 24)
        .attr("rx", 3).attr("fill", "var(--grid)");
      let at = 0;
      const part = (name, size, fill) => {
        if (size <= 0) return;
        const wide = x(at + size) - x(at);
        const g = svg.append("g").attr("class", "point");
        g.append("rect").attr("x", x(at)).attr("y", y + 22).attr("width", Math.max(0, wide - 1)).attr("height", 24).attr("fill", fill);
        if (wide > 8 * name.length + 6 && fill !== "url(#hatch)")
          g.append("text").attr("x", x(at) + 6).attr("y", y + 38).style("fill", "#fff").style("font-weight", 600)
            .style("paint-order", "stroke").style("stroke", "rgba(0,0,0,.25)").style("stroke-width", 2).text(name);
        tells(g.datum(0), line[0] || { html: () => {} }, () => `<b>${escaped(name)}</b>: ${bytes(size)}, ${percent(size / use.capacity_bytes)} of ${escaped(title)}`);
        at += size;
      };
      CATEGORIES.forEach((name, j) => part(name, use.by_category[name] || 0, cssVar(j)));
      part("gaps", use.gaps_bytes, cssVar(8));
      part("reserve", use.reserve_bytes, "url(#hatch)");
      svg.append("line").attr("x1", x(use.capacity_bytes)).attr("x2", x(use.capacity_bytes)).attr("y1", y + 18).attr("y2", y + 50)
        .attr("stroke", use.fits ? "var(--ink)" : "var(--bad)").attr("stroke-width", 2);
    });
  });
  const used = CATEGORIES.map((name, j) => ({ name, colour: cssVar(j) }))
    .filter(e => TIERS.some(([k]) => P.memory[k].by_category[e.name] > 0));
  legend(c, used.concat([{ name: "gaps", colour: cssVar(8) }, { name: "reserve (hatched)", colour: "repeating-linear-gradient(45deg, var(--hatch) 0 2px, var(--card) 2px 4px)" }]));
  line.push(detail(c, "Point at a part, or move to it with Tab, to read its size."));
  drawings[drawings.length - 1]();

  const classes = P.memory.classes;
  s.append("h3").text("By pipeline stage, of one rank");
  const rows = classes.flatMap(one => TIERS.map(([k, title]) => ({ stage: one.stage, title, key: k, ...one[k] })))
    .filter(r => r.slab_bytes > 0);
  const shown = rows.length > 40 ? rows.filter(r => r.stage < 6 || r.stage >= classes.length - 6) : rows;
  const c2 = card(s);
  table(c2, [
    { title: "stage", of: r => r.stage }, { title: "tier", text: true, of: r => r.key },
    { title: "slab", of: r => bytes(r.slab_bytes) }, { title: "live peak", of: r => bytes(r.live_peak_bytes) },
    { title: "fullest at", text: true, of: r => r.peak_op },
    { title: "largest then", text: true, long: true, of: r => r.largest.slice(0, 3).map(b => `${b.name} ${bytes(b.bytes)}`).join(", ") },
  ], shown);
  if (shown.length < rows.length) c2.append("p").attr("class", "note").text(`The first and last six of ${classes.length} stages.`);
}

// ---- memory over the step ---------------------------------------------------------------------
const T = D.timeline;
{
  const s = main.select("#memory");
  s.append("h3").text("Over one step");
  const c = card(s);
  let rank = 0;
  const plot = c.append("div");
  const draw = () => {
    plot.html("");
    for (const tier of T.ranks[rank].memory) {
      const w = wide(), h = 130, m = { l: 52, r: 10, t: 18, b: 24 };
      const svg = chart(plot, w, h, `${tier.tier} memory over the step`);
      const points = tier.points_gib;
      const top = d3.max(points, p => p[1]);
      const x = d3.scaleLinear([0, T.end_ns / 1e9], [m.l, w - m.r]);
      const y = d3.scaleLinear([0, top * 1.06], [h - m.b, m.t]);
      const steps = points.concat([[T.end_ns, points[points.length - 1][1]]]);
      svg.append("g").attr("class", "axis").attr("transform", `translate(0,${h - m.b})`)
        .call(d3.axisBottom(x).ticks(w < 600 ? 4 : 8).tickFormat(t => seconds(t)).tickSizeOuter(0));
      svg.append("g").attr("class", "axis").attr("transform", `translate(${m.l},0)`).call(d3.axisLeft(y).ticks(4).tickFormat(v => digits(v)));
      svg.append("text").attr("x", 0).attr("y", 11).attr("class", "soft")
        .text(`${tier.tier}: GiB alive on one rank, highest ${digits(top, 4)}`);
      const area = d3.area().curve(d3.curveStepAfter).x(p => x(p[0] / 1e9)).y0(y(0)).y1(p => y(p[1]));
      svg.append("path").attr("d", area(steps)).attr("fill", "var(--c0)").attr("fill-opacity", .22);
      svg.append("path").attr("d", area.lineY1()(steps)).attr("fill", "none").attr("stroke", "var(--c0)").attr("stroke-width", 1.5);
    }
  };
  choices(c, T.ranks.map(r => `stage ${r.stage}`), "Stage", i => { rank = i; draw(); });
  c.append(() => plot.node());
  drawings.push(draw);
  c.append("p").attr("class", "note").text("In program order: the most that is alive from one operation of the compute and CPU lanes to the next.");
}

// ---- timeline ---------------------------------------------------------------------------------
const PHASES = ["begin", "forward", "recompute", "backward", "norm", "update", "end"];
const PHASE_COLOURS = [7, 0, 4, 1, 8, 2, 5];
const WAITS = ["nothing", "another operation", "memory that another operation used", "its peers", "its launch by the host", "an operation that is not shown"];
const LANES = { send_forward_up: "send ↑ fwd", send_forward_down: "send ↓ fwd", send_backward_up: "send ↑ bwd", send_backward_down: "send ↓ bwd",
  receive_forward_up: "recv ↑ fwd", receive_forward_down: "recv ↓ fwd", receive_backward_up: "recv ↑ bwd", receive_backward_down: "recv ↓ bwd" };
{
  const s = section("timeline", "Timeline", `One steady step, simulated. Each row is a queue of one rank; what stands in a row runs one after the other. ${T.stages > T.ranks.length ? `Of ${T.stages} stages the first, the last, the busiest and the one in the middle. ` : ""}Grey hatched stretches stand for micro-batches that are alike.`);
  const c = card(s);
  let rank = 0, transform = d3.zoomIdentity, picked = null;
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  const ROW = 26, LEFT = 92, TOP = 20;
  const lanes = () => T.ranks[rank].lanes;
  const phaseOf = name => Math.max(0, PHASES.indexOf(T.names[name].split(".")[0]));
  const scale = () => transform.rescaleX(d3.scaleLinear([0, T.end_ns], [LEFT, canvas.clientWidth]));
  function hatch(g) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const t = tile.getContext("2d");
    t.fillStyle = colour("--grid");
    t.fillRect(0, 0, 8, 8);
    t.strokeStyle = colour("--hatch");
    t.beginPath();
    t.moveTo(-2, 10); t.lineTo(10, -2);
    t.stroke();
    return g.createPattern(tile, "repeat");
  }
  function draw() {
    const w = canvas.clientWidth, h = TOP + lanes().length * ROW, r = window.devicePixelRatio || 1;
    canvas.width = w * r;
    canvas.height = h * r;
    canvas.style.height = h + "px";
    canvas.setAttribute("aria-label", `Timeline of stage ${T.ranks[rank].stage}: ${lanes().map(l => l.lane).join(", ")}. Arrow keys move, plus and minus zoom, 0 shows all.`);
    const g = canvas.getContext("2d"), x = scale();
    g.scale(r, r);
    g.clearRect(0, 0, w, h);
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    const ink = colour("--ink"), soft = colour("--soft"), grid = colour("--grid");
    const phase = PHASE_COLOURS.map(i => colour("--c" + i)), folded = hatch(g);
    g.fillStyle = soft;
    g.textAlign = "center";
    for (const t of x.ticks(w < 600 ? 3 : 7)) {
      if (x(t) < LEFT) continue;
      g.fillStyle = grid;
      g.fillRect(x(t), TOP - 4, 1, h);
      g.fillStyle = soft;
      g.fillText(seconds(t / 1e9), Math.min(w - 24, Math.max(LEFT + 20, x(t))), 8);
    }
    g.textAlign = "left";
    lanes().forEach((lane, i) => {
      const y = TOP + i * ROW;
      g.save();
      g.beginPath();
      g.rect(LEFT, 0, w - LEFT, h);
      g.clip();
      for (const f of lane.folds) {
        const a = x(f[0]), b = x(f[0] + f[1]);
        if (b < LEFT || a > w) continue;
        g.fillStyle = folded;
        g.fillRect(a, y + 3, Math.max(1, b - a), ROW - 6);
        label(g, `micro-batches ${f[2]}–${f[3]}`, Math.max(a, LEFT), Math.min(b, w), y, ink, true);
      }
      for (const d of lane.slices) {
        const a = x(d[0]), b = x(d[0] + d[1]);
        if (b < LEFT || a > w) continue;
        const p = phaseOf(d[2]);
        g.fillStyle = phase[p];
        g.fillRect(a, y + 3, Math.max(.7, b - a - (b - a > 4 ? 1 : 0)), ROW - 6);
        if (d === picked) {
          g.strokeStyle = ink;
          g.lineWidth = 2;
          g.strokeRect(a, y + 3, Math.max(1, b - a), ROW - 6);
        }
        label(g, T.names[d[2]], Math.max(a, LEFT), Math.min(b, w), y, "#fff", false);
      }
      g.restore();
      g.fillStyle = ink;
      g.fillText(LANES[lane.lane] || lane.lane, 0, y + ROW / 2);
    });
  }
  function label(g, text, a, b, y, fill, plate) {
    if (b - a < 44) return;
    let t = text;
    while (t.length > 3 && g.measureText(t).width > b - a - 8) t = t.slice(0, -2) + "…";
    if (t.length < 4) return;
    if (plate) {
      g.fillStyle = colour("--card");
      g.fillRect(a + 3, y + 6, g.measureText(t).width + 6, ROW - 12);
    }
    g.fillStyle = fill;
    g.fillText(t, a + 6, y + ROW / 2 + .5);
  }
  choices(c, T.ranks.map(r => `stage ${r.stage}`), "Stage", i => { rank = i; picked = null; if (canvas.isConnected) draw(); });
  c.append(() => canvas);
  legend(c, PHASES.map((name, i) => ({ name, colour: cssVar(PHASE_COLOURS[i]) })).filter(e => T.names.some(n => n.startsWith(e.name + "."))));
  const line = detail(c, "Point at a slice to read it. Scroll with Ctrl, pinch, or press + and − to zoom; drag or use the arrow keys to move; 0 shows all.");
  const zoom = d3.zoom().scaleExtent([1, 4000])
    .filter(() => !d3.event.button && (d3.event.type !== "wheel" || d3.event.ctrlKey))
    .on("zoom", () => { transform = d3.event.transform; draw(); });
  const view = d3.select(canvas).call(zoom).on("dblclick.zoom", null);
  const bounds = () => zoom.extent([[LEFT, 0], [canvas.clientWidth, 100]]).translateExtent([[LEFT, 0], [canvas.clientWidth, 100]]);
  canvas.addEventListener("keydown", e => {
    const step = { ArrowLeft: 80, ArrowRight: -80 }[e.key];
    if (step) view.call(zoom.translateBy, step / transform.k, 0);
    else if (e.key === "+" || e.key === "=") view.call(zoom.scaleBy, 1.5);
    else if (e.key === "-") view.call(zoom.scaleBy, 1 / 1.5);
    else if (e.key === "0") view.call(zoom.transform, d3.zoomIdentity);
    else return;
    e.preventDefault();
  });
  canvas.addEventListener("mousemove", e => {
    const lane = lanes()[Math.floor((e.offsetY - TOP) / ROW)];
    if (!lane || e.offsetX < LEFT) return;
    const x = scale(), at = x.invert(e.offsetX), near = x.invert(e.offsetX + 2) - at;
    const d = lane.slices.find(s => s[0] - near <= at && at < s[0] + s[1] + near);
    const f = lane.folds.find(q => q[0] <= at && at < q[0] + q[1]);
    if (d) {
      line.html(`<b>${escaped(T.names[d[2]])}</b> on ${lane.lane}: ${seconds(d[1] / 1e9)} from ${seconds(d[0] / 1e9)}${d[3] > 1 ? `; ${d[3]} short operations drawn as one, busy ${seconds(d[4] / 1e9)}` : ""}${d[5] ? `; waited ${seconds(d[6] / 1e9)} for ${WAITS[d[5]]}` : ""}`);
    } else if (f) {
      line.html(`<b>Iterations ${f[2]} to ${f[3]} of the loop over micro-batches</b>: ${count(f[4])} operations on ${lane.lane}, busy ${seconds(f[5] / 1e9)} of ${seconds(f[1] / 1e9)}`);
    }
    if (d !== picked) { picked = d || null; draw(); }
  });
  drawing(() => { bounds(); draw(); });
  const busiest = D.lanes.filter(l => l.stage === P.split.stage);
  s.append("h3").text(`Lanes of stage ${P.split.stage}`);
  table(card(s), [
    { title: "lane", text: true, of: l => l.lane }, { title: "busy", of: l => percent(l.busy_share) },
    { title: "exposed", of: l => seconds(l.exposed_s) }, { title: "waits for peers", of: l => seconds(l.peer_wait_s) },
    { title: "for memory", of: l => seconds(l.reuse_wait_s) }, { title: "for launch", of: l => seconds(l.launch_wait_s) },
  ], busiest);
}

// ---- where the time goes ----------------------------------------------------------------------
{
  const s = section("time", "Where the time goes", `Every instant of the step of stage ${P.split.stage}, the busiest, counts once: as compute while its compute lane runs, else as what that lane waits for. Solid bars compute; hatched bars hold compute up.`);
  const c = card(s), plot = c.append("div");
  const parts = P.split.parts.filter(p => p.time_s > 0);
  const computes = new Set(["products", "attention", "memory"]);
  drawing(() => {
    plot.html("");
    const w = wide(), row = 30, left = w < 600 ? 0 : 250, head = w < 600 ? 16 : 0, each = row + head;
    const svg = chart(plot, w, parts.length * each + 24, "Waterfall of the step");
    patterns(svg);
    const x = d3.scaleLinear([0, P.split.step_s], [left, w - 150]);
    let at = 0;
    parts.forEach((p, i) => {
      const y = i * each + head, a = x(at), b = x(at + p.time_s);
      svg.append("text").attr("x", head ? 0 : left - 10).attr("y", head ? y - 4 : y + 17).attr("text-anchor", head ? "start" : "end").text(p.name);
      svg.append("rect").attr("x", a).attr("y", y + 3).attr("width", Math.max(1.5, b - a)).attr("height", row - 9).attr("rx", 2)
        .attr("fill", computes.has(p.part) ? "var(--c2)" : "url(#hatch)").attr("stroke", computes.has(p.part) ? "none" : "var(--c1)");
      svg.append("text").attr("x", Math.max(b, a + 2) + 8).attr("y", y + 17).attr("class", "soft").text(`${seconds(p.time_s)}, ${digits(p.percent, 3)} %`);
      if (i + 1 < parts.length) svg.append("line").attr("x1", b).attr("x2", b).attr("y1", y + row - 6).attr("y2", y + each + 3).attr("stroke", "var(--line)");
      at += p.time_s;
    });
    svg.append("text").attr("x", left).attr("y", parts.length * each + 17).attr("font-weight", 600).text(`${seconds(P.split.step_s)} in all`);
  });
}

// ---- alternatives -----------------------------------------------------------------------------
{
  const S = D.search;
  const s = section("alternatives", "Alternatives", `Plans for the same model, batch and cluster that the search simulated: ${count(S.plans.length)} of ${count(S.space)}. No plan of the space is more than ${percent(S.gap)} faster than the fastest here, by this cost model.`);
  const own = { step_s: P.time.step_s, gpu_bytes: Math.max(...P.memory.classes.map(k => k.gpu.slab_bytes)), own: true, family: "this plan", shape: "", differs: "", reason: "the plan of this page" };
  const others = D.plans.slice(1).map(p => ({ step_s: p.time.step_s, gpu_bytes: Math.max(...p.memory.classes.map(k => k.gpu.slab_bytes)), other: true, family: p.file, shape: "", differs: "", reason: "given beside it" }));
  const all = S.plans.concat(others, [own]);
  const words = d => `<b>${escaped(d.family)}</b>${d.shape ? ` ${escaped(d.shape)}` : ""}${d.micro_batch ? `, micro-batch ${d.micro_batch}` : ""}: ${seconds(d.step_s)}, ${bytes(d.gpu_bytes)}. ${escaped(d.reason)}${d.differs ? `; has ${escaped(d.differs)}` : ""}`;
  const c = card(s), plot = c.append("div");
  let line = null;
  const draw = () => {
    plot.html("");
    const w = wide(), h = 340, m = { l: 62, r: 24, t: 14, b: 42 };
    const svg = chart(plot, w, h, "Time against memory");
    const x = d3.scaleLog(d3.extent(all, d => d.step_s).map((v, i) => v * (i ? 1.06 : .95)), [m.l, w - m.r]);
    const y = d3.scaleLinear([0, d3.max(all, d => d.gpu_bytes) / GIB * 1.1], [h - m.b, m.t]);
    const powers = x.ticks(6), ticks = (powers.length < 3 ? d3.ticks(...x.domain(), 6) : powers)
      .filter((t, i, list) => list.length < 9 || i % Math.ceil(list.length / 8) === 0);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${h - m.b})`).call(d3.axisBottom(x).tickValues(ticks).tickFormat(t => seconds(t)));
    svg.append("g").attr("class", "axis").attr("transform", `translate(${m.l},0)`).call(d3.axisLeft(y).ticks(6));
    svg.append("text").attr("x", w - m.r).attr("y", h - 6).attr("text-anchor", "end").attr("class", "soft").text("step time →");
    svg.append("text").attr("x", m.l + 6).attr("y", m.t + 4).attr("class", "soft").text("↑ GiB of each GPU");
    const front = S.plans.filter(d => d.unbeaten).sort((a, b) => a.step_s - b.step_s);
    svg.append("path").attr("fill", "none").attr("stroke", "var(--accent)").attr("stroke-dasharray", "5 4")
      .attr("d", d3.line().curve(d3.curveStepAfter).x(d => x(d.step_s)).y(d => y(d.gpu_bytes / GIB))(front));
    const shape = d => d.own ? d3.symbolSquare : d.other ? d3.symbolTriangle : d.recommended ? d3.symbolStar : d.unbeaten ? d3.symbolDiamond : d3.symbolCircle;
    const point = svg.append("g").selectAll("path").data(all).join("path").attr("class", "point")
      .attr("transform", d => `translate(${x(d.step_s)},${y(d.gpu_bytes / GIB)})`)
      .attr("d", d => d3.symbol().type(shape(d)).size(d.own ? 200 : d.recommended ? 170 : d.unbeaten || d.other ? 90 : 46)())
      .attr("fill", d => d.own ? "none" : d.recommended ? "var(--c1)" : d.unbeaten ? "var(--accent)" : d.other ? "var(--c3)" : "var(--c7)")
      .attr("stroke", d => d.own ? "var(--ink)" : "var(--card)").attr("stroke-width", d => d.own ? 2.5 : 1);
    if (line) tells(point, line, words);
  };
  drawing(draw);
  const mark = (path, fill, stroke) => `<svg style="display:inline-block;width:14px;height:14px;vertical-align:-2px;margin-right:5px" viewBox="-8 -8 16 16"><path d="${path}" fill="${fill}" stroke="${stroke}" stroke-width="2"></path></svg>`;
  const l = c.append("ul").attr("class", "legend");
  const entry = (type, fill, text, stroke = "none") => l.append("li").html(mark(d3.symbol().type(type).size(80)(), fill, stroke) + escaped(text));
  entry(d3.symbolSquare, "none", "this plan", "currentColor");
  entry(d3.symbolStar, "var(--c1)", "recommended");
  entry(d3.symbolDiamond, "var(--accent)", "Pareto front: none is better in time, memory and GPUs");
  entry(d3.symbolCircle, "var(--c7)", "others");
  if (others.length) entry(d3.symbolTriangle, "var(--c3)", "given beside it");
  line = detail(c, words(own));
  draw();
  const more = s.append("details").attr("class", "card");
  more.append("summary").text(`The ${S.plans.length} plans as a table`);
  table(more, [
    { title: "step", of: d => seconds(d.step_s) }, { title: "GPU memory", of: d => bytes(d.gpu_bytes) },
    { title: "family", text: true, of: d => d.family }, { title: "ranks", text: true, of: d => d.shape },
    { title: "micro-batch", of: d => d.micro_batch }, { title: "why", text: true, long: true, of: d => d.reason },
    { title: "what it has otherwise", text: true, long: true, of: d => d.differs },
  ], S.plans, { isThis: d => d.recommended });
  const lost = s.append("details").attr("class", "card");
  lost.append("summary").text(`Families that lost, and why (${S.rejected.length})`);
  table(lost, [
    { title: "family", text: true, of: r => r.family }, { title: "state", text: true, of: r => r.state.replace("_", " ") },
    { title: "reason", text: true, long: true, of: r => r.reason },
  ], S.rejected);
}

// ---- plans beside each other ------------------------------------------------------------------
if (D.plans.length > 1) {
  const s = section("plans", "The plans given");
  table(card(s), [
    { title: "plan", text: true, of: p => p.file }, { title: "fits", text: true, of: p => p.fits ? "yes" : "no" },
    { title: "step", of: p => seconds(p.time.step_s) }, { title: "tokens/s", of: p => count(Math.round(p.time.tokens_per_s)) },
    { title: "GPU peak", of: p => bytes(p.memory.gpu.peak_bytes) }, { title: "limited by", text: true, of: p => p.limit },
    { title: "decisions", text: true, long: true, of: p => p.choices.slice(0, 2).join(" ") },
  ], D.plans, { isThis: p => p === P });
}

// ---- sensitivity ------------------------------------------------------------------------------
{
  const S = D.sensitivity;
  const s = section("sensitivity", "Sensitivity", "What the step gains where one quantity of the hardware is 10\u00a0% better, and loses where it is 10\u00a0% worse; slopes of the simulation.");
  const rows = S.prices.filter(p => Math.max(Math.abs(p.saved_s), Math.abs(p.lost_s)) > 1e-4 * S.step_s).slice(0, 14);
  const c = card(s), plot = c.append("div");
  drawing(() => {
    plot.html("");
    const w = wide(), small = w < 600, row = small ? 44 : 28, left = small ? 0 : 190;
    const svg = chart(plot, w, rows.length * row + 26, "Sensitivity of the step");
    patterns(svg);
    const most = d3.max(rows, p => Math.max(p.saved_s, p.lost_s)) || 1;
    const x = d3.scaleLinear([-most, most], [left + 80, w - 80]);
    svg.append("text").attr("x", x(0) - 8).attr("y", 12).attr("text-anchor", "end").attr("class", "soft").text("← 10 % better saves");
    svg.append("text").attr("x", x(0) + 8).attr("y", 12).attr("class", "soft").text("10 % worse costs →");
    rows.forEach((p, i) => {
      const y = 20 + i * row, bar = small ? y + 16 : y;
      svg.append("text").attr("x", small ? 0 : left - 8).attr("y", small ? y + 11 : y + 15).attr("text-anchor", small ? "start" : "end").text(p.quantity);
      svg.append("rect").attr("x", x(-p.saved_s)).attr("y", bar + 3).attr("width", Math.max(0, x(0) - x(-p.saved_s))).attr("height", 16).attr("fill", "var(--c2)");
      svg.append("rect").attr("x", x(0)).attr("y", bar + 3).attr("width", Math.max(0, x(p.lost_s) - x(0))).attr("height", 16).attr("fill", "url(#hatch)").attr("stroke", "var(--c1)");
      svg.append("text").attr("x", x(-p.saved_s) - 5).attr("y", bar + 15).attr("text-anchor", "end").attr("class", "soft").text(seconds(p.saved_s));
      svg.append("text").attr("x", x(p.lost_s) + 5).attr("y", bar + 15).attr("class", "soft").text(seconds(p.lost_s));
    });
    svg.append("line").attr("x1", x(0)).attr("x2", x(0)).attr("y1", 18).attr("y2", 22 + rows.length * row).attr("stroke", "var(--ink)");
  });
  c.append("p").attr("class", "note").text(`${S.verdict}.${S.hidden.length ? ` Hidden behind others: ${S.hidden.join(", ")}.` : ""}`);
}

// ---- what if ----------------------------------------------------------------------------------
if (D.grid) {
  const G = D.grid;
  const s = section("whatif", "What if", `The step of this plan, simulated with other hardware: ${G.row} (${G.row_meaning}) down, ${G.column} (${G.column_meaning}) across, as multiples of what the cluster has.`);
  const c = card(s), n = G.factors.length;
  const t = c.append("div").attr("class", "scroll").append("table").attr("class", "grid");
  const now = P.time.step_s;
  t.append("thead").append("tr").selectAll("th").data([`${G.row} ↓  ${G.column} →`].concat(G.factors.map(f => "× " + f))).join("th").attr("scope", "col").text(d => d);
  const tr = t.append("tbody").selectAll("tr").data(G.factors).join("tr");
  tr.append("th").attr("scope", "row").text(f => "× " + f);
  const shade = v => {
    const gain = Math.max(-1, Math.min(1, Math.log2(now / v)));
    return `color-mix(in srgb, var(${gain >= 0 ? "--c2" : "--c1"}) ${Math.round(Math.abs(gain) * 55)}%, transparent)`;
  };
  tr.selectAll("td").data((f, i) => G.factors.map((g, j) => ({ v: G.steps_s[i * n + j], here: f === 1 && g === 1 }))).join("td")
    .attr("class", d => d.here ? "here" : null).style("background", d => d.v === null ? null : shade(d.v))
    .html(d => d.v === null ? "–" : `${seconds(d.v)}<br><small>${d.here ? "as it is" : digits(now / d.v, 3) + "×"}</small>`);
  c.append("p").attr("class", "note").text("Below each step how many times as fast it is. The plan stays the same; another plan may suit other hardware better (zplan what-if searches for it).");
}

// ---- roofline ---------------------------------------------------------------------------------
{
  const R = D.roofline;
  const all = d3.sum(R.points, p => p.time_s);
  const points = R.points.filter(p => p.flop > 0 && p.time_s > 1e-4 * all)
    .map(p => ({ ...p, intensity: p.flop / p.bytes, rate: p.flop / p.time_s / 1e12 }));
  const s = section("roofline", "Roofline", `Kernels of stage ${R.stage}: how much they compute for each byte, and how fast the cost model takes them to be. ${R.peak_tflops > 0 ? `Below the slope the memory of the device limits (${digits(R.bandwidth_gb_per_s)} GB/s), below the flat line its peak (${digits(R.peak_tflops)} TFLOP/s). ` : ""}The area of a point is its share of the kernels' time; those below 0.01 % are left out.`);
  const c = card(s), plot = c.append("div");
  let line = null;
  const words = p => `<b>${escaped(p.role)}</b>: ${digits(p.intensity)} flop per byte, ${digits(p.rate)} TFLOP/s, ${seconds(p.time_s)} a step, ${percent(p.time_s / all)} of the kernels' time`;
  const draw = () => {
    plot.html("");
    const w = wide(), h = 330, m = { l: 58, r: 16, t: 14, b: 42 };
    const svg = chart(plot, w, h, "Roofline");
    const ix = d3.extent(points, p => p.intensity), bw = R.bandwidth_gb_per_s / 1e3;
    const knee = R.peak_tflops > 0 ? R.peak_tflops / bw : ix[1];
    const x = d3.scaleLog([Math.min(ix[0], knee) / 2, Math.max(ix[1], knee) * 2.5], [m.l, w - m.r]);
    const top = Math.max(R.peak_tflops || 0, d3.max(points, p => p.rate)) * 1.6;
    const y = d3.scaleLog([d3.min(points, p => p.rate) / 2, top], [h - m.b, m.t]);
    const decades = axis => axis.ticks().filter(t => Number.isInteger(Math.round(Math.log10(t) * 1e6) / 1e6));
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${h - m.b})`).call(d3.axisBottom(x).tickValues(decades(x)).tickFormat(t => digits(t)));
    svg.append("g").attr("class", "axis").attr("transform", `translate(${m.l},0)`).call(d3.axisLeft(y).tickValues(decades(y)).tickFormat(t => digits(t)));
    svg.append("text").attr("x", w - m.r).attr("y", h - 6).attr("text-anchor", "end").attr("class", "soft").text("flop per byte →");
    svg.append("text").attr("x", m.l + 6).attr("y", m.t + 4).attr("class", "soft").text("↑ TFLOP/s");
    if (R.peak_tflops > 0) {
      const low = Math.max(x.domain()[0], y.domain()[0] / bw);
      svg.append("path").attr("fill", "none").attr("stroke", "var(--ink)").attr("stroke-width", 1.5)
        .attr("d", `M${x(low)},${y(low * bw)}L${x(knee)},${y(R.peak_tflops)}L${x(x.domain()[1])},${y(R.peak_tflops)}`);
    }
    const point = svg.append("g").selectAll("circle").data(points).join("circle").attr("class", "point")
      .attr("cx", p => x(p.intensity)).attr("cy", p => y(p.rate)).attr("r", p => 3 + 26 * Math.sqrt(p.time_s / all))
      .attr("fill", p => cssVar(PHASE_COLOURS[Math.max(0, PHASES.indexOf(p.role.split(".")[0]))])).attr("fill-opacity", .7).attr("stroke", "var(--card)");
    const labels = [];  // only where none stands yet
    for (const p of points.slice(0, 8)) {
      const size = 6.2 * p.role.length, px = Math.min(w - m.r - size, Math.max(m.l, x(p.intensity) - size / 2));
      const py = y(p.rate) + 16 + 26 * Math.sqrt(p.time_s / all);
      if (py > h - m.b || labels.some(l => px < l.x + l.size && l.x < px + size && Math.abs(py - l.y) < 14)) continue;
      labels.push({ x: px, y: py, size });
      svg.append("text").attr("x", px).attr("y", py).attr("class", "soft").text(p.role);
    }
    if (line) tells(point, line, words);
  };
  drawing(draw);
  legend(c, PHASES.map((name, i) => ({ name, colour: cssVar(PHASE_COLOURS[i]) })).filter(e => points.some(p => p.role.startsWith(e.name + "."))));
  line = detail(c, points.length ? words(points[0]) : "No kernel computes.");
  draw();
}

// ---- measured ---------------------------------------------------------------------------------
if (D.measured) {
  const M = D.measured;
  const s = section("measured", "Predicted and measured", `A run of this plan beside its prediction, operation by operation: a step took ${seconds(M.step.measured_s)} where ${seconds(M.step.predicted_s)} were predicted.`);
  const rows = [["kind", M.kinds], ["phase", M.phases], ["lane", M.lanes]].flatMap(([of, list]) => list.map(r => ({ of, ...r })));
  const c = card(s), plot = c.append("div");
  drawing(() => {
    plot.html("");
    const w = wide(), row = 40, left = w < 600 ? 110 : 170, svg = chart(plot, w, M.lanes.length * row + 4, "Predicted and measured by lane");
    const x = d3.scaleLinear([0, d3.max(M.lanes, r => Math.max(r.predicted_s, r.measured_s))], [left, w - 90]);
    M.lanes.forEach((r, i) => {
      const y = i * row;
      svg.append("text").attr("x", left - 8).attr("y", y + 22).attr("text-anchor", "end").text(r.name);
      [["predicted", r.predicted_s, "var(--c0)"], ["measured", r.measured_s, "var(--c1)"]].forEach(([name, v, fill], j) => {
        svg.append("rect").attr("x", left).attr("y", y + 4 + j * 15).attr("width", Math.max(1, x(v) - left)).attr("height", 13).attr("fill", fill);
        svg.append("text").attr("x", x(v) + 5).attr("y", y + 15 + j * 15).attr("class", "soft").text(`${name} ${seconds(v)}`);
      });
    });
  });
  table(card(s), [
    { title: "by", text: true, of: r => r.of }, { title: "", text: true, of: r => r.name },
    { title: "predicted", of: r => seconds(r.predicted_s) }, { title: "measured", of: r => seconds(r.measured_s) },
    { title: "measured / predicted", of: r => r.ratio === null ? "–" : digits(r.ratio) },
  ], rows);
}

// ---- assumptions ------------------------------------------------------------------------------
{
  const kinds = [];
  for (const r of D.sources) {
    const key = r.source || "model", known = kinds.find(k => k.key === key);
    if (known) known.value += 1;
    else kinds.push({ key, value: 1 });
  }
  const s = section("assumptions", "Assumptions", `Every figure of the hardware and the model with its source: ${kinds.map(k => `${k.value} ${k.key}`).join(", ")}.`);
  const c = s.append("details").attr("class", "card");
  c.append("summary").text(`All ${D.sources.length} figures`);
  const box = c.append("div").style("margin-top", ".7rem"), names = ["all"].concat(kinds.map(k => k.key));
  let body = null;
  const show = i => {
    if (body) body.remove();
    const rows = D.sources.filter(r => i === 0 || (r.source || "model") === names[i]);
    body = c.append("div");
    table(body, [
      { title: "of", text: true, of: r => r.of }, { title: "figure", text: true, of: r => r.figure },
      { title: "value", text: true, of: r => r.value }, { title: "source", text: true, of: r => r.source },
      { title: "reference", text: true, long: true, of: r => r.ref },
    ], rows);
  };
  choices(box, names, "Kind of source", show);
}

// ---- how to make it again ---------------------------------------------------------------------
{
  const s = section("again", "Make it again", "The same command, program and files give the same page, byte for byte.");
  const c = card(s);
  c.append("pre").text(D.command);
  c.append("p").attr("class", "note").html(`zplan ${escaped(D.version)}; fingerprint of the placed job <b>${P.fingerprint}</b>`);
  for (const p of D.plans) {
    const d = c.append("details");
    d.append("summary").text(p.file);
    d.append("pre").text(JSON.stringify(p.plan, null, 2));
  }
}

// ---- light, dark, width -----------------------------------------------------------------------
{
  const root = document.documentElement, button = document.getElementById("theme");
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (prefers.matches ? "dark" : "light")) === "dark";
  const again = () => { button.textContent = isDark() ? "Light" : "Dark"; drawings.forEach(draw => draw()); };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; again(); });
  prefers.addEventListener("change", again);
  button.textContent = isDark() ? "Light" : "Dark";
  let width = wide();
  window.addEventListener("resize", () => {
    if (wide() === width) return;
    width = wide();
    drawings.forEach(draw => draw());
  });
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(d => { d.open = true; }));
}
