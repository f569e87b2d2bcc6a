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
