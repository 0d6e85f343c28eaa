// The diagram: only what can be seen is drawn.

const stage = document.getElementById("stage");
const scroll = document.getElementById("scroll");
const canvas = document.getElementById("canvas");
const head = document.getElementById("head");
const map = document.getElementById("map");
const spacer = document.getElementById("spacer");

const HEAD = 44;
const GUTTER = 96;
let colours = {};
let lanes = { clients: [], broker: 0, disk: 0, labels: 0, width: 0 };
let hatch = null;

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ground", "text", "dim", "faint", "line", "publish", "answer", "session", "bad", "fault",
    "good", "pending", "select", "follow", "panel"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colours.pending;
  pen.lineWidth = 1.6;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift, 6);
    pen.lineTo(shift + 6, 0);
  }
  pen.stroke();
  hatch = pen.createPattern(tile, "repeat");
}

function layLanes() {
  const shown = CLIENTS.map((_, client) => client).filter((client) => !view.hidden.has(client));
  const width = scroll.clientWidth;
  const right = Math.min(330, width * 0.32); // the disk, with its words
  const room = width - GUTTER - right - 70;
  const step = Math.max(34, Math.min(150, (room - (shown.length > 3 ? 130 : 250)) / Math.max(1, shown.length - 0.5)));
  lanes = { clients: new Array(CLIENTS.length).fill(null), width };
  shown.forEach((client, place) => { lanes.clients[client] = GUTTER + 30 + place * step; });
  const last = GUTTER + 30 + Math.max(0, shown.length - 1) * step;
  lanes.broker = Math.max(last + 120, width - right - 84);
  lanes.disk = lanes.broker + 84;
  lanes.labels = lanes.disk + SLOTS * 11 + 10;
  lanes.step = step;
}

function sized(element, width, tall) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(tall * ratio)];
  if (element.width !== w || element.height !== h) {
    element.width = w;
    element.height = h;
    element.style.width = `${width}px`;
    element.style.height = `${tall}px`;
  }
  const pen = element.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, tall);
  return pen;
}

function words(pen, text, x, y, colour, align = "left", most = 0) {
  pen.textAlign = align;
  pen.lineJoin = "round";
  pen.lineWidth = 4;
  pen.strokeStyle = colours.ground;
  const fitting = most ? fit(pen, text, most) : text;
  pen.setLineDash([]);
  pen.strokeText(fitting, x, y);
  pen.fillStyle = colour;
  pen.fillText(fitting, x, y);
}

function fit(pen, text, most) {
  if (pen.measureText(text).width <= most) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= most) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

const FONT = "12px ui-sans-serif, system-ui, sans-serif";
const BOLD = "600 12px ui-sans-serif, system-ui, sans-serif";
const MONO = "11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";

let due = false;
function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
  });
}

function draw() {
  const [width, tall] = [scroll.clientWidth, scroll.clientHeight];
  spacer.style.height = `${Math.max(0, height - tall)}px`;
  drawHead(width);
  const pen = sized(canvas, width, tall);
  const from = scroll.scrollTop;
  pen.translate(0, -from);
  pen.font = FONT;
  pen.textBaseline = "alphabetic";
  drawSelection(pen, width);
  drawLifelines(pen, from, from + tall);
  drawGaps(pen, from, from + tall, width);
  const seen = [];
  eachBetween(from - 40, from + tall + 40, (index) => seen.push(index));
  const dimmed = view.follow !== null;
  const layers = [[], []];
  for (const index of seen) layers[!dimmed || isFollowed(ENTRIES[index]) ? 1 : 0].push(index);
  const culprit = culpritOf();
  layers.forEach((layer, which) => {
    pen.globalAlpha = which === 0 ? 0.4 : 1;
    for (const index of layer) if (ENTRIES[index].kind === "operation") drawOperation(pen, index);
    for (const index of layer) drawEntry(pen, index, width, index === culprit);
  });
  pen.globalAlpha = 1;
  drawTimes(pen, seen);
  drawMap(from, tall);
}

function culpritOf() {
  const found = violationAt === undefined ? undefined : ENTRIES[violationAt].culprit;
  return found === undefined ? -1 : found;
}

function drawHead(width) {
  const pen = sized(head, width, HEAD);
  pen.font = BOLD;
  pen.textBaseline = "middle";
  pen.fillStyle = colours.dim;
  pen.textAlign = "left";
  pen.font = FONT;
  pen.fillText("seconds", 12, HEAD / 2);
  pen.font = BOLD;
  pen.fillStyle = colours.text;
  pen.textAlign = "center";
  lanes.clients.forEach((x, client) => {
    if (x !== null) pen.fillText(fit(pen, CLIENTS[client], Math.max(30, lanes.step - 6)), x, HEAD / 2);
  });
  pen.fillText("broker", lanes.broker, HEAD / 2);
  pen.textAlign = "left";
  pen.fillText("disk", lanes.disk, HEAD / 2);
  pen.fillStyle = colours.line;
  pen.fillRect(0, HEAD - 1, width, 1);
}

