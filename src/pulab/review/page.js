// One row at a time. All text from the table goes in as text, never as HTML.
const get = (id) => document.getElementById(id);
const names = ["yes", "no", "skip", "undo"];
let state = null, busy = false, measuring = false;

async function ask(path, body) {
  const answer = await fetch(path, body && { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

async function act(name) {
  if (busy || !state || get(name).disabled) return;
  busy = true;
  try {
    show(await ask(name === "undo" ? "undo" : "answer", name === "undo" ? {} : { number: state.row.number, answer: name }));
  } catch {
    trouble();
  }
  busy = false;
  measure();
}

function trouble() {
  get("trouble").textContent = "This answer was not saved: pulab review does not run any more. Start it again; all earlier answers are kept.";
  get("trouble").hidden = false;
  scrollTo(0, 0);
}

function show(next) {
  state = next;
  get("trouble").hidden = true;
  get("table").textContent = next.table;
  get("question").textContent = next.question;
  const skipped = next.skipped ? `, ${next.skipped} skipped` : "";
  const planned = next.answered > next.planned ? "" : ` of ${next.planned}`;
  get("progress").textContent = `${next.answered}${planned} answered${skipped}`;
  get("bar").max = next.planned;
  get("bar").value = Math.min(next.answered, next.planned);
  get("card").hidden = !next.row;
  get("end").hidden = Boolean(next.row);
  for (const name of names) get(name).disabled = name === "undo" ? !next.can_undo : !next.row;
  if (next.row) fill(next.row);
  scrollTo(0, 0);
}

function fill(row) {
  get("name").textContent = row.name;
  get("reasons").hidden = !row.reasons.length;
  get("reasons").replaceChildren(...row.reasons.map((text) => element("li", text)));
  get("columns").replaceChildren(...row.columns.map(([name, value], i) => {
    const line = element("div", "");
    if (i < 5) line.className = "main";
    line.append(element("dt", name), element("dd", value));
    return line;
  }));
}

function element(tag, text) {
  return Object.assign(document.createElement(tag), { textContent: text });
}

function percent(share) {
  const hundredths = 100 * share;
  return hundredths.toFixed(hundredths < 0.95 ? 2 : hundredths < 9.5 ? 1 : 0);
}

// The estimate takes a moment, so the next row does not wait for it.
async function measure() {
  if (measuring) return;
  measuring = true;
  let before;
  try {
    do {
      before = state;
      const share = await ask("estimate");
      get("share").replaceChildren(...(share
        ? [element("b", `${percent(share.value)} %`), ` of ${state.of} are positive, between ${percent(share.low)} and ${percent(share.high)} %.`]
        : ["There is no answer yet."]));
      get("enough").hidden = !(share && share.enough);
      get("enough").textContent = "You may stop now (Ctrl-C in the terminal). More answers make the figures more exact.";
    } while (before !== state);
  } catch { /* the next answer says so */ }
  measuring = false;
}

for (const name of names) get(name).addEventListener("click", () => act(name));
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const name = names.find((word) => word[0] === event.key.toLowerCase());
  if (name) { event.preventDefault(); act(name); }
});
ask("state").then(show).then(measure, trouble);
