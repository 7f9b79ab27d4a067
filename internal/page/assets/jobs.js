// The list of jobs, the worst first.

import { h } from "./dom.js";
import { age, figure, percent, span, whole } from "./format.js";

const ORDER = ["bad", "warn", "busy", "good", "over"];

// worstFirst returns the summaries in the order in which they need attention.
export function worstFirst(set) {
  return Object.keys(set).filter((k) => k.startsWith("jobs/")).map((k) => set[k])
    .sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level) || (a.job < b.job ? -1 : 1));
}

// state shows a state as a word with a dot in its colour.
export const state = (level, word) => h("span", { class: "state " + level }, h("span", { class: "dot " + level }), word);

// saved says which checkpoint there is, and how well it is kept.
export function saved(c, now) {
  if (!c) return [h("span", { class: "quiet" }, "none yet")];
  const few = c.copies < c.wanted;
  return [`${age(c.time, now)} `, h("span", { class: few ? "few" : "quiet" }, `${c.copies} of ${c.wanted}`)];
}

function row(j, now) {
  const over = j.level === "over";
  return h("tr", { class: "level-" + j.level },
    h("td", null, h("a", { class: "job", href: "#/" + j.job }, j.job)),
    h("td", null, state(j.level, j.state)),
    h("td", { class: "why" }, h("span", { title: j.why }, j.why),
      j.notes.map((n) => h("span", { class: "chip warn" }, n))),
    h("td", { class: "n" }, over ? "–" : h("span", { class: j.present < j.np ? "few" : "" }, `${j.present}/${j.np}`)),
    h("td", { class: "n" }, j.step === null ? "–" : whole(j.step)),
    h("td", { class: "n" }, j.samples_per_second === null ? "–" : figure(j.samples_per_second)),
    h("td", { class: "n" }, j.left_seconds === null ? "–" : span(1000 * j.left_seconds)),
    h("td", { class: "n" }, saved(j.checkpoint, now)),
    h("td", { class: "n" }, `${j.restarts.used}/${j.restarts.max}`),
    h("td", { class: "n" }, percent(j.kept)),
    h("td", { class: "quiet owner" }, j.owner));
}

// jobsTable draws the list.
export function jobsTable(set, now) {
  const all = worstFirst(set);
  if (all.length === 0)
    return h("div", { class: "empty" }, h("h1", null, "no jobs yet"),
      h("p", { class: "quiet" }, "the first one begins with: ", h("code", null, "elastic run --np=2 --job-id=x train.py")));
  const counts = ORDER.map((level) => [level, all.filter((j) => j.level === level).length]).filter(([, n]) => n > 0);
  const names = { bad: "failed or without nodes", warn: "to look at", busy: "changing", good: "training", over: "ended" };
  return h("section", null,
    h("div", { class: "listhead" }, h("h1", null, all.length === 1 ? "1 job" : `${all.length} jobs`),
      h("p", { class: "counts" }, counts.map(([level, n]) => h("span", { class: "state " + level },
        h("span", { class: "dot " + level }), `${n} ${names[level]}`)))),
    h("div", { class: "scroll card flush" }, h("table", { class: "jobs" },
      h("thead", null, h("tr", null, ["job", "state", "why"].map((t) => h("th", null, t)),
        ["nodes", "step", "samples/s", "left", "checkpoint", "restarts", "kept"].map((t) => h("th", { class: "n" }, t)),
        h("th", null, "owner"))),
      h("tbody", null, all.map((j) => row(j, now))))));
}