function drawSelection(pen, width) {
  const entry = ENTRIES[view.at];
  if (!entry || !isShown(entry)) return;
  pen.fillStyle = colours.select;
  pen.fillRect(0, top_y[view.at] - 16, width, 22);
  pen.fillStyle = colours.follow;
  pen.fillRect(0, top_y[view.at] - 16, 4, 22);
}

function drawLifelines(pen, from, to) {
  pen.lineWidth = 1;
  pen.strokeStyle = colours.line;
  pen.setLineDash([2, 4]);
  pen.beginPath();
  for (const x of [...lanes.clients.filter((x) => x !== null), lanes.broker]) {
    pen.moveTo(x, from);
    pen.lineTo(x, to);
  }
  pen.stroke();
  pen.setLineDash([]);
  lanes.clients.forEach((x, client) => {
    if (x === null) return;
    pen.fillStyle = colours.session;
    for (const span of connected[client]) {
      const [y0, y1] = [yOf(span.from) - 8, yOf(span.to) - 8];
      if (y1 > from && y0 < to) pen.fillRect(x - 1.5, Math.max(y0, from), 3, Math.min(y1, to) - Math.max(y0, from));
    }
  });
  process_.forEach((span, place) => {
    const next = process_[place + 1];
    const [y0, y1] = [top_y[span.index] || yOf(span.us), next ? top_y[next.index] || yOf(next.us) : height];
    if (y1 < from || y0 > to) return;
    const [a, b] = [Math.max(y0, from), Math.min(y1, to)];
    if (span.state === "serving") {
      pen.fillStyle = colours.text;
      pen.fillRect(lanes.broker - 2.5, a, 5, b - a);
    } else if (span.state === "recovering") {
      pen.fillStyle = colours.pending;
      pen.globalAlpha = 0.55;
      pen.fillRect(lanes.broker - 2.5, a, 5, b - a);
      pen.globalAlpha = 1;
    } else {
      pen.fillStyle = colours.bad;
      pen.globalAlpha = 0.12;
      pen.fillRect(lanes.broker - 14, a, 28, b - a);
      pen.globalAlpha = 1;
    }
  });
}

function drawGaps(pen, from, to, width) {
  pen.font = MONO;
  for (const gap of gaps) {
    if (gap.y < from - 20 || gap.y > to + 20) continue;
    pen.strokeStyle = colours.line;
    pen.setLineDash([1, 5]);
    pen.beginPath();
    pen.moveTo(GUTTER, gap.y);
    pen.lineTo(width - 10, gap.y);
    pen.stroke();
    words(pen, `+ ${duration(gap.us)}`, GUTTER - 14, gap.y + 4, colours.faint, "right");
  }
  pen.setLineDash([]);
  pen.font = FONT;
}

function drawTimes(pen, seen) {
  pen.font = MONO;
  let before = -1;
  for (const index of seen) {
    const us = ENTRIES[index].at_us;
    if (us !== before) {
      words(pen, seconds(us), GUTTER - 14, top_y[index] + 1, index === view.at ? colours.text : colours.faint, "right");
    }
    before = us;
  }
  pen.font = FONT;
}

function drawEntry(pen, index, width, isCulprit) {
  const entry = ENTRIES[index];
  const y = top_y[index];
  switch (entry.kind) {
    case "flight": return drawFlight(pen, index, isCulprit);
    case "client": {
      const x = lanes.clients[entry.client];
      if (x === null) return;
      pen.fillStyle = colours.ground;
      pen.strokeStyle = colours.dim;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.arc(x, y - 4, 3.5, 0, 7);
      pen.fill();
      pen.stroke();
      return words(pen, clientWords(entry), x + 9, y, colours.dim, "left", lanes.broker - x - 20);
    }
    case "operation": return undefined;
    case "synced": {
      pen.fillStyle = colours.good;
      pen.fillRect(lanes.disk - 2, y - 5, SLOTS * 11 + 4, 2);
      return words(pen, `✓ ${entry.text}`, lanes.labels, y, colours.good, "left", width - lanes.labels - 8);
    }
    case "event": case "broker":
      return words(pen, entry.text, lanes.broker - 12, y, colours.dim, "right", lanes.broker - GUTTER);
    case "disk":
      return words(pen, entry.text, lanes.labels, y, colours.bad, "left", width - lanes.labels - 8);
    default: return drawAcross(pen, entry, y, width);
  }
}

