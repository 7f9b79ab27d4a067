// One job: what happens and why, the timeline, and everything below it.

import { copyBox, h } from "./dom.js";
import { age, clock, count, figure, known, names, percent, ranks, size, span, whole, words } from "./format.js";
import { curve, goodput, waterfall } from "./charts.js";
import { saved, state } from "./jobs.js";
import { tone, Timeline } from "./timeline.js";

const card = (title, body, more) => h("section", { class: "card " + (more || "") }, h("h2", null, title), body);

export class JobView {
  constructor(job, now) {
    this.job = job;
    this.now = now;
    this.open = new Set(); // what the user unfolded
    this.timeline = new Timeline(now, (chosen) => this.choose(chosen));
    for (const name of ["head", "detail", "goodput", "nodes", "curves", "checkpoints", "failures", "events"])
      this[name + "Box"] = h("div");
    this.detailBox.className = "detail";
    this.root = h("div", { class: "jobpage" }, this.headBox,
      h("section", { class: "card main" }, h("div", { class: "cardhead" }, h("h2", null, "timeline"), this.timeline.buttons),
        this.timeline.box, this.timeline.legend, this.detailBox),
      h("div", { class: "columns" },
        card("where the time went", this.goodputBox), card("nodes and ranks", this.nodesBox)),
      card("training", this.curvesBox), card("checkpoints and who has them", this.checkpointsBox),
      card("failures", this.failuresBox), card("events", this.eventsBox));
  }

  // draw draws the named parts again; null: all.
  draw(changed, part, summary) {
    this.part = part;
    this.summary = summary;
    const any = (...all) => !changed || all.some((name) => changed.includes(name));
    if (any("status", "account")) this.drawHead();
    if (any("timeline")) this.timeline.set(part("timeline"), () => part("status"));
    if (any("timeline") && this.chosen && !this.chosen.at) this.drawDetail();
    if (any("goodput")) this.goodputBox.replaceChildren(goodput(part("goodput")));
    if (any("nodes", "world")) this.nodesBox.replaceChildren(this.nodes(part("nodes"), part("world")));
    if (any("curve", "timeline")) this.drawCurves();
    if (any("checkpoints")) this.checkpointsBox.replaceChildren(this.checkpoints(part("checkpoints")));
    if (any("failures")) this.failuresBox.replaceChildren(this.failures(part("failures")));
    if (any("events")) this.eventsBox.replaceChildren(this.events(part("events")));
  }

  // tick draws what depends on the time.
  tick() {
    if (!this.part) return;
    this.drawHead();
    if (!this.part("timeline").to) this.timeline.draw();
    this.ticks = (this.ticks || 0) + 1;
    if (this.ticks % 5) return;
    this.nodesBox.replaceChildren(this.nodes(this.part("nodes"), this.part("world")));
    this.checkpointsBox.replaceChildren(this.checkpoints(this.part("checkpoints")));
  }

