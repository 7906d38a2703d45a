// Training curves to move about in: a panel per data set, values under the pointer, lines to switch off.
function drawCurves(place, panels) {
  const W = 460, H = 300, LEFT = 46, RIGHT = 10, TOP = 8, BOTTOM = 34, FLOOR = 1e-3;
  const hidden = new Set();
  let log = true;

  const make = (name, attributes, parent, text) => {
    const svg = ["svg", "path", "line", "text", "g", "rect"].includes(name);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };

  const controls = make("div", { class: "controls" }, place);
  const seen = new Map(panels.flatMap((panel) => panel.curves).map((curve) => [curve.name, curve]));
  const addBox = (checked, onChange) => {
    const label = make("label", {}, controls);
    const box = make("input", { type: "checkbox" }, label);
    box.checked = checked;
    box.addEventListener("change", () => { onChange(box.checked); redraw(); });
    return label;
  };
  for (const curve of seen.values()) {
    const label = addBox(true, (on) => (on ? hidden.delete(curve.name) : hidden.add(curve.name)));
    make("span", { class: curve.dashed ? "swatch dashed" : "swatch", style: `color:${curve.colour}` }, label);
    label.append(curve.name);
  }
  addBox(log, (on) => { log = on; }).append("logarithmic");

  const grid = make("div", { class: "pair" }, place);
  const redraws = panels.map((panel) => {
    const box = make("div", { class: "panel" }, grid);
    make("h3", {}, box, panel.title);
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `training loss on ${panel.title}` }, box);
    const tip = make("div", { class: "tip", hidden: "" }, box);
    return () => drawPanel(panel, svg, tip);
  });
  const redraw = () => redraws.forEach((draw) => draw());
  redraw();

  function drawPanel(panel, svg, tip) {
    svg.replaceChildren();
    tip.hidden = true;
    const curves = panel.curves.filter((curve) => !hidden.has(curve.name));
    if (!curves.length) return;
    const epochs = Math.max(...curves.map((curve) => curve.mean.length));
    const tops = curves.flatMap((c) => c.mean.map((m, i) => m + c.std[i]));
    const lows = curves.flatMap((c) => c.mean.map((m, i) => m - c.std[i]));
    const high = Math.max(...tops);
    const low = log ? Math.max(FLOOR, Math.min(...curves.flatMap((c) => c.mean)) / 1.5) : Math.min(0, ...lows);
    const scale = log ? (v) => Math.log10(Math.max(v, low)) : (v) => v;
    const x = (epoch) => LEFT + ((epoch - 1) / Math.max(1, epochs - 1)) * (W - LEFT - RIGHT);
    const y = (v) => TOP + ((scale(high) - scale(v)) / (scale(high) - scale(low) || 1)) * (H - TOP - BOTTOM);

    for (const tick of ticks(low, high)) {
      make("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: y(tick), y2: y(tick) }, svg);
      make("text", { x: LEFT - 5, y: y(tick) + 4, "text-anchor": "end" }, svg, String(tick));
    }
    for (let i = 0; i <= 4; i++) {
      const epoch = Math.max(1, Math.round((epochs * i) / 4));
      make("text", { x: x(epoch), y: H - BOTTOM + 16, "text-anchor": i === 4 ? "end" : "middle" }, svg, epoch);
    }
    make("text", { x: (LEFT + W) / 2, y: H - 2, "text-anchor": "middle" }, svg, "epoch");
    for (const curve of curves) {
      const up = curve.mean.map((m, i) => `${x(i + 1)},${y(m + curve.std[i])}`);
      const down = curve.mean.map((m, i) => `${x(i + 1)},${y(m - curve.std[i])}`).reverse();
      make("path", { d: `M${up.join("L")}L${down.join("L")}Z`, fill: curve.colour, opacity: 0.18 }, svg);
      const line = curve.mean.map((m, i) => `${x(i + 1)},${y(m)}`).join("L");
      make("path", { d: `M${line}`, fill: "none", stroke: curve.colour, "stroke-width": 1.8, "stroke-dasharray": curve.dashed ? "6 4" : "none" }, svg);
      if (curve.eStart) {
        make("line", { x1: x(curve.eStart), x2: x(curve.eStart), y1: TOP, y2: H - BOTTOM, stroke: curve.colour, "stroke-dasharray": "2 3" }, svg);
        make("text", { x: x(curve.eStart) + 4, y: TOP + 10 }, svg, "labels begin to move");
      }
    }

    const pointer = make("line", { class: "axis", y1: TOP, y2: H - BOTTOM, visibility: "hidden" }, svg);
    const area = make("rect", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - TOP - BOTTOM, fill: "transparent" }, svg);
    area.addEventListener("pointermove", (event) => {
      const at = area.getBoundingClientRect();
      const along = Math.min(Math.max((event.clientX - at.left) / at.width, 0), 1);
      const epoch = 1 + Math.round(along * (epochs - 1));
      pointer.setAttribute("x1", x(epoch));
      pointer.setAttribute("x2", x(epoch));
      pointer.setAttribute("visibility", "visible");
      tip.replaceChildren(make("b", {}, null, `epoch ${epoch}`));
      for (const curve of curves) {
        if (epoch > curve.mean.length) continue;
        const line = make("div", { style: `color:${curve.colour}` }, tip);
        line.textContent = `${curve.name} ${curve.mean[epoch - 1].toPrecision(3)} ± ${curve.std[epoch - 1].toPrecision(2)}`;
      }
      tip.hidden = false;
      const frame = svg.parentNode.getBoundingClientRect();
      const left = event.clientX - frame.left;
      tip.style.left = `${left > frame.width / 2 ? left - tip.offsetWidth - 12 : left + 12}px`;
      tip.style.top = `${event.clientY - frame.top - tip.offsetHeight / 2}px`;
    });
    area.addEventListener("pointerleave", () => {
      tip.hidden = true;
      pointer.setAttribute("visibility", "hidden");
    });
  }

  function ticks(low, high) {
    if (log) {
      const steps = high / low > 50 ? [1] : [1, 2, 5];
      const all = Array.from({ length: 13 }, (_, i) => steps.map((s) => Number((s * 10 ** (i - 6)).toPrecision(1)))).flat();
      return all.filter((v) => v >= low * 0.999 && v <= high);
    }
    const step = 10 ** Math.floor(Math.log10((high - low) / 2));
    const wide = (high - low) / step > 6 ? 2 * step : step;
    const first = Math.ceil(low / wide) * wide;
    return Array.from({ length: 12 }, (_, i) => Number((first + i * wide).toPrecision(6))).filter((v) => v <= high);
  }
}