function clientWords(entry) {
  const name = `${CLIENTS[entry.client]} `;
  return entry.text.startsWith(name) ? entry.text.slice(name.length) : entry.text;
}

const ACROSS = {
  crash: ["bad", "✕"],
  violation: ["bad", "✗"],
  fault: ["fault", "⚡"],
  phase: ["dim", "—"],
  recovering: ["pending", "↻"],
  serving: ["good", "▶"],
};

/// What concerns everybody stands across the whole width.
function drawAcross(pen, entry, y, width) {
  const [name, sign] = ACROSS[entry.kind];
  const strong = entry.kind === "violation" || entry.kind === "crash";
  const narrow = entry.kind === "recovering" || entry.kind === "serving";
  const from = narrow ? lanes.broker - 150 : GUTTER;
  pen.save();
  pen.globalAlpha = strong ? 0.16 : 0.1;
  pen.fillStyle = colours[name];
  if (!narrow) pen.fillRect(from, y - 15, width - from - 4, 20);
  pen.globalAlpha = 1;
  pen.font = strong ? BOLD : FONT;
  if (narrow) {
    words(pen, `${sign} ${entry.text}`, lanes.broker - 14, y, colours[name], "right", lanes.broker - GUTTER);
  } else {
    const found = entry.details ? entry.details.length : 0;
    const more = found ? `; ${found} ${found === 1 ? "thing was" : "things were"} not durable` : "";
    const text = entry.kind === "fault" ? `fault: ${entry.text}` : entry.text + more;
    pen.textAlign = "left";
    pen.fillStyle = colours[name];
    pen.fillText(fit(pen, `${sign} ${text}`, width - from - 24), from + 8, y);
  }
  pen.restore();
}

function colourOf(entry) {
  if (/^(PUBLISH|Basic\.(Publish|Deliver|GetOk|Return)) /.test(entry.text)) return colours.publish;
  if (/^(PUBACK|PUBREC|PUBREL|PUBCOMP|SUBACK|UNSUBACK|CONNACK|Basic\.(Ack|Nack|Reject)|Tx\.\w+Ok)/.test(entry.text)) return colours.answer;
  if (/^PING|^(opens|ends|closes) /.test(entry.text)) return colours.faint;
  return colours.session;
}

function drawFlight(pen, index, isCulprit) {
  const entry = ENTRIES[index];
  const there = lanes.clients[entry.client];
  if (there === null) return;
  const [x0, x1] = entry.to_broker ? [there, lanes.broker] : [lanes.broker, there];
  const [y0, y1] = [top_y[index], end_y[index]];
  const colour = isCulprit ? colours.bad : isFollowed(entry) ? colours.follow : colourOf(entry);
  const arrived = entry.fate === "done";
  const part = arrived ? 1 : entry.fate === "lost" ? 0.6 : 0.45;
  const [x, y] = [x0 + (x1 - x0) * part, arrived || entry.fate === "lost" ? y1 : y0 + 10];
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = isCulprit || index === view.at ? 2.5 : isFollowed(entry) ? 2 : 1.3;
  pen.setLineDash(arrived ? [] : [4, 3]);
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x, y);
  pen.stroke();
  pen.setLineDash([]);
  if (arrived) arrowHead(pen, x0, y0, x, y);
  if (entry.fate === "lost") cross(pen, x, y, colours.bad);
  const way = entry.to_broker ? 1 : -1;
  if (isCulprit) pen.font = BOLD;
  words(pen, entry.text, x0 + way * 10, y0 - 3, colour, way > 0 ? "left" : "right", Math.abs(x1 - x0) - 16 + (way < 0 ? there - GUTTER : 0));
  pen.font = FONT;
}

function arrowHead(pen, x0, y0, x, y) {
  const angle = Math.atan2(y - y0, x - x0);
  pen.beginPath();
  pen.moveTo(x, y);
  for (const side of [-1, 1]) pen.lineTo(x - 8 * Math.cos(angle + side * 0.4), y - 8 * Math.sin(angle + side * 0.4));
  pen.fill();
}

function cross(pen, x, y, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.beginPath();
  for (const side of [-1, 1]) {
    pen.moveTo(x - 4, y - 4 * side);
    pen.lineTo(x + 4, y + 4 * side);
  }
  pen.stroke();
}

