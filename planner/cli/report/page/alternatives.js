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
