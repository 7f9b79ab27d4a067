// Charts beside the timeline: goodput, the waterfall of a start, curves of loss and rate.

import { h, s, hover } from "./dom.js";
import { clock, figure, percent, span, whole } from "./format.js";
import { tone } from "./timeline.js";

const BUCKETS = [
  ["kept", "steps that count"], ["untold", "training, steps not reported"], ["redone", "steps made again"],
  ["no_steps", "before a first step"], ["hung", "hung"], ["detection", "finding a loss"], ["barrier", "changing the world"],
  ["saving", "saving before a change"], ["backoff", "pause after a failure"], ["waiting", "waiting for nodes"],
];

// goodput draws where the time went: one bar, and a row for each use.
export function goodput(r) {
  const all = BUCKETS.map(([key, label]) => ({ key, label, seconds: r.seconds[key] || 0 })).filter((b) => b.seconds >= 0.05);
  const total = all.reduce((sum, b) => sum + b.seconds, 0);
  if (total <= 0) return h("p", { class: "quiet" }, "nothing has run yet");
  const bar = s("svg", { class: "goodbar", width: "100%", height: 22, preserveAspectRatio: "none", viewBox: "0 0 1000 22", role: "img",
    "aria-label": all.map((b) => `${b.label} ${percent(b.seconds / total)}`).join(", ") });
  let at = 0;
  for (const b of all) {
    const width = 1000 * b.seconds / total;
    bar.append(hover(s("rect", { x: at, y: 0, width: Math.max(width, 0.8), height: 22, class: "use " + b.key }),
      () => [b.label, `${percent(b.seconds / total)}, ${span(1000 * b.seconds)}`]));
    at += width;
  }
  return h("div", null, bar, h("table", { class: "uses" }, h("tbody", null, all.map((b) => h("tr", null,
    h("td", null, h("span", { class: "swatch use " + b.key }), b.label),
    h("td", { class: "n" }, span(1000 * b.seconds)), h("td", { class: "n" }, percent(b.seconds / total)))),
    h("tr", { class: "sum" }, h("td", null, "all"), h("td", { class: "n" }, span(1000 * total)), h("td")))));
}

const MOMENTS = [["decided_ms", "decided"], ["enough_ms", "enough nodes"], ["proposed_ms", "proposed"],
  ["stopped_ms", "workers stopped"], ["barrier_ms", "barrier full"], ["started_ms", "workers started"]];

// waterfall draws the moments of one start.
export function waterfall(w) {
  if (!w) return h("p", { class: "quiet" }, "the start of this generation was not measured");
  const all = MOMENTS.filter(([key]) => w[key] !== null && w[key] !== undefined).map(([key, label]) => ({ label, at: w[key] }))
    .sort((a, b) => a.at - b.at);
  const most = Math.max(1, ...all.map((m) => m.at));
  let last = 0;
  const rows = all.map((m) => {
    const from = last;
    last = Math.max(last, m.at);
    const x = (ms) => (100 * ms / most).toFixed(2) + "%";
    return h("tr", null, h("td", null, m.label + (m.label === "barrier full" && w.last ? `, ${w.last} was the last` : "")),
      h("td", { class: "n" }, (m.at / 1000).toFixed(3) + "s"),
      h("td", { class: "fall" }, s("svg", { width: "100%", height: 12 },
        s("rect", { x: 0, y: 5.5, width: "100%", height: 1, class: "track" }),
        s("rect", { x: x(from), y: 1, width: (Math.max(0.6, 100 * (m.at - from) / most)).toFixed(2) + "%", height: 10, rx: 2, class: "step" }))));
  });
  return h("div", null, h("p", { class: "quiet small" }, `since the first sign (${w.sign.replaceAll("-", " ")}), as seen on ${w.by}`),
    h("table", { class: "falls" }, h("tbody", null, rows)));
}