/// A bar from order to end: hatched as long as what is written may be lost.
function drawOperation(pen, index) {
  const entry = ENTRIES[index];
  const [y0, y1] = [top_y[index], Math.max(end_y[index], top_y[index] + 5)];
  const x = lanes.disk + slot[index] * 11;
  const writes = entry.verb === "write" || entry.verb === "sync";
  const lost = entry.fate === "lost" || entry.fate === "failed";
  const edge = lost ? colours.bad : isFollowed(entry) ? colours.follow : writes ? colours.pending : colours.faint;
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.setLineDash([2, 3]);
  pen.beginPath();
  pen.moveTo(lanes.broker, y0);
  pen.lineTo(x, y0);
  if (entry.fate === "done") {
    pen.moveTo(x, y1);
    pen.lineTo(lanes.broker, y1);
  }
  pen.stroke();
  pen.setLineDash([]);
  pen.fillStyle = colours.ground;
  pen.fillRect(x, y0, 9, y1 - y0);
  pen.fillStyle = writes ? hatch : colours.line;
  pen.fillRect(x, y0, 9, y1 - y0);
  pen.strokeStyle = edge;
  pen.lineWidth = isFollowed(entry) || index === view.at ? 2 : 1;
  pen.strokeRect(x + 0.5, y0 + 0.5, 8, y1 - y0);
  if (entry.verb === "write" && entry.fate === "done" && !entry.sync) drawUnsynced(pen, index, x, y1);
  if (entry.fate === "done" && entry.sync) {
    pen.fillStyle = colours.good;
    pen.fillRect(x - 1, y1 - 2, 11, 4);
  }
  if (lost) cross(pen, x + 4.5, y1, colours.bad);
  const colour = lost ? colours.bad : isFollowed(entry) ? colours.follow : writes ? colours.text : colours.faint;
  // Of a bar that began above what can be seen, the words come along.
  const above = scroll.scrollTop + 4;
  const at = y0 < above && y1 > above + 14 ? above + 13 + slot[index] * 16 : y0 + 1;
  words(pen, entry.text, lanes.labels, at, colour, "left", lanes.width - lanes.labels - 8);
}

/// Written and not synced: until the next sync of its segment ends, or the power goes.
function drawUnsynced(pen, index, x, y) {
  if (!syncOf.has(index)) syncOf.set(index, findSync(index));
  const [next, ends] = syncOf.get(index);
  const to = next < 0 ? height : ends ? end_y[next] : top_y[next];
  pen.fillStyle = hatch;
  pen.fillRect(x + 2, y, 5, to - y);
}

const syncOf = new Map();

/// The entry that makes it durable by its end, or that decides its fate.
function findSync(index) {
  const entry = ENTRIES[index];
  for (let next = index + 1; next < ENTRIES.length; next++) {
    const later = ENTRIES[next];
    if (later.kind === "crash" && later.power) return [next, false];
    if (later.kind === "operation" && later.sync && later.segment === entry.segment && later.fate === "done"
        && later.end_us >= entry.end_us) {
      return [next, true];
    }
  }
  return [-1, false];
}

/// The whole run at the side: crashes, faults, the broken promise, and where we are.
function drawMap(from, tall) {
  const whole = stage.clientHeight - HEAD;
  const pen = sized(map, 14, whole);
  const scale = whole / Math.max(height, tall);
  pen.fillStyle = colours.select;
  pen.fillRect(0, from * scale, 14, Math.max(3, tall * scale));
  for (const index of rows) {
    const entry = ENTRIES[index];
    const mark = { crash: "bad", violation: "bad", fault: "fault", serving: "good", phase: "dim" }[entry.kind];
    if (mark) {
      pen.fillStyle = colours[mark];
      pen.fillRect(3, top_y[index] * scale, 8, 2);
    } else if (isFollowed(entry)) {
      pen.fillStyle = colours.follow;
      pen.fillRect(0, top_y[index] * scale, 14, 1.5);
    }
  }
  pen.fillStyle = colours.text;
  pen.fillRect(0, top_y[view.at] * scale, 14, 2);
}

/// The entry that stands there.
function entryAt(x, y) {
  let best = -1;
  let least = 11;
  eachBetween(y - 40, y + 40, (index) => {
    const distance = distanceTo(index, x, y);
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

function distanceTo(index, x, y) {
  const entry = ENTRIES[index];
  const row = Math.abs(y - (top_y[index] - 5));
  if (entry.kind === "operation") {
    const left = lanes.disk + slot[index] * 11;
    if (x >= left && x <= left + 10 && y >= top_y[index] && y <= end_y[index]) return 0;
    return x > lanes.broker + 8 ? row : 99;
  }
  if (entry.kind === "flight") {
    const there = lanes.clients[entry.client];
    if (there === null || x > lanes.broker + 8) return 99;
    const [x0, x1] = entry.to_broker ? [there, lanes.broker] : [lanes.broker, there];
    const part = Math.min(1, Math.max(0, (x - x0) / (x1 - x0)));
    const line = Math.abs(y - (top_y[index] + (end_y[index] - top_y[index]) * part));
    return Math.min(row, line + 1);
  }
  return row + 0.5;
}
