// Elements are made here. Text from jobs is only ever set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

// h makes an element of HTML.
export const h = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

// s makes an element of SVG.
export const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// copyBox shows a command, and a button that copies it.
export function copyBox(command) {
  const button = h("button", { type: "button", class: "copy", title: "copy", "aria-label": "copy " + command }, "copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.previousSibling);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  return h("span", { class: "command" }, h("code", null, command), button);
}

const tip = () => document.getElementById("tip");

// hover shows lines beside the pointer while it is over a node, and while the node has the focus.
export function hover(node, lines) {
  const show = (x, y) => {
    const box = tip();
    box.replaceChildren(...lines().filter(Boolean).map((line, i) => h("div", { class: i ? "" : "first" }, line)));
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    box.style.left = Math.max(8, Math.min(x + 14, innerWidth - width - 8)) + "px";
    box.style.top = (y + 18 + height > innerHeight ? Math.max(8, y - height - 12) : y + 18) + "px";
  };
  node.addEventListener("mousemove", (e) => show(e.clientX, e.clientY));
  node.addEventListener("focus", () => {
    const at = node.getBoundingClientRect();
    show(at.left, at.bottom - 14);
  });
  for (const over of ["mouseleave", "blur"]) node.addEventListener(over, hideTip);
  return node;
}

export function hideTip() { tip().hidden = true; }
