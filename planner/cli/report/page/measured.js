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