  drawHead() {
    const st = this.part("status"), sum = this.summary, now = this.now();
    if (!st || !sum) return;
    const key = JSON.stringify([st, sum, Math.floor(now / 1000)]);
    if (key === this.headKey) return;
    this.headKey = key;
    const tile = (label, value, note, cls) => h("div", { class: "tile" }, h("div", { class: "label" }, label),
      h("div", { class: "value " + (cls || "") }, value), h("div", { class: "note quiet" }, note));
    const p = st.progress, c = sum.checkpoint, over = sum.level === "over" || sum.state === "failed";
    const np = st.wish.min === st.wish.max ? `${st.wish.np} wanted` : `${st.wish.min}–${st.wish.max}`;
    const headline = h("p", { class: "why", "aria-live": "polite" }, st.why);
    const account = this.part("account").slice(1).filter((line) => !line.startsWith("next: ") && !line.startsWith("the start of") && !/^ {2}\s*\d/.test(line));
    const more = [st.untaken && st.untaken.text, ...account.filter((line) => line.startsWith("node "))].filter(Boolean);
    const head = h("div", { class: "jobhead level-" + sum.level },
      h("div", { class: "title" }, h("h1", null, this.job), state(sum.level, sum.state),
        h("span", { class: "quiet" }, `since ${age(sum.since, now)}`.replace("since now", "just now").replace(" ago", "")),
        sum.notes.map((n) => h("span", { class: "chip warn" }, n))),
      headline, more.length > 0 && h("ul", { class: "more" }, more.slice(0, 4).map((line) => h("li", null, line))),
      h("div", { class: "next" }, h("span", { class: "quiet" }, "next"), copyBox(sum.command),
        st.next && h("span", { class: "quiet hint" }, st.next)),
      h("div", { class: "tiles" },
        tile("nodes", over ? "–" : `${sum.present} of ${sum.np}`, `${np}, ${count(st.wish.nproc_per_node, "worker")} each`, sum.present < sum.np && !over ? "few" : ""),
        tile("step", p && p.step !== null ? whole(p.step) : "–", p ? [p.stale ? "silent for " + span(1000 * p.age_seconds) :
          sum.left_seconds !== null ? span(1000 * sum.left_seconds) + " left" : age(Date.parse(p.time), now)] : "not reported", p && p.stale ? "few" : ""),
        tile("rate", sum.samples_per_second === null ? "–" : figure(sum.samples_per_second), "samples/s" + (p && p.loss !== null ? ` · loss ${figure(p.loss)}` : "")),
        tile("checkpoint", c ? (c.step === null ? `${c.number}` : `step ${whole(c.step)}`) : "none yet", c ? saved(c, now) : "", c && c.copies < c.wanted ? "few" : ""),
        tile("kept time", percent(sum.kept), `of ${span(1000 * this.part("goodput").elapsed_seconds)}`),
        tile("generation", String(sum.generation), `world size ${sum.world_size} · ${sum.restarts.used} of ${sum.restarts.max} restarts`)));
    const selection = getSelection();
    if (selection && !selection.isCollapsed && this.headBox.contains(selection.anchorNode)) return; // the user copies
    this.headBox.replaceChildren(head);
  }

  // choose shows a generation, or a moment, at length.
  choose(chosen) {
    this.chosen = chosen;
    this.timeline.chosen = chosen;
    this.timeline.draw();
    this.drawDetail();
  }

  // clear closes the detail; it returns false if none was open.
  clear() {
    const was = this.chosen;
    if (was) this.choose(null);
    return Boolean(was);
  }

  // step moves to the generation before or after the chosen one.
  step(by) {
    const all = this.part ? this.part("timeline").generations : [];
    if (all.length === 0) return;
    const at = this.chosen ? all.findIndex((g) => g.number === this.chosen.generation) : by < 0 ? all.length : -1;
    this.choose({ generation: all[Math.max(0, Math.min(all.length - 1, at + by))].number });
  }

  drawDetail() {
    const c = this.chosen;
    if (!c) return this.detailBox.replaceChildren();
    const t = this.part("timeline"), g = t.generations.find((v) => v.number === c.generation);
    const at = c.at || (g && g.proposed) || this.now();
    const key = JSON.stringify([c, g]);
    if (this.detailKey === key && this.detailBox.firstChild) return;
    this.detailKey = key;
    const facts = g ? [["proposed", clock(g.proposed, true)], ["world", `${count(g.nodes, "node")}, ${count(g.size, "worker")}`],
      ["without training", g.idle_ms === null ? "–" : span(g.idle_ms)], ["steps", `${known(g.from_step)} → ${g.ended ? known(g.to_step) : "now"}`],
      ["lost at its end", g.lost_steps ? count(g.lost_steps, "step") : "nothing"]] : [];
    const near = this.part("events").filter((e) => Math.abs(Date.parse(e.time) - at) < 30e3);
    const lines = h("div", { class: "lines" }, h("p", { class: "quiet small" }, "reading the lines of the workers …"));
    this.detailBox.replaceChildren(h("div", { class: "cardhead" },
      h("h3", null, c.at ? `${clock(c.at)}${c.node ? ` on ${c.node}` : ""}` : `generation ${c.generation}`,
        g && h("span", { class: "because " + tone(g.cause) }, c.at ? `generation ${g.number}` : g.text)),
      h("button", { type: "button", class: "plainbutton", onclick: () => this.clear(), "aria-label": "close" }, "close")),
    g && !c.at && h("div", { class: "columns wide" }, h("div", null, waterfall(g.waterfall)),
      h("dl", { class: "facts" }, facts.map(([k, v]) => [h("dt", null, k), h("dd", null, v)]))),
    h("h4", null, "events of that minute"), near.length ? this.eventTable(near) : h("p", { class: "quiet small" }, "none"),
    h("h4", null, "lines of that minute"), lines);
    this.fetchLines(lines, at, c.node);
  }

