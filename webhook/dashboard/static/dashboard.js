// Updates a page live. Without JavaScript the page shows its state at load time.
"use strict";

const PATIENCE = 6000; // milliseconds: a shorter interruption is not reported
const main = document.getElementById("main");
const live = document.getElementById("live");
const help = document.getElementById("help");
// "home" and "always" also show what no finding says; "" is a page that stays as it is.
const shows = main.dataset.live; // "home", "findings", "always" or ""
const APART = shows === "always" ? 9000 : 3000; // milliseconds between two updates
const AGED = { home: 20000, always: APART }[shows] ?? Infinity; // ages grow, and objects get stuck

let paused = false;
let waiting = false; // new data is not shown yet
let lastShown = Date.now();
let losing;
let known; // the changes that were heard last
let later;
let open = "Live.";
let unfolded = location.search !== ""; // filters that are in use are shown on a phone, too

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

// Do not replace the page while the user selects text or fills in a form. A link or a summary that
// has the focus gets it back.
function inUse() {
  const at = document.activeElement;
  const selected = document.getSelection();
  const filled = at && at !== main && main.contains(at) && !at.matches("a, summary");
  return filled || help.open || (selected && !selected.isCollapsed);
}

// What has the focus, which details are open, and where the first visible row stands: all survive a
// replaced page.
function remember() {
  const at = document.activeElement;
  const selector = at && main.contains(at) && at.matches("a[href]") ? "a[href]" : "summary";
  const alike = [...main.querySelectorAll(selector)];
  const same = (element) => (selector === "summary" ? element.textContent : element.href + element.className);
  const focused = alike.includes(at) ? same(at) : undefined;
  const opened = new Set([...main.querySelectorAll("details[open][data-key]")].map((details) => details.dataset.key));
  const all = main.querySelector("details[open]:not([data-key])");
  const rows = () => [...main.querySelectorAll("[data-row] > a")];
  const row = scrollY > 0 ? rows().find((link) => link.getBoundingClientRect().top >= 0) : undefined;
  const top = row?.getBoundingClientRect().top;
  return () => {
    for (const details of main.querySelectorAll("details")) {
      if (details.dataset.key ? opened.has(details.dataset.key) : all) details.open = true;
    }
    const stays = row && rows().find((link) => link.href === row.href);
    if (stays) scrollBy({ top: stays.getBoundingClientRect().top - top, behavior: "instant" });
    if (focused === undefined) return;
    const found = [...main.querySelectorAll(selector)].find((element) => same(element) === focused);
    if (found) found.focus({ preventScroll: true });
  };
}

// `due`: now it looks otherwise, as the page has said that it would.
async function show(due) {
  if (paused || document.hidden || inUse()) {
    waiting = true;
    if (inUse() && !paused) say("New data is available. It is shown when you leave this field or selection.");
    return;
  }
  clearTimeout(later);
  const left = lastShown + APART - Date.now();
  if (left > 0 && due !== true) {
    later = setTimeout(show, left);
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
    const restore = remember();
    main.dataset.again = page.getElementById("main").dataset.again;
    main.replaceChildren(...page.getElementById("main").childNodes);
    restore();
    showAgain();
    offerCopies();
    foldFilters();
    document.title = page.title;
    say(open);
  } catch {
    waiting = true; // what asks for changes reports a lost server
  }
}

// A page may say after how many seconds it looks otherwise, though nothing happens.
let again;
function showAgain() {
  clearTimeout(again);
  if (main.dataset.again) again = setTimeout(show, Number(main.dataset.again) * 1000 + 200, true);
}

// Changed only if the text differs: a screen reader repeats every change.
function heard(changes) {
  const counts = Object.entries(changes.open).map(([name, count]) => `${count} ${name}`);
  open = counts.length ? `Live. Open findings: ${counts.join(", ")}.` : "Live. No open finding.";
  clearTimeout(losing);
  losing = setTimeout(lose, PATIENCE);
  if (!paused && !waiting) say(open);
  const numbers = (of) => [of.findingChanges, shows === "home" && of.objectChanges].join();
  const isNew = known && numbers(changes) !== numbers(known);
  known = changes;
  if (isNew || waiting || (!inUse() && Date.now() - lastShown > AGED)) show();
}

async function listen() {
  try {
    const answer = await fetch("/api/changes", { signal: AbortSignal.timeout(PATIENCE) });
    if (answer.ok) heard(await answer.json());
  } catch {
    // what is not heard for a while is lost
  }
  setTimeout(listen, 1000);
}

function lose() {
  say("Connection lost: this page may be out of date. Reconnecting.", true);
}

// Buttons are hidden without JavaScript: there they could do nothing.
function offerCopies() {
  for (const button of main.querySelectorAll(".copy")) button.hidden = false;
}

// On a phone only the search and its button are shown at first (dashboard.css).
function foldFilters() {
  const form = main.querySelector("form[role=search]");
  if (unfolded || !form || !form.querySelector("label:not(.wide)")) return;
  form.classList.add("folded");
  const more = document.createElement("button");
  more.type = "button";
  more.className = "more";
  more.textContent = "More filters";
  more.addEventListener("click", () => {
    unfolded = true;
    form.classList.remove("folded");
    more.remove();
  });
  form.append(more);
}

// Browsers give a page the clipboard on HTTPS and localhost only. Elsewhere the text is selected.
async function copy(from) {
  const text = from.closest(".copied, .command").querySelector("code");
  try {
    await navigator.clipboard.writeText(text.textContent);
    from.textContent = "Copied";
  } catch {
    document.getSelection().selectAllChildren(text);
    from.textContent = "Selected: press Ctrl+C";
  }
}

// Keys: / to search, j and k from row to row, ? for help. None acts while a field is filled in.
function move(by) {
  const rows = [...main.querySelectorAll("[data-row] > a")].filter((link) => !link.closest("details:not([open])"));
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by];
  if (next) next.focus();
}

function showHelp() {
  if (!help.open) help.showModal();
}

const keys = {
  "/": () => main.querySelector("input[type=search]")?.focus(),
  "?": showHelp,
  g: () => { location.href = "/"; },
  j: () => move(1),
  k: () => move(-1),
};

document.addEventListener("keydown", (event) => {
  const at = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (at.matches?.("input, select, textarea, [contenteditable]")) {
    if (event.key === "Escape") at.blur();
    return;
  }
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
document.querySelector(".keys").hidden = false;
document.querySelector("[data-help]").addEventListener("click", showHelp);

main.addEventListener("click", (event) => {
  const from = event.target.closest(".copy");
  if (from) copy(from);
});
offerCopies();
foldFilters();

if (shows) {
  live.replaceChildren(words, button);
  name();
  button.addEventListener("click", () => {
    paused = !paused;
    name();
    say(paused ? "Paused: this page may be out of date." : open);
    if (!paused && waiting) show();
  });
  main.addEventListener("focusout", () => { if (waiting) setTimeout(show, 0); });
  losing = setTimeout(lose, PATIENCE);
  listen();
  showAgain();
  document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting) show(); });
}

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
