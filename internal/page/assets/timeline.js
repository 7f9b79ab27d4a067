// The timeline: a row for each node, time across, bars by phase, a line for each generation.

import { h, s, hover } from "./dom.js";
import { clock, count, moment, names, span, words } from "./format.js";

const GUTTER = 132, RIGHT = 14, STRIP = 26, TOP = 34;
const MOST = 40; // rows that are drawn until the user asks for all
export const PHASES = {
  training: "training", redone: "trained, made again", hung: "hung", starting: "starting",
  saving: "saving before a change", backoff: "pause after a failure", waiting: "waiting for nodes",
  spare: "spare", suspect: "suspected", quarantined: "quarantined",
};
const RANGES = [["all", 0], ["6h", 6 * 3600e3], ["1h", 3600e3], ["10m", 600e3], ["2m", 120e3]];
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

// tone is the colour of a cause: trouble, a wish, or a beginning.
export function tone(cause) {
  if (["node-lost", "worker-failed", "checkpoint"].includes(cause)) return "trouble";
  return ["first", "attempt"].includes(cause) ? "plain" : "wish";
}

// glyph draws a mark around 0,0.
function glyph(sign) {
  const d = {
    loss: "M-4-4L4 4M4-4L-4 4", failure: "M0-5L5 0L0 5L-5 0Z", hang: "M-3-5V5M3-5V5", suspicion: "M4 0A4 4 0 1 1 3.9-.9",
    scale: "M0-5L5 4H-5Z", refusal: "M-4-4H4V4H-4ZM-4 4L4-4", rollback: "M5-4L0 0L5 4ZM0-4L-5 0L0 4Z",
    quarantine: "M5 0A5 5 0 1 1 4.9-1M-3.5 3.5L3.5-3.5", join: "M-3-4L3 0L-3 4Z", leave: "M3-4L-3 0L3 4Z", end: "M-4-4H4V4H-4Z",
  }[sign];
  return s("path", { d, class: "glyph " + sign });
}

export class Timeline {
  constructor(now, select) {
    this.now = now;
    this.select = select; // called with a selection: {generation} or {at, node}
    this.range = 0;
    this.buttons = h("div", { class: "ranges", role: "group", "aria-label": "time shown" },
      RANGES.map(([label, ms]) => h("button", { type: "button", "aria-pressed": String(ms === this.range), onclick: () => {
        this.range = ms;
        for (const [i, b] of [...this.buttons.children].entries()) b.setAttribute("aria-pressed", String(RANGES[i][1] === ms));
        this.draw();
      } }, label)));
    this.box = h("div", { class: "timeline" });
    this.legend = h("div", { class: "legend" });
    new ResizeObserver(() => { if (this.width !== this.box.clientWidth) this.draw(); }).observe(this.box);
  }

  set(timeline, status) {
    this.t = timeline;
    this.status = status;
    this.draw();
  }

  // bounds returns the first and the last time that is shown.
  bounds() {
    const end = this.t.to || this.now();
    const from = this.range ? Math.max(this.t.from, end - this.range) : this.t.from;
    return [from, Math.max(end, from + 1000)];
  }

  draw() {
    this.width = this.box.clientWidth;
    if (!this.t || !this.width) return;
    const [from, to] = this.bounds();
    const rows = this.all ? this.t.rows : this.t.rows.slice(0, MOST), high = rows.length > 24 ? 16 : rows.length > 12 ? 20 : 26;
    const bottom = TOP + 20 + rows.length * high, saves = bottom + 6, height = saves + 20 + 24;
    const inner = this.width - GUTTER - RIGHT;
    const x = (ms) => GUTTER + inner * Math.max(0, Math.min(1, ((ms || to) - from) / (to - from)));
    const shown = (a, b) => (b || to) > from && a < to;
    const root = s("svg", { width: this.width, height, role: "group", "aria-label": "timeline of the nodes" });
    root.append(this.axis(x, from, to, TOP, saves + 20));
    root.append(this.strip(x, shown, bottom + 26));
    root.append(s("text", { x: GUTTER - 10, y: TOP + 14, class: "label quiet", "text-anchor": "end" }, "job"));
    rows.forEach((row, i) => root.append(this.row(row, x, shown, TOP + 20 + i * high, high)));
    root.append(s("text", { x: GUTTER - 10, y: saves + 13, class: "label quiet", "text-anchor": "end" }, "saves"));
    root.append(this.commits(x, from, to, saves));
    root.append(this.marks(x, from, to, rows, high));
    if (!this.t.to) root.append(s("line", { class: "now", x1: x(to), x2: x(to), y1: TOP - 4, y2: saves + 18 }));
    const more = this.t.rows.length - rows.length;
    this.box.replaceChildren(root, ...(more > 0 ? [h("button", { type: "button", class: "plainbutton", onclick: () => {
      this.all = true;
      this.draw();
    } }, `show ${more} more rows`)] : []));
    this.drawLegend();
  }

