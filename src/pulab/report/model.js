// Shows values at the pointer, the finger or by the arrow keys. The page works without it.
for (const plot of document.querySelectorAll("[data-readings]")) {
  const readings = JSON.parse(plot.dataset.readings);
  if (!readings.length) continue;
  const cursor = plot.querySelector(".cursor"), tip = plot.querySelector(".tip");
  let shown = -1;

  const show = (i) => {
    shown = Math.min(Math.max(i, 0), readings.length - 1);
    const [at, title, lines] = readings[shown];
    cursor.style.left = `${at}%`;
    tip.replaceChildren(Object.assign(document.createElement("b"), { textContent: title }));
    for (const line of lines) tip.append(Object.assign(document.createElement("div"), { textContent: line }));
    cursor.hidden = tip.hidden = false;
    const left = (at / 100) * plot.clientWidth - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(0, Math.min(left, plot.clientWidth - tip.offsetWidth))}px`;
  };
  const hide = () => { cursor.hidden = tip.hidden = true; };
  const follow = (event) => {
    const frame = plot.getBoundingClientRect();
    const at = (100 * (event.clientX - frame.left)) / frame.width;
    const far = readings.map((reading) => Math.abs(reading[0] - at));
    show(far.indexOf(Math.min(...far)));
  };

  plot.tabIndex = 0;
  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show(shown + step);
  });
}
// Opens all details before printing.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
