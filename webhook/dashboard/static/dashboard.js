// Updates a page live. Without JavaScript the page shows its state at load time.
"use strict";

const PATIENCE = 12000; // milliseconds: more than two beats of the server
const LOST = 4000; // a shorter interruption is not reported
const main = document.getElementById("main");
const live = document.getElementById("live");
const follows = main.dataset.live; // "findings", "always", or "" for a page that stays as it is
const APART = follows === "always" ? 9000 : 3000; // milliseconds between two updates

let paused = false;
let waiting = false; // new data is not shown yet
let lastShown = Date.now();
let failing = false;
let losing;
let open = "Live.";

const words = document.createElement("span");
const button = document.createElement("button");
button.type = "button";

function say(text, lost) {
  if (words.textContent !== text) words.textContent = text;
  live.classList.toggle("lost", Boolean(lost));
}

function name() {
  button.textContent = paused ? "Resume updates" : "Pause updates";
}

// Do not replace the page while the user selects text or fills in a form.
function inUse() {
  const at = document.activeElement;
  const selected = document.getSelection();
  return (at && at !== main && main.contains(at)) || (selected && !selected.isCollapsed);
}

async function show() {
  if (paused || document.hidden || inUse() || Date.now() - lastShown < APART) {
    waiting = true;
    if (inUse() && !paused) say("New data is available. It is shown when you leave this field or selection.");
    return;
  }
  waiting = false;
  lastShown = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (inUse()) {
      waiting = true;
      return;
    }
    const unfolded = main.querySelector("details[open]");
    main.replaceChildren(...page.getElementById("main").childNodes);
    for (const one of unfolded ? main.querySelectorAll("details") : []) one.open = true;
    offerCopies();
    document.title = page.title;
    say(open);
  } catch {
    waiting = true; // the event stream reports a lost server
  }
}

// Changed only if the text differs: a screen reader repeats every change.
function heard(event) {
  const counts = Object.entries(JSON.parse(event.data)).map(([name, count]) => `${count} ${name}`);
  open = counts.length ? `Live. Open findings: ${counts.join(", ")}.` : "Live. No open finding.";
  clearTimeout(losing);
  failing = false;
  losing = setTimeout(lose, PATIENCE);
  if (!paused && !waiting) say(open);
}

function lose() {
  say("Connection lost: this page may be out of date. Reconnecting.", true);
}

// Buttons are hidden without JavaScript: there they could do nothing.
function offerCopies() {
  for (const one of main.querySelectorAll(".copy")) one.hidden = false;
}

// Browsers give a page the clipboard on HTTPS and localhost only. Elsewhere the text is selected.
async function copy(from) {
  const text = from.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(text.textContent);
    from.textContent = "Copied";
  } catch {
    document.getSelection().selectAllChildren(text);
    from.textContent = "Selected: press Ctrl+C";
  }
}

main.addEventListener("click", (event) => {
  const from = event.target.closest(".copy");
  if (from) copy(from);
});
offerCopies();

if (follows) {
  live.replaceChildren(words, button);
  name();
  button.addEventListener("click", () => {
    paused = !paused;
    name();
    say(paused ? "Paused: this page may be out of date." : open);
    if (!paused && waiting) show();
  });
  main.addEventListener("focusout", () => { if (waiting) setTimeout(show, 0); });
  const events = new EventSource("/events");
  events.addEventListener("turn", (event) => { heard(event); show(); });
  events.addEventListener("beat", (event) => {
    heard(event);
    if (waiting || follows === "always") show();
  });
  events.addEventListener("error", () => {
    if (failing) return; // every retry reports the same error
    failing = true;
    clearTimeout(losing);
    losing = setTimeout(lose, events.readyState === EventSource.CLOSED ? 0 : LOST);
  });
  losing = setTimeout(lose, PATIENCE);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting) show(); });
}

// The form of silence.html: acknowledge, silence or end.
main.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-silence]");
  if (!form) return;
  event.preventDefault();
  const answered = form.parentElement.querySelector(".silence-answer");
  const action = event.submitter ? event.submitter.value : "acknowledge";
  const asked = { action, by: form.elements.by.value };
  if (action !== "end") {
    asked.reason = form.elements.reason.value;
    asked.seconds = Number(form.elements.seconds.value);
  }
  try {
    const answer = await fetch(form.dataset.silence, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(asked),
    });
    if (answer.ok) {
      location.reload();
      return;
    }
    const text = await answer.text();
    answered.textContent = answer.headers.get("Content-Type") === "application/json" ? JSON.parse(text).error : text;
  } catch {
    answered.textContent = "The server did not answer. Try again.";
  }
});

// Tables whose headers have data-sort="text" or "number" are sorted by a click on a header. Only the
// rows that are shown are sorted. A cell may have its value in data-value.
const sortings = new Map(); // by the label of the table's region: the column, and 1 or -1

function cellValue(row, column, sort) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  if (sort === "text") return text;
  const value = Number(text.replaceAll(",", ""));
  return Number.isNaN(value) ? -Infinity : value;
}

function sortTable(table, column, direction) {
  const header = table.tHead.rows[0].cells[column];
  const sort = header.dataset.sort;
  const rows = [...table.tBodies[0].rows].map((row) => [cellValue(row, column, sort), row]);
  const compare = sort === "text" ? (a, b) => a.localeCompare(b, "en", { numeric: true }) : (a, b) => a - b || 0;
  rows.sort((a, b) => direction * compare(a[0], b[0]));
  table.tBodies[0].append(...rows.map((pair) => pair[1]));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
}

function nameOf(table) {
  return table.parentElement.getAttribute("aria-label") ?? "";
}

// Headers become buttons here: without JavaScript they could do nothing.
function offerSorting() {
  for (const table of main.querySelectorAll("table.sortable")) {
    for (const header of table.tHead.rows[0].cells) {
      if (!header.dataset.sort || header.querySelector("button")) continue;
      const sorter = document.createElement("button");
      sorter.type = "button";
      sorter.className = "sorter";
      sorter.append(...header.childNodes);
      header.append(sorter);
    }
    const chosen = sortings.get(nameOf(table));
    if (chosen) sortTable(table, chosen.column, chosen.direction);
  }
}

main.addEventListener("click", (event) => {
  const header = event.target.closest("table.sortable th[data-sort]");
  if (!header || !header.closest("thead")) return;
  const table = header.closest("table");
  const direction = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  sortings.set(nameOf(table), { column: header.cellIndex, direction });
  sortTable(table, header.cellIndex, direction);
});
new MutationObserver(() => { if (main.querySelector("table.sortable th[data-sort]:not(:has(button))")) offerSorting(); }).observe(main, { childList: true });
offerSorting();
