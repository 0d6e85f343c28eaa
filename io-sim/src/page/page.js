// Stepping, choosing, following.

function go(index, quietly) {
  if (index === undefined || index < 0 || index >= ENTRIES.length) return;
  if (!isShown(ENTRIES[index])) reveal(ENTRIES[index]);
  view.at = index;
  showEntry();
  showState();
  if (!quietly) bringIntoView();
  redraw();
}

/// What was hidden and is asked for is shown.
function reveal(entry) {
  if (view.onlyFollowed && !isFollowed(entry)) view.onlyFollowed = false;
  view.off.delete(kindOf(entry));
  view.hidden.delete(clientOf(entry));
  rearrange();
}

function bringIntoView() {
  const tall = scroll.clientHeight;
  let y = top_y[view.at];
  // What breaks the promise is to be seen with it, if there is room for both.
  const culprit = view.at === violationAt ? culpritOf() : -1;
  if (culprit >= 0 && isShown(ENTRIES[culprit]) && y - top_y[culprit] < tall - 140) {
    scroll.scrollTop = Math.max(0, (y + top_y[culprit]) / 2 - tall / 2);
    return;
  }
  const upper = scroll.scrollTop + 60;
  const lower = scroll.scrollTop + tall - 90;
  if (y < upper || y > lower) scroll.scrollTop = Math.max(0, y - tall * 0.45);
}

/// The shown entry so many steps away; of those that `wanted` takes.
function stepFrom(way, wanted = () => true) {
  let place = rows.indexOf(view.at);
  if (place < 0) place = rows.findIndex((index) => index > view.at) - (way > 0 ? 1 : 0);
  for (place += way; place >= 0 && place < rows.length; place += way) {
    if (wanted(ENTRIES[rows[place]])) return rows[place];
  }
  return undefined;
}

/// The next such entry, from the other end on if there is none.
function nextOf(event, wanted) {
  const way = event.shiftKey ? -1 : 1;
  const found = stepFrom(way, wanted);
  if (found !== undefined) return found;
  const all = rows.filter((index) => wanted(ENTRIES[index]));
  return way > 0 ? all[0] : all[all.length - 1];
}

function follow(name) {
  view.follow = name;
  if (!name) view.onlyFollowed = false;
  rearrange();
  showEntry();
  bringIntoView();
}

/// Lays everything out again, and keeps the entry at hand where it is on the screen.
function rearrange() {
  const offset = top_y[view.at] - scroll.scrollTop;
  layOut();
  layLanes();
  spacer.style.height = `${Math.max(0, height - scroll.clientHeight)}px`;
  if (isShown(ENTRIES[view.at])) scroll.scrollTop = top_y[view.at] - offset;
  showSwitches();
  redraw();
}

function switchButton(label, on, title, act) {
  const button = make("button", on ? "chip on" : "chip", label);
  button.title = title;
  button.setAttribute("aria-pressed", String(on));
  button.addEventListener("click", () => { act(); rearrange(); showEntry(); });
  return button;
}

function toggle(set, value) {
  if (!set.delete(value)) set.add(value);
}

function showSwitches() {
  fill("lanes", ...CLIENTS.map((name, client) =>
    switchButton(name, !view.hidden.has(client), "show or hide this client", () => toggle(view.hidden, client))));
  fill("kinds", ...Object.entries(KINDS).map(([kind, label]) =>
    switchButton(label, !view.off.has(kind), "show or hide these", () => toggle(view.off, kind))));
  if (!view.follow) return fill("followed");
  const end = make("button", "chip", "✕");
  end.title = "follow nothing (Esc)";
  end.addEventListener("click", () => follow(null));
  return fill("followed", make("span", "following", `following ${view.follow}`),
    switchButton("only this", view.onlyFollowed, "hide everything else", () => { view.onlyFollowed = !view.onlyFollowed; }), end);
}

function zoomBy(factor) {
  view.zoom = Math.min(3, Math.max(0.6, view.zoom * factor));
  rearrange();
}

const isCrash = (entry) => entry.kind === "crash";
const isFault = (entry) => entry.kind === "fault";
const wayOf = (event) => (event.shiftKey ? -1 : 1);

