"use strict";
// What happened, and where it stands on the page. Time runs downwards, but not to scale: each entry has a row of its
// own, and time in which nothing happens is shortened, with a note of how long it was.

const DATA = JSON.parse(document.getElementById("data").textContent);
const ENTRIES = DATA.entries;
const CLIENTS = DATA.clients;
const foundAt = ENTRIES.findIndex((entry) => entry.kind === "violation");
const violationAt = foundAt < 0 ? undefined : foundAt;

const KINDS = {
  packets: "packets",
  pings: "pings",
  disk: "disk",
  program: "steps",
  events: "events",
};

/// Which switch shows an entry; none for those that always are.
function kindOf(entry) {
  switch (entry.kind) {
    case "flight": return entry.text.startsWith("PING") ? "pings" : "packets";
    case "operation": case "synced": return "disk";
    case "client": return "program";
    case "event": case "broker": return "events";
    default: return null;
  }
}

function clientOf(entry) {
  return entry.kind === "flight" || entry.kind === "client" ? entry.client : null;
}

const view = {
  at: 0, // the entry at hand
  follow: null, // the message, subscription or connection that is followed
  onlyFollowed: false,
  hidden: new Set(), // clients
  off: new Set(["pings"]), // kinds
  zoom: 1,
};

function isShown(entry) {
  if (view.onlyFollowed && view.follow) {
    return isFollowed(entry) || kindOf(entry) === null;
  }
  const client = clientOf(entry);
  return !(client !== null && view.hidden.has(client)) && !view.off.has(kindOf(entry));
}

function isFollowed(entry) {
  return view.follow !== null && entry.about !== undefined && entry.about.includes(view.follow);
}

// Where everything stands, as far as it is shown.
let rows = []; // indices of entries, in order
let blocks = []; // how far down each block of rows reaches
let gaps = []; // shortened time: {y, us}
let height = 0;
const top_y = new Float64Array(ENTRIES.length);
const end_y = new Float64Array(ENTRIES.length);
const slot = new Uint8Array(ENTRIES.length);
const BLOCK = 64;
const SLOTS = 4;

function endsOf(entry) {
  return entry.end_us === undefined ? Infinity : entry.end_us;
}

function layOut() {
  rows = [];
  const points = [];
  ENTRIES.forEach((entry, index) => {
    if (!isShown(entry)) return;
    rows.push(index);
    points.push([entry.at_us, 1, index, 0]);
    const end = endsOf(entry);
    if (end === entry.at_us) points.push([end, 1, index, 1]);
    else if (end !== Infinity) points.push([end, 0, index, 1]);
  });
  // What ends comes before what begins at the same moment: the one is the cause of the other.
  points.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3] - b[3]);
  const row = Math.min(22 * view.zoom, 12e6 / Math.max(1, rows.length));
  let y = 16;
  let before = null;
  gaps = [];
  for (const [us, , index, isEnd] of points) {
    const waited = before === null ? 0 : us - before;
    if (waited > 20000) {
      gaps.push({ y: y + row * 0.7, us: waited });
      y += row * 1.4;
    } else {
      y += Math.min(row, Math.log2(1 + waited / 100) * row * 0.12);
    }
    before = us;
    y += isEnd ? row * 0.3 : row;
    (isEnd ? end_y : top_y)[index] = y;
  }
  height = y + 60;
  for (const index of rows) {
    const end = endsOf(ENTRIES[index]);
    if (end === Infinity) end_y[index] = isLasting(ENTRIES[index]) ? height - 30 : top_y[index];
  }
  placeOperations();
  blocks = [];
  for (let from = 0; from < rows.length; from += BLOCK) {
    let reach = 0;
    for (const index of rows.slice(from, from + BLOCK)) reach = Math.max(reach, end_y[index], top_y[index]);
    blocks.push(reach);
  }
}

function isLasting(entry) {
  return entry.kind === "flight" || entry.kind === "operation";
}

