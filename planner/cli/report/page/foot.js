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
