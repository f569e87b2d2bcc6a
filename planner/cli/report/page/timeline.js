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
