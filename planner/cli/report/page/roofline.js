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