  axis(x, from, to, y1, y2) {
    const want = Math.max(2, (this.width - GUTTER) / 110);
    const step = 1000 * (STEPS.find((v) => (to - from) / 1000 / v <= want) || STEPS[STEPS.length - 1]);
    const zone = new Date(from).getTimezoneOffset() * 60e3;
    const g = s("g", { class: "axis" });
    for (let at = Math.ceil((from - zone) / step) * step + zone; at < to; at += step) {
      if (x(at) > this.width - 40) continue;
      g.append(s("line", { x1: x(at), x2: x(at), y1, y2 }),
        s("text", { x: x(at), y: y2 + 16, "text-anchor": "middle" }, step >= 60e3 ? clock(at).slice(0, 5) : clock(at)));
    }
    return g;
  }

  // strip draws the generations: a block above the rows, and a line through them.
  strip(x, shown, low) {
    const g = s("g", { class: "strip" });
    const all = this.t.generations;
    all.forEach((v, i) => {
      const end = i + 1 < all.length ? all[i + 1].proposed : this.t.to;
      if (!shown(v.proposed, end)) return;
      const left = x(v.proposed), width = Math.max(2, x(end) - left - 1.5);
      const text = width > 34 ? `g${v.number}` : "";
      const chosen = this.chosen && this.chosen.generation === v.number;
      const room = Math.floor((width - 40) / 6);
      const note = room > 8 ? (v.text.length > room ? v.text.slice(0, room - 1) + "…" : v.text) : "";
      const block = s("g", { class: `generation ${tone(v.cause)}${chosen ? " chosen" : ""}`, tabindex: 0, role: "button",
        "aria-label": `generation ${v.number}, ${count(v.nodes, "node")}: ${v.text}`,
        onclick: () => this.select({ generation: v.number }),
        onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); this.select({ generation: v.number }); } } },
        s("rect", { x: left, y: 2, width, height: STRIP - 2, rx: 4 }),
        text && s("text", { x: left + 8, y: 18, class: "g" }, text),
        note && s("text", { x: left + 8 + 9 * text.length, y: 18, class: "note" }, note),
        s("line", { x1: left, x2: left, y1: STRIP, y2: low }));
      hover(block, () => [`generation ${v.number} · ${count(v.nodes, "node")}, world size ${v.size}`, v.text,
        `proposed ${clock(v.proposed, true)}`, v.idle_ms ? `${span(v.idle_ms)} without training` : "",
        v.lost_steps ? `${count(v.lost_steps, "step")} lost at its end` : ""]);
      g.append(block);
    });
    return g;
  }

  row(row, x, shown, y, high) {
    const many = row.nodes.length > 1, label = many ? names(row.nodes, 2) : row.nodes[0];
    const bar = high - (high > 20 ? 10 : 6);
    const g = s("g", { class: "row" });
    const text = s("text", { x: GUTTER - 10, y: y + high / 2 + 4, class: "label " + row.state, "text-anchor": "end" },
      label.length > 19 ? label.slice(0, 18) + "…" : label);
    if (label.length > 19 || many) hover(text, () => [many ? count(row.nodes.length, "node") : label, names(row.nodes, 12)]);
    g.append(text, s("line", { class: "rule", x1: GUTTER, x2: this.width - RIGHT, y1: y + high / 2, y2: y + high / 2 }));
    for (const b of row.bars) {
      if (!shown(b.from, b.to)) continue;
      const left = x(b.from), width = Math.max(1.2, x(b.to) - left);
      const rect = s("rect", { class: "bar " + b.phase, x: left, y: y + (high - bar) / 2, width, height: bar, rx: width > 5 ? 2.5 : 0,
        onclick: (e) => this.select({ at: this.timeAt(e), node: row.nodes[0], generation: b.generation }) });
      hover(rect, () => [`${label} · ${PHASES[b.phase]}`, `${clock(b.from)} – ${b.to ? clock(b.to) : "now"}`,
        span((b.to || this.now()) - b.from) + (b.generation ? `, generation ${b.generation}` : "")]);
      g.append(rect);
      if (["redone", "suspect", "hung"].includes(b.phase) && width > 3)
        g.append(s("path", { class: "hatch " + b.phase, d: hatch(left, y + (high - bar) / 2, width, bar) }));
    }
    return g;
  }

  // timeAt returns the time under the pointer.
  timeAt(e) {
    const [from, to] = this.bounds();
    const at = (e.clientX - this.box.getBoundingClientRect().left - GUTTER) / (this.width - GUTTER - RIGHT);
    return Math.round(from + Math.max(0, Math.min(1, at)) * (to - from));
  }

  commits(x, from, to, y) {
    const g = s("g", { class: "commits" });
    const saved = this.status().checkpoint, wanted = saved ? saved.replicas : 1;
    let last = -9;
    for (const c of this.t.commits) {
      if (c.at < from || c.at > to || x(c.at) - last < 2.2) continue;
      last = x(c.at);
      const tick = s("rect", { x: last - 1, y: y + 3, width: 2, height: 13, rx: 1, class: c.copies && c.copies < wanted ? "few" : "" });
      g.append(hover(tick, () => [`checkpoint ${c.number}${c.step === null ? "" : `, step ${c.step}`}`,
        clock(c.at), c.copies ? (c.copies === 1 ? "1 copy" : `${c.copies} copies`) : ""]));
    }
    return g;
  }

  marks(x, from, to, rows, high) {
    const at = new Map();
    rows.forEach((row, i) => row.nodes.forEach((n) => at.set(n, TOP + 20 + i * high + high / 2)));
    const g = s("g", { class: "marks" });
    const taken = new Map();
    for (const m of this.t.marks) {
      if (m.at < from || m.at > to) continue;
      const y = m.node && at.has(m.node) && !["scale", "rollback", "end"].includes(m.sign) ? at.get(m.node) : TOP + 10;
      const key = `${y} ${m.sign}`, left = x(m.at);
      if (left - (taken.get(key) ?? -99) < 5) continue;
      taken.set(key, left);
      const mark = s("g", { class: "mark", transform: `translate(${left},${y})`, tabindex: 0, role: "img", "aria-label": m.text,
        onclick: () => this.select({ at: m.at, node: m.node, generation: m.generation }) },
        s("circle", { r: 8, class: "halo" }), glyph(m.sign));
      g.append(hover(mark, () => [m.text, `${words(m.kind)}, ${moment(m.at, this.now(), true)}`]));
    }
    return g;
  }

  drawLegend() {
    const used = new Set(this.t.rows.flatMap((r) => r.bars.map((b) => b.phase)));
    const signs = new Set(this.t.marks.map((m) => m.sign));
    const key = [...used].sort().join() + "|" + [...signs].sort().join();
    if (this.legendKey === key) return;
    this.legendKey = key;
    this.legend.replaceChildren(
      ...Object.keys(PHASES).filter((p) => used.has(p)).map((p) => h("span", null, h("span", { class: "swatch " + p }), PHASES[p])),
      ...["loss", "suspicion", "failure", "hang", "scale", "refusal", "rollback", "quarantine", "join", "leave", "end"]
        .filter((v) => signs.has(v)).map((v) => h("span", null, s("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14" }, glyph(v)), v)));
  }
}

// hatch draws slanted lines in a rectangle.
function hatch(x, y, width, height) {
  let d = "";
  for (let at = -height; at < width; at += 6) {
    const x1 = Math.max(0, at), x2 = Math.min(width, at + height);
    if (x2 > x1) d += `M${(x + x1).toFixed(1)} ${(y + height - (x1 - at)).toFixed(1)}L${(x + x2).toFixed(1)} ${(y + height - (x2 - at)).toFixed(1)}`;
  }
  return d;
}
