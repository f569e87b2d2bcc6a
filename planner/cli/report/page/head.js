// ---- head -------------------------------------------------------------------------------------
document.title = `${P.model} on ${P.cluster}: zplan report`;
d3.select("#subject").text(`${P.model} on ${P.cluster_words}`);
{
  const [first, ...rest] = P.verdict.split(": ");
  const h1 = d3.select("#verdict");
  h1.append("span").attr("class", P.fits ? "answer" : "answer no").text(P.fits ? "Yes" : "No");
  h1.append("span").text(": " + rest.join(": "));
  d3.select("#choices").selectAll("li").data(P.choices.concat(P.calibrations)).join("li").text(t => t);
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
  d3.select("#doubts").selectAll("li").data(P.doubts).join("li").text(line => line);
}