const BUTTONS = {
  first: () => go(rows[0]),
  back: () => go(stepFrom(-1)),
  forth: () => go(stepFrom(1)),
  last: () => go(rows[rows.length - 1]),
  "to-violation": () => go(violationAt),
  "to-crash": (event) => go(nextOf(event, isCrash)),
  "to-fault": (event) => go(nextOf(event, isFault)),
  smaller: () => zoomBy(1 / 1.25),
  larger: () => zoomBy(1.25),
  help: () => document.getElementById("legend").showModal(),
};

const KEYS_DO = {
  ArrowRight: (event) => go(stepFrom(1, event.shiftKey ? isFollowed : undefined)),
  ArrowLeft: (event) => go(stepFrom(-1, event.shiftKey ? isFollowed : undefined)),
  " ": (event) => go(stepFrom(wayOf(event))),
  Home: BUTTONS.first,
  End: BUTTONS.last,
  v: BUTTONS["to-violation"],
  c: BUTTONS["to-crash"],
  f: BUTTONS["to-fault"],
  "+": BUTTONS.larger,
  "=": BUTTONS.larger,
  "-": BUTTONS.smaller,
  "?": BUTTONS.help,
  Escape: () => follow(null),
};

function listen() {
  for (const [id, act] of Object.entries(BUTTONS)) {
    const button = document.getElementById(id);
    button.addEventListener("click", (event) => { act(event); button.blur(); });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("legend").open) return;
    const act = KEYS_DO[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    if (event.key === " " && event.target instanceof HTMLButtonElement) return;
    event.preventDefault();
    act(event);
  });
  scroll.addEventListener("scroll", redraw, { passive: true });
  scroll.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoomBy(event.deltaY < 0 ? 1.1 : 1 / 1.1);
  }, { passive: false });
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return entryAt(event.clientX - box.left, event.clientY - box.top + scroll.scrollTop);
  };
  canvas.addEventListener("click", (event) => {
    const index = place(event);
    if (index < 0) return;
    const [name] = ENTRIES[index].about || [];
    if (name && index === view.at) follow(name === view.follow ? null : name);
    else go(index, true);
  });
  canvas.addEventListener("mousemove", (event) => showTip(place(event), event));
  canvas.addEventListener("mouseleave", () => showTip(-1));
  const toPlace = (event) => {
    const box = map.getBoundingClientRect();
    scroll.scrollTop = (event.clientY - box.top) / box.height * Math.max(height, scroll.clientHeight) - scroll.clientHeight / 2;
  };
  map.addEventListener("pointerdown", (event) => { map.setPointerCapture(event.pointerId); toPlace(event); });
  map.addEventListener("pointermove", (event) => { if (event.buttons) toPlace(event); });
  new ResizeObserver(() => { layLanes(); redraw(); }).observe(stage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
}

function showTip(index, event) {
  const tip = document.getElementById("tip");
  tip.hidden = index < 0;
  canvas.style.cursor = index < 0 ? "" : "pointer";
  if (index < 0) return;
  const entry = ENTRIES[index];
  const more = entry.kind === "flight" ? flightWords(entry) : entry.kind === "operation" ? operationWords(entry) : "";
  const details = entry.details ? make("ul", "", ...entry.details.slice(0, 8).map((detail) => make("li", "", detail))) : null;
  tip.replaceChildren(make("b", "", entry.text), make("p", "", `${seconds(entry.at_us)} s. ${more}`), ...(details ? [details] : []));
  const box = stage.getBoundingClientRect();
  const left = Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 20);
  const above = event.clientY - box.top + 18 + tip.offsetHeight > box.height;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${above ? event.clientY - box.top - tip.offsetHeight - 12 : event.clientY - box.top + 18}px`;
}

function begin() {
  readColours();
  showClaim();
  showLegend();
  showSteps();
  if (!ENTRIES.length) {
    showEntry();
    return;
  }
  readLasting();
  document.getElementById("to-violation").hidden = violationAt === undefined;
  document.getElementById("to-crash").hidden = !ENTRIES.some(isCrash);
  document.getElementById("to-fault").hidden = !ENTRIES.some(isFault);
  layOut();
  layLanes();
  spacer.style.height = `${height}px`;
  if (violationAt !== undefined) [view.follow] = ENTRIES[violationAt].about || [null];
  showSwitches();
  listen();
  go(violationAt === undefined ? rows[0] : violationAt);
}

begin();
