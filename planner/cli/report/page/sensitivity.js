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