// curve draws one figure over time, with the generations.
export function curve(title, unit, points, value, timeline, now) {
  const all = points.map((p) => ({ at: p.t, v: value(p), p })).filter((p) => p.v !== undefined && p.v !== null && Number.isFinite(p.v));
  const box = h("figure", { class: "curve" }, h("figcaption", null, title, h("span", { class: "quiet" }, unit ? ` ${unit}` : "")));
  if (all.length < 2) {
    box.append(h("p", { class: "quiet small" }, "not reported yet"));
    return box;
  }
  const W = 640, H = 150, L = 48, B = 20, T = 8;
  const from = Math.min(timeline.from, all[0].at), to = Math.max(timeline.to || now, all[all.length - 1].at, from + 1);
  const vs = all.map((p) => p.v).sort((a, b) => a - b);
  let low = vs[0], high = vs[Math.min(vs.length - 1, Math.floor(vs.length * 0.995))];
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  const ticks = nice(low, high, 3);
  low = Math.min(low, ticks[0]);
  high = Math.max(high, ticks[ticks.length - 1]);
  const x = (ms) => L + (W - L - 6) * (ms - from) / (to - from);
  const y = (v) => T + (H - T - B) * (1 - (Math.min(v, high) - low) / (high - low));
  const root = s("svg", { viewBox: `0 0 ${W} ${H}`, width: "100%", role: "img", "aria-label": `${title}: ${figure(all[all.length - 1].v)} now` });
  for (const v of ticks) root.append(s("line", { class: "grid", x1: L, x2: W - 6, y1: y(v), y2: y(v) }),
    s("text", { x: L - 7, y: y(v) + 4, "text-anchor": "end" }, figure(v)));
  for (const g of timeline.generations) if (g.proposed > from)
    root.append(s("line", { class: "cut " + tone(g.cause), x1: x(g.proposed), x2: x(g.proposed), y1: T, y2: H - B }));
  const ends = new Map(timeline.generations.map((g, i) => [g.number, [g, timeline.generations[i + 1]]]));
  for (const line of lines(all)) {
    const [g, next] = ends.get(line[0].p.g) || [];
    const limit = g && next && g.lost_steps > 0 && g.to_step !== null ? g.to_step - g.lost_steps : Infinity;
    const cut = line.findIndex((p) => p.p.s !== undefined && p.p.s > limit);
    const kept = cut < 0 ? line : line.slice(0, cut), gone = cut < 0 ? [] : line.slice(Math.max(0, cut - 1));
    for (const [part, name] of [[kept, "line"], [gone, "line gone"]]) if (part.length)
      root.append(s("path", { class: name, d: part.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)} ${y(p.v).toFixed(1)}`).join("") + (part.length === 1 ? "h.01" : "") }));
  }
  for (const at of [from, to]) root.append(s("text", { x: at === from ? L : W - 6, y: H - 5, "text-anchor": at === from ? "start" : "end" }, clock(at).slice(0, 5)));
  const dot = s("circle", { class: "dot", r: 3.5, visibility: "hidden" });
  root.append(dot);
  hover(root, () => []);
  root.addEventListener("mousemove", (e) => {
    const at = from + (to - from) * ((e.clientX - root.getBoundingClientRect().left) / root.getBoundingClientRect().width * W - L) / (W - L - 6);
    const p = all.reduce((best, q) => (Math.abs(q.at - at) < Math.abs(best.at - at) ? q : best));
    dot.setAttribute("cx", x(p.at));
    dot.setAttribute("cy", y(p.v));
    dot.setAttribute("visibility", "visible");
    const box = document.getElementById("tip");
    box.replaceChildren(h("div", { class: "first" }, `${figure(p.v)} ${unit}`), h("div", null, `${clock(p.at)}, generation ${p.p.g}` +
      (p.p.s === undefined ? "" : `, step ${whole(p.p.s)}`)));
  });
  root.addEventListener("mouseleave", () => dot.setAttribute("visibility", "hidden"));
  box.append(root);
  return box;
}

// lines splits points where the generation changes.
function lines(all) {
  const out = [];
  for (const p of all) {
    const last = out[out.length - 1];
    if (last && last[0].p.g === p.p.g) last.push(p);
    else out.push([p]);
  }
  return out;
}

// nice returns round values that cover low to high.
function nice(low, high, want) {
  const raw = (high - low) / want, unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * ([1, 2, 2.5, 5, 10].find((k) => k * unit >= raw) || 10);
  const out = [];
  for (let v = Math.floor(low / step) * step; v < high + step * 0.999; v += step) out.push(Number(v.toPrecision(12)));
  return out;
}
