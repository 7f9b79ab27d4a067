// How values are written. The words are those of the command line.

const pad = (n, width = 2) => String(n).padStart(width, "0");

// clock writes a time of the day; with milliseconds if precise.
export function clock(ms, precise) {
  const d = new Date(ms);
  const text = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  return precise ? `${text}.${pad(d.getMilliseconds(), 3)}` : text;
}

// moment writes a time with its day, if that is not today.
export function moment(ms, now, precise) {
  const d = new Date(ms), today = new Date(now);
  if (d.toDateString() === today.toDateString()) return clock(ms, precise);
  return `${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(ms, precise)}`;
}

// span writes a duration in at most two units.
export function span(ms) {
  const total = Math.max(0, ms / 1000);
  if (total < 10) return total.toFixed(1) + "s";
  if (total < 60) return Math.round(total) + "s";
  const t = Math.round(total), days = Math.floor(t / 86400), hours = Math.floor(t / 3600), minutes = Math.floor(t / 60);
  if (t < 3600) return `${minutes}m${pad(t % 60)}s`;
  if (t < 86400) return `${hours}h${pad(minutes % 60)}m`;
  return `${days}d${pad(hours % 24)}h`;
}

// age writes how long ago a time was.
export function age(ms, now) {
  if (!ms) return "–";
  const d = now - ms;
  return d < 1500 ? "now" : span(Math.floor(d / 1000) * 1000).replace(/\.0s$/, "s") + " ago";
}

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  for (; bytes >= 1024 && i < units.length - 1; i++) bytes /= 1024;
  return i === 0 ? `${bytes} B` : `${bytes.toFixed(1)} ${units[i]}`;
}

export const known = (v) => (v === null || v === undefined ? "–" : String(v));

export const whole = (n) => (n === null || n === undefined ? "–" : n.toLocaleString("en-US").replaceAll(",", " "));

export function figure(v) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  const a = Math.abs(v);
  if (a !== 0 && (a < 0.001 || a >= 1e6)) return v.toExponential(2);
  if (a >= 100) return v.toFixed(0);
  if (a >= 10) return v.toFixed(1);
  return v.toFixed(a < 1 ? 4 : 2);
}

export const percent = (share) => (share === null || share === undefined ? "–" : (100 * share).toFixed(share >= 0.9995 ? 0 : 1) + " %");

export const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : noun.endsWith("y") ? "" : "s"}`;

export const words = (code) => String(code).replaceAll("_", " ").replaceAll("-", " ");

// ranks writes numbers as spans: 0-3, 6.
export function ranks(all) {
  const parts = [];
  for (let i = 0; i < (all || []).length; i++) {
    let k = i;
    while (k + 1 < all.length && all[k + 1] === all[k] + 1) k++;
    parts.push(k > i ? `${all[i]}–${all[k]}` : `${all[i]}`);
    i = k;
  }
  return parts.join(", ");
}

// names writes the first names of a list.
export function names(all, most = 3) {
  if (all.length <= most) return all.join(", ");
  return `${all.slice(0, most - 1).join(", ")} … ${all[all.length - 1]} (${all.length})`;
}