  async fetchLines(box, at, node) {
    const query = new URLSearchParams({ job: this.job, from: at - 30e3, to: at + 30e3 });
    try {
      const answer = await fetch("lines?" + query);
      if (!answer.ok) throw new Error(await answer.text());
      const read = await answer.json();
      const all = read.lines.filter((l) => !node || l.node === node);
      box.replaceChildren(...read.notes.map((n) => h("p", { class: "quiet small" }, n)),
        all.length ? h("pre", { class: "log" }, all.map((l) => h("div", null, h("span", { class: "quiet" },
          `${l.time ? clock(Date.parse(l.time)) : "        "} ${l.process || "rank " + l.rank} `), l.line))) : h("p", { class: "quiet small" }, "none that can be read"));
    } catch (e) {
      box.replaceChildren(h("p", { class: "quiet small" }, String(e.message).trim()));
    }
  }

  nodes(all, world) {
    const seat = new Map(world.map((w) => [w.node, w.ranks]));
    const level = { running: "good", ready: "busy", waiting: "warn", joining: "busy", spare: "idle", suspect: "warn", quarantined: "bad", draining: "busy", lost: "bad", left: "idle" };
    const byState = new Map(), run = (n) => n.state === "running";
    for (const n of all) byState.set(n.state, (byState.get(n.state) || 0) + 1);
    const counts = all.length > 12 && h("p", { class: "small quiet" }, [...byState].map(([k, n]) => `${n} ${k}`).join(", "));
    return h("div", { class: "tall" }, counts, h("table", { class: "nodes" }, h("tbody", null, (all.length > 200 ? [...all.filter((n) => !run(n)), ...all.filter(run)].slice(0, 200) : all).map((n) => h("tr", null,
      h("td", null, h("span", { class: "dot " + level[n.state] }), n.node),
      h("td", { class: "ranks" }, seat.has(n.node) && !["lost", "left"].includes(n.state) ? cells(seat.get(n.node), level[n.state]) : h("span", { class: "quiet" }, "–")),
      h("td", { class: "quiet" }, n.state), h("td", { class: "quiet wrap" }, n.why || ""),
      h("td", { class: "quiet n" }, n.since ? age(Date.parse(n.since), this.now()) : ""))))),
    all.length > 200 && h("p", { class: "quiet small" }, `and ${all.length - 200} more: elastic nodes ${this.job}`));
  }

  drawCurves() {
    const points = this.part("curve"), t = this.part("timeline");
    this.curvesBox.replaceChildren(h("div", { class: "columns" }, curve("loss", "", points, (p) => p.l, t, this.now()),
      curve("rate", "samples/s", points, (p) => p.r, t, this.now())));
  }

