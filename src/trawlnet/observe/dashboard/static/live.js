// Keeps the page current. The server renders everything, escaped; this file only puts it in place.
"use strict";

const rows = document.getElementById("lane-rows");
const form = document.getElementById("lane-filter");
const fresh = document.getElementById("part-fresh");
const TYPING_MS = 250;
const LOST_MS = 4000;
let source = null;
let lost = null;

function focusables(element) {
  return [...element.querySelectorAll("a[href], button, summary, input, select, [tabindex]")];
}

// New content must neither close what is open, nor scroll it, nor take the keyboard away.
function put(element, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  if (fresh.innerHTML === element.innerHTML) return;
  const open = [...element.querySelectorAll("details")].map((each) => each.open);
  const scrolled = [...element.querySelectorAll(".scroll")].map((each) => each.scrollTop);
  const held = element.contains(document.activeElement)
    ? focusables(element).indexOf(document.activeElement)
    : -1;
  element.replaceChildren(fresh.content);
  element.querySelectorAll("details").forEach((each, n) => { each.open = Boolean(open[n]); });
  element.querySelectorAll(".scroll").forEach((each, n) => { each.scrollTop = scrolled[n] || 0; });
  if (held >= 0) focusables(element)[held]?.focus({ preventScroll: true });
}

function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

function putRows(change) {
  for (const [id, html] of Object.entries(change.rows || {})) {
    const old = document.getElementById(id);
    if (old && old.parentNode === rows) old.replaceWith(parsed(html));
    else rows.append(parsed(html));
  }
  if (!change.order) return;
  const wanted = new Set(change.order);
  for (const row of [...rows.children]) if (!wanted.has(row.id)) row.remove();
  change.order.forEach((id, place) => {
    const row = document.getElementById(id);
    if (row && rows.children[place] !== row) rows.insertBefore(row, rows.children[place] || null);
  });
}

function apply(change) {
  for (const [name, html] of Object.entries(change.parts || {})) {
    const element = document.getElementById(`part-${name}`);
    if (element) put(element, html);
  }
  putRows(change);
}

function listen() {
  source?.close();
  source = new EventSource(`/events${location.search}`);
  source.onmessage = (event) => {
    clearTimeout(lost);
    document.body.classList.remove("lost");
    apply(JSON.parse(event.data));
  };
  source.onerror = () => {
    clearTimeout(lost);
    lost = setTimeout(() => {
      document.body.classList.add("lost");
      fresh.textContent = "The dashboard does not answer: the figures are not current.";
    }, LOST_MS);
    // A browser gives up for good on an answer that is no stream, such as while we restart.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, LOST_MS);
  };
}

function ask(query) {
  history.replaceState(null, "", `/?${query}`);
  listen();
}

function filter() {
  const query = new URLSearchParams(new FormData(form));
  const now = new URLSearchParams(location.search);
  for (const name of ["sort", "down"]) if (now.has(name)) query.set(name, now.get(name));
  ask(query);
}

if (rows && form) {
  let typing = null;
  form.addEventListener("submit", (event) => { event.preventDefault(); filter(); });
  form.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(filter, TYPING_MS); });
  document.getElementById("filter").hidden = true;
  document.getElementById("lanes").addEventListener("click", (event) => {
    const link = event.target.closest("a[data-live]");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    ask(new URL(link.href).searchParams);
  });
  // A page that nobody sees asks for nothing, and a crawl that nobody sees pays nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source?.close();
    else listen();
  });
  if (!document.hidden) listen();
}
