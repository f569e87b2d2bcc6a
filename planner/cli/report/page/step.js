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