  checkpoints(all) {
    if (all.length === 0) return h("p", { class: "quiet" }, "none yet");
    const nodes = [...new Set(all.flatMap((c) => [...c.holders, ...c.away]))].sort();
    const few = nodes.length <= 24;
    return h("div", { class: "scroll" }, h("table", { class: "holders" },
      h("thead", null, h("tr", null, ["checkpoint", "step", "size", "when", ""].map((t, i) => h("th", { class: i && i < 3 ? "n" : "" }, t)),
        few ? nodes.map((n) => h("th", { class: "node" }, n)) : h("th", null, "nodes"))),
      h("tbody", null, all.map((c) => h("tr", { class: c.head ? "newest" : "" },
        h("td", null, String(c.number)), h("td", { class: "n" }, whole(c.step)), h("td", { class: "n" }, size(c.bytes)),
        h("td", { class: "quiet" }, age(Date.parse(c.time), this.now())),
        h("td", null, c.head && h("span", { class: "chip good" }, "newest"), c.resume && h("span", { class: "chip" }, "resumed from")),
        few ? nodes.map((n) => h("td", { class: "has" }, c.holders.includes(n) ? h("span", { class: "cell whole", title: "has it" }, "✓")
          : c.away.includes(n) ? h("span", { class: "cell away", title: "had it, and is away" }, "away") : h("span", { class: "cell none" }, "·")))
          : h("td", { class: "wrap" }, names(c.holders, 6), c.away.length > 0 && h("span", { class: "quiet" }, ` · away: ${names(c.away, 3)}`)))))));
  }

  // unfold makes a part that stays open when it is drawn again.
  unfold(key, summary, body, first) {
    const d = h("details", { open: this.open.has(key) || first && !this.open.has("-" + key) }, h("summary", null, summary), body);
    d.addEventListener("toggle", () => {
      this.open.delete(key);
      this.open.delete("-" + key);
      this.open.add(d.open ? key : "-" + key);
    });
    return d;
  }

  failures(all) {
    if (all.length === 0) return h("p", { class: "quiet" }, "no worker has failed");
    return h("div", { class: "failures" }, all.map((f, i) => this.unfold("f" + f.rev,
      [h("span", { class: "dot bad" }), h("strong", null, f.text), h("span", { class: "quiet" }, ` generation ${f.generation}, ${age(Date.parse(f.time), this.now())}`)],
      h("div", null, f.detail ? h("pre", { class: "log" }, f.detail) : h("p", { class: "quiet small" }, "it wrote nothing"),
        f.stacks && f.stacks.length > 0 && h("div", { class: "stacks" }, f.stacks.map((k) => h("div", { class: k.rank === f.rank ? "culprit" : "" },
          h("h4", null, `rank ${k.rank}`, h("span", { class: "quiet" }, ` ${k.state}`)), h("pre", { class: "log" }, k.stack || "no stack")))),
        f.others.length > 0 && h("p", { class: "quiet small" }, `because of it: ${f.others.map((o) =>
          `${o.name || "rank " + o.rank} on ${o.node} (${o.signal || "exit code " + o.code})`).join(", ")}`),
        copyBox(`elastic logs ${this.job} --rank=${f.rank} --gen=${f.generation}`)), i === 0)));
  }

  eventTable(all) {
    return h("table", { class: "events" }, h("tbody", null, all.map((e) => h("tr", null,
      h("td", { class: "quiet" }, clock(Date.parse(e.time), true)), h("td", { class: "quiet n" }, `g${e.generation}`),
      h("td", { class: "kind " + e.kind }, words(e.kind)), h("td", { class: "wrap" }, e.text)))));
  }

  events(all) {
    const most = this.allEvents ? all.length : 40;
    return h("div", { class: "tall" }, this.eventTable(all.slice(-most).reverse()),
      all.length > most && h("button", { type: "button", class: "plainbutton", onclick: () => {
        this.allEvents = true;
        this.eventsBox.replaceChildren(this.events(all));
      } }, `show ${all.length - most} older`));
  }
}

// cells draws a cell for each rank.
function cells(all, level) {
  if (all.length > 16) return `${ranks(all)}`;
  return all.map((r) => h("span", { class: "rank " + level }, String(r)));
}
