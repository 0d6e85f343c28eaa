// Beside the diagram, in words: the entry at hand, what is the case then, what the scenario asks for. All text is put in
// as text, never as HTML.

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const child of children) if (child !== null && child !== undefined && child !== "") element.append(child);
  return element;
}

function fill(id, ...children) {
  const element = document.getElementById(id);
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function jump(index, text) {
  const button = make("button", "jump", text);
  button.addEventListener("click", () => go(index));
  return button;
}

function showClaim() {
  const broken = DATA.violation;
  const counts = DATA.counts;
  const facts = [
    `seed ${DATA.seed}`,
    `${ENTRIES.length.toLocaleString("en")} entries`,
    `${counts.packets} packets sent by clients, ${counts.deliveries} deliveries`,
    `${counts.crashes} crashes`,
    `${duration(counts.simulated_us)} simulated`,
    `trace ${DATA.hash}`,
  ];
  const copy = make("button", "copy", "copy");
  copy.addEventListener("click", () => {
    navigator.clipboard?.writeText(DATA.command).then(() => { copy.textContent = "copied"; }, () => {});
  });
  const title = broken
    ? make("h1", "bad", make("span", "checker", broken.checker), broken.meaning)
    : make("h1", "good", make("span", "checker", "kept"), "Every promise was kept in this run.");
  document.title = broken ? `${broken.checker} (${broken.object}) · vowmq-sim` : `seed ${DATA.seed} · vowmq-sim`;
  fill(
    "claim",
    title,
    broken ? make("p", "text", make("b", "", broken.object), ` at ${seconds(broken.at_us)} s: ${broken.text}`) : null,
    DATA.why ? make("p", "why", DATA.why) : null,
    make("p", "facts", make("code", "", DATA.command), copy, facts.join(" · ")),
    DATA.note ? make("p", "note", DATA.note) : null,
  );
}

function showEntry() {
  const entry = ENTRIES[view.at];
  if (!entry) {
    fill("entry", make("p", "", "Nothing was recorded that could be shown."));
    return;
  }
  const lines = [make("h2", "", headingOf(entry)), make("p", "what", entry.kind === "violation" ? `${DATA.violation.checker}: ${DATA.violation.meaning}` : entry.text)];
  if (violationAt !== undefined && view.at > violationAt) {
    lines.push(make("p", "after", "After the promise was broken. The run counts only until then; this shows what came of it."));
  }
  if (entry.kind === "violation") lines.push(make("p", "", DATA.violation.text));
  const sayings = [];
  if (entry.kind === "flight") sayings.push(flightWords(entry));
  if (entry.kind === "operation") sayings.push(operationWords(entry));
  if (entry.kind === "violation" && entry.culprit !== undefined) {
    sayings.push(make("span", "", "It is broken by ", jump(entry.culprit, ENTRIES[entry.culprit].text), "."));
    sayings.push(...diskWords(entry.culprit));
  }
  if (entry.kind === "flight" && !entry.to_broker) sayings.push(...diskWords(view.at));
  for (const saying of sayings) lines.push(make("p", "", saying));
  if (entry.details && entry.details.length) {
    lines.push(make("ul", "details", ...entry.details.map((detail) => make("li", "", detail))));
  }
  if (entry.about) {
    const chips = [...new Set(entry.about)].slice(0, 12).map((name) => {
      const chip = make("button", name === view.follow ? "chip on" : "chip", name);
      chip.title = "follow it from end to end";
      chip.addEventListener("click", () => follow(name === view.follow ? null : name));
      return chip;
    });
    lines.push(make("p", "chips", "about ", ...chips));
  }
  if (view.follow) lines.push(story(view.follow));
  fill("entry", ...lines);
}

const HEADINGS = {
  flight: "On the wire",
  operation: "On the disk",
  synced: "On the disk",
  crash: "Crash",
  recovering: "Recovery",
  serving: "Recovery is over",
  fault: "Fault",
  client: "Client",
  broker: "Broker",
  event: "The broker reports",
  disk: "The disk lies",
  phase: "Phase",
  violation: "The broken promise",
};

function headingOf(entry) {
  const place = rows.indexOf(view.at);
  const which = place < 0 ? "" : `${(place + 1).toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  const time = make("span", "time", `${seconds(entry.at_us)} s`);
  return make("span", "heading", make("span", "", HEADINGS[entry.kind]), time, make("span", "count", which));
}

function flightWords(entry) {
  const client = CLIENTS[entry.client];
  const [from, to] = entry.to_broker ? [client, "the broker"] : ["the broker", client];
  const way = `From ${from} to ${to} on connection ${entry.connection}. `;
  if (entry.fate === "done") return `${way}It arrives ${duration(entry.end_us - entry.at_us)} later, at ${seconds(entry.end_us)}.`;
  if (entry.fate === "lost") return `${way}It is lost at ${seconds(entry.end_us)}: the connection is gone.`;
  return `${way}It is still on its way when the run ends.`;
}

function operationWords(entry) {
  const took = entry.end_us === undefined ? "" : `${duration(entry.end_us - entry.at_us)} later, at ${seconds(entry.end_us)}`;
  switch (entry.fate) {
    case "done":
      if (entry.sync) return `It ends ${took}. Only then is it sure to outlive a power cut.`;
      return entry.verb === "write" ? `It ends ${took}, and is not synced by that.` : `It ends ${took}.`;
    case "lost": return `A crash cuts it off ${took}.`;
    case "failed": return `It fails ${took}.`;
    default: return "It has not ended when the run ends.";
  }
}

/// Whether the records about what a packet is about were on the disk when it left.
function diskWords(index) {
  const flight = ENTRIES[index];
  const about = (flight.about || []).filter((name) => /^m\d/.test(name));
  if (!about.length || flight.to_broker) return [];
  const isCulprit = culpritOf() === index;
  const words = [];
  ENTRIES.forEach((entry, at) => {
    if (entry.kind !== "operation" || entry.verb !== "write" || !entry.about) return;
    if (at > index && !isCulprit) return;
    if (!about.some((name) => entry.about.includes(name)) || entry.at_us > flight.at_us + 1e6) return;
    const durable = entry.fate === "done" && entry.sync && entry.end_us <= flight.at_us;
    if (at > index && endsOf(entry) !== Infinity && words.length) return;
    const how = durable
      ? `was on the disk ${duration(flight.at_us - entry.end_us)} before it left`
      : at > index || entry.at_us > flight.at_us
        ? `is ordered only ${duration(entry.at_us - flight.at_us)} after it left`
        : entry.fate === "done" && entry.sync
          ? `is on the disk only ${duration(entry.end_us - flight.at_us)} after it left`
          : "was not on the disk when it left";
    const told = jump(at, entry.text.replace(/^write (and sync )?/, ""));
    const tone = durable ? "saying good" : isCulprit ? "saying bad" : "saying";
    words.push(make("span", tone, "The write of ", told, `, which concerns ${about.join(", ")}, ${how}.`));
  });
  const last = words.slice(-6);
  return last.length || !isCulprit
    ? last
    : [make("span", "saying bad", `No record about ${about.join(", ")} was ordered when it left.`)];
}

/// All that is told of what is followed, to click through.
function story(name) {
  const steps = [];
  ENTRIES.forEach((entry, index) => {
    if (entry.about && entry.about.includes(name)) steps.push(index);
  });
  const shown = steps.length > 200 ? steps.slice(0, 200) : steps;
  const items = shown.map((index) => {
    const entry = ENTRIES[index];
    const who = entry.kind === "flight" ? (entry.to_broker ? `${CLIENTS[entry.client]} →` : `→ ${CLIENTS[entry.client]}`)
      : entry.kind === "operation" ? "disk" : "";
    const item = make("li", index === view.at ? "here" : "", make("span", "time", seconds(entry.at_us)), make("span", "who", who), jump(index, entry.kind === "violation" ? "the promise is broken" : entry.text),
      entry.fate === "lost" ? make("span", "fate", "lost") : null);
    return item;
  });
  const rest = steps.length - shown.length;
  return make("div", "story", make("h3", "", `The story of ${name}`), make("ol", "", ...items), rest ? make("p", "", `and ${rest} more`) : null);
}

function showState() {
  const state = stateAt(view.at);
  const behind = state.written - state.synced;
  const rowsOf = [
    ["broker", state.process, state.process === "serving" ? "good" : "bad"],
    ["on the disk", `records up to ${state.synced}${behind > 0 ? `; written or being written up to ${state.written}` : ""}`, behind > 0 ? "pending" : ""],
    ["disk at work", state.operations.length ? listOf(state.operations) : "nothing under way", ""],
    ["on the wire", state.flights.length ? listOf(state.flights) : "nothing", ""],
    ["phase", state.phase === "faults" ? "faults may happen" : state.phase, ""],
  ];
  if (state.faults.length) rowsOf.push(["lasting faults", state.faults.join("; "), "fault"]);
  const table = make("dl", "");
  for (const [name, value, className] of rowsOf) table.append(make("dt", "", name), make("dd", className, value));
  const clients = CLIENTS.map((client, index) => make("span", state.clients[index] ? "client up" : "client", client));
  table.append(make("dt", "", "clients"), make("dd", "clients", ...clients));
  fill("state", make("h2", "", DATA.note ? "At this moment, by what is shown" : "At this moment"), table);
}

function listOf(indices) {
  const list = make("ul", "", ...indices.slice(-5).map((index) => make("li", "", jump(index, ENTRIES[index].text))));
  if (indices.length > 5) list.append(make("li", "", `and ${indices.length - 5} more`));
  return list;
}

function showSteps() {
  const items = DATA.steps.map((step) => {
    const [time, text] = [step.slice(0, 10).trim(), step.slice(10).trim()];
    const fault = text.startsWith("FAULT ");
    const item = make("li", fault ? "fault" : "", make("span", "time", time), fault ? `fault: ${text.slice(6)}` : text);
    item.tabIndex = -1;
    if (time) {
      item.classList.add("timed");
      item.addEventListener("click", () => go(nearest(Number(time) * 1e6)));
    }
    return item;
  });
  const most = 400;
  const rest = items.length - most;
  fill("steps", make("h2", "", `Scenario: ${DATA.steps.length} steps`), make("ol", "", ...items.slice(0, most)),
    rest > 0 ? make("p", "", `and ${rest} more: vowmq-sim replay … --show prints them`) : null);
}

function nearest(us) {
  const found = rows.find((index) => ENTRIES[index].at_us >= us - 0.5);
  return found === undefined ? rows[rows.length - 1] : found;
}

const SIGNS = [
  ["→", "a packet: it leaves where the line begins and arrives where it ends; a red cross is where it was lost"],
  ["▨", "hatched: ordered or written, and not yet synced. If the power goes now, it may be lost"],
  ["▬", "a green foot: synced. What was hatched above it outlives a power cut from here on"],
  ["✕", "a crash: of the process, or of the power, which takes the page cache too"],
  ["⚡", "a fault of the scenario sets in"],
  ["○", "a client comes to a step of its program, or something happens to it"],
  ["┃", "a thick line: the client is connected; the broker serves. Hatched colour: it recovers. Red ground: it is down"],
  ["+ 12 ms", "time in which nothing happened, shortened"],
  ["m0.3", "the fourth message of the first client. Click it to follow it from PUBLISH to record, answer and delivery"],
];
const KEYS = [
  ["← →, space", "step"], ["shift ← →", "step along what is followed"], ["V", "the broken promise"], ["C, F", "next crash, next fault; with shift, the one before"],
  ["Home, End", "beginning, end"], ["+ −", "further apart, closer together"], ["Esc", "follow nothing"],
];

function showLegend() {
  const table = (pairs) => {
    const list = make("dl", "");
    for (const [sign, text] of pairs) list.append(make("dt", "", sign), make("dd", "", text));
    return list;
  };
  const close = make("button", "", "close");
  close.addEventListener("click", () => document.getElementById("legend").close());
  fill("legend", make("h2", "", "What the signs mean"), table(SIGNS), make("h2", "", "Keys"), table(KEYS), close);
}
