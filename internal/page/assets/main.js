// The page: which job is shown, and what is drawn again when something changed.

import { h, hideTip } from "./dom.js";
import { open } from "./stream.js";
import { jobsTable } from "./jobs.js";
import { JobView } from "./job.js";

const pieces = { set: {}, skew: 0, problem: "", live: false };
const main = document.getElementById("main");
let job = "", close = () => {}, view = null, drawn = false;

export const now = () => Date.now() + pieces.skew;

function place() {
  const m = location.hash.match(/^#\/([A-Za-z0-9][A-Za-z0-9._-]{0,63})$/);
  return m ? m[1] : "";
}

function route() {
  const next = place();
  close();
  hideTip();
  job = next;
  drawn = false;
  view = job ? new JobView(job, now) : null;
  main.replaceChildren(h("p", { class: "quiet loading" }, "reading …"));
  document.title = job ? `${job} · elastic` : "elastic";
  document.getElementById("crumbs").replaceChildren(
    ...(job ? [h("span", { class: "slash" }, "/"), h("a", { href: "#/", class: "crumb" }, "jobs"),
      h("span", { class: "slash" }, "/"), h("strong", null, job)] : []));
  for (const key of Object.keys(pieces.set)) delete pieces.set[key];
  close = open(job, pieces, changed);
  scrollTo(0, 0);
}

function problem() {
  const box = document.getElementById("problem");
  const text = !pieces.live ? "the server does not answer; what you see is old, training goes on"
    : pieces.problem ? `the store cannot be read: ${pieces.problem}; what you see is old, training goes on` : "";
  box.hidden = !text;
  if (box.textContent !== text) box.textContent = text;
}

function health() {
  const v = pieces.set["health"];
  const box = document.getElementById("health");
  const dot = h("span", { class: "dot " + (pieces.live && !pieces.problem ? "good" : "bad") });
  if (!v) return box.replaceChildren(dot, pieces.live ? "live" : "connecting");
  const members = v.members.length > 1
    ? [h("span", { class: "quiet" }, " · "), ...v.members.map((m) =>
      h("span", { class: "member" + (m.down ? " down" : ""), title: m.down ? "does not answer" : m.leader ? "leader" : "follower" },
        (m.leader ? "★ " : "") + m.name))] : [];
  box.replaceChildren(dot, `${v.kind} `, h("span", { class: "quiet" }, v.name), ...members,
    ...v.warnings.map((w) => h("span", { class: "chip warn" }, w)));
}

function changed(keys) {
  problem();
  if (!drawn || keys.includes("health") || !pieces.live) health();
  if (!pieces.live) return;
  if (!job) {
    if (!drawn || keys.some((k) => k.startsWith("jobs/"))) main.replaceChildren(jobsTable(pieces.set, now()));
    drawn = true;
    return;
  }
  const own = `job/${job}/`;
  if (!pieces.set[own + "status"]) {
    if (pieces.set["health"] || Object.keys(pieces.set).length > 0)
      main.replaceChildren(h("p", { class: "quiet loading" }, `there is no job ${job} on this server`,
        h("br"), h("a", { href: "#/" }, "all jobs")));
    drawn = false;
    return;
  }
  if (!drawn) main.replaceChildren(view.root);
  const names = keys.filter((k) => k.startsWith(own)).map((k) => k.slice(own.length));
  const part = (name) => pieces.set[own + name];
  view.draw(drawn ? names : null, part, pieces.set[`jobs/${job}`]);
  drawn = true;
}

addEventListener("hashchange", route);
addEventListener("keydown", (e) => {
  if (e.target.closest && e.target.closest("input, textarea, select") || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "Escape" && view && !view.clear()) location.hash = "#/";
  if (view && (e.key === "ArrowLeft" || e.key === "ArrowRight")) {
    view.step(e.key === "ArrowLeft" ? -1 : 1);
    e.preventDefault();
  }
  if (!view && (e.key === "j" || e.key === "k")) {
    const rows = [...document.querySelectorAll("a.job")];
    const at = rows.indexOf(document.activeElement);
    rows[Math.max(0, Math.min(rows.length - 1, at + (e.key === "j" ? 1 : -1)))]?.focus();
  }
});
setInterval(() => { // ages go on without news
  if (!drawn || document.hidden) return;
  if (view) view.tick();
  else if (pieces.live) for (const cell of document.querySelectorAll("[data-at]")) cell.tick?.();
}, 1000);
route();