/// Operations at the same time stand side by side.
function placeOperations() {
  const free = new Array(SLOTS).fill(-1);
  for (const index of rows) {
    if (ENTRIES[index].kind !== "operation") continue;
    let found = free.findIndex((until) => until <= top_y[index]);
    if (found < 0) found = SLOTS - 1;
    slot[index] = found;
    free[found] = Math.max(free[found], end_y[index] + 2);
  }
}

/// Calls `act` for every shown entry that reaches into this part of the page.
function eachBetween(from, to, act) {
  for (let block = 0; block < blocks.length; block++) {
    if (blocks[block] < from) continue;
    if (top_y[rows[block * BLOCK]] > to) break;
    for (const index of rows.slice(block * BLOCK, (block + 1) * BLOCK)) {
      if (top_y[index] <= to && Math.max(end_y[index], top_y[index]) >= from) act(index);
    }
  }
}

// What lasts: when a client is connected, what the process does.
const connected = CLIENTS.map(() => []); // [from, to) in entries' order: {from, to} indices
const process_ = []; // {from, state}

function readLasting() {
  const open = CLIENTS.map(() => null);
  const close = (client, index, us) => {
    if (open[client]) connected[client].push({ from: open[client].us, to: us });
    open[client] = null;
  };
  const ups = [];
  ENTRIES.forEach((entry, index) => {
    if (entry.kind === "flight" && entry.fate === "done" && /^(CONNACK accepted|Connection\.OpenOk)/.test(entry.text)) {
      ups.push([entry.end_us, 1, entry.client, index]);
    }
    const goes = entry.kind === "flight" && entry.to_broker && /^(opens|ends) /.test(entry.text);
    const loses = entry.kind === "client" && /(loses|breaks|vanishes from) (its )?connection/.test(entry.text);
    if (goes || loses) ups.push([entry.at_us, 0, entry.client, index]);
    if (["crash", "recovering", "serving"].includes(entry.kind)) {
      process_.push({ us: entry.at_us, index, state: entry.kind });
    }
  });
  ups.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  for (const [us, up, client, index] of ups) {
    if (up) open[client] = { us };
    else close(client, index, us);
  }
  CLIENTS.forEach((_, client) => close(client, ENTRIES.length, Infinity));
}

/// How the page's height stands to a moment: just above the first shown entry at or after it.
function yOf(us) {
  if (us === Infinity) return height;
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ENTRIES[rows[middle]].at_us < us) low = middle + 1;
    else high = middle;
  }
  return low < rows.length ? top_y[rows[low]] : height;
}

/// What is the case when this entry happens.
function stateAt(index) {
  const now = ENTRIES[index].at_us;
  const state = { phase: "faults", synced: 0, written: 0, process: "not started", operations: [], flights: [], faults: [] };
  for (let before = 0; before <= index; before++) {
    const entry = ENTRIES[before];
    switch (entry.kind) {
      case "phase": state.phase = entry.text; break;
      case "synced": state.synced = entry.lsn; break;
      case "crash": state.process = entry.power ? "the power is off" : "down"; break;
      case "recovering": state.process = "recovering"; break;
      case "serving": state.process = "serving"; break;
      case "fault": {
        const lasts = DATA.faults[entry.index].for_us;
        if (lasts && entry.at_us + lasts > now) state.faults.push(entry.text);
        break;
      }
      case "operation":
        if (entry.records) state.written = entry.records[1];
        if (endsOf(entry) > now || before === index) state.operations.push(before);
        break;
      case "flight":
        if (endsOf(entry) > now || before === index) state.flights.push(before);
        break;
    }
  }
  state.clients = CLIENTS.map((_, client) => connected[client].some(({ from, to }) => from <= now && now < to));
  return state;
}

function seconds(us) {
  return (us / 1e6).toFixed(6);
}

function duration(us) {
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${+(us / 1000).toPrecision(3)} ms`;
  return `${+(us / 1e6).toPrecision(3)} s`;
}
