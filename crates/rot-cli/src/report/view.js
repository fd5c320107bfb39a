// Lets the reader pick a test row and shows its prediction, its true labels and the mass that has to move.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("items").textContent);
  const view = document.getElementById("view");
  const select = view.querySelector("select");
  const wrong = view.querySelector("input");
  const says = view.querySelector(".says");
  const svg = view.querySelector("svg");
  const flows = view.querySelector(".flows ul");
  // Unicode isolates keep right-to-left names from reordering the numbers next to them.
  const name = (label) => `\u2068${data.labels[label]}\u2069`;
  const short = (label, most) => {
    const letters = [...data.labels[label]];
    return letters.length > most ? `\u2068${letters.slice(0, most - 1).join("")}…\u2069` : name(label);
  };
  const right = (item) => item.truth.includes(item.best);

  function fill() {
    const kept = data.items.filter((item) => !wrong.checked || !right(item));
    select.replaceChildren(...kept.map((item) => {
      const option = document.createElement("option");
      const truth = item.truth.slice(0, 3).map(name).join(", ") + (item.truth.length > 3 ? ", …" : "");
      option.value = String(data.items.indexOf(item));
      option.textContent = `row ${item.row}: ${truth} – predicted ${name(item.best)}`;
      return option;
    }));
    show();
  }

  function element(kind, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Stacks bars whose height is their mass; ribbons attach to them in order.
  function stack(labels, x, scale, gap) {
    const bars = new Map();
    let y = 8;
    for (const [label, mass] of labels) {
      const height = Math.max(mass * scale, 3);
      bars.set(label, { x, y, height, mass, used: 0 });
      y += Math.max(height, 14) + gap;
    }
    return [bars, y];
  }

  function draw(item) {
    const sum = (side) => {
      const masses = new Map();
      for (const flow of item.flows) masses.set(flow[side], (masses.get(flow[side]) || 0) + flow[2]);
      return [...masses].sort((a, b) => b[1] - a[1]);
    };
    // As wide as there is room, so that the letters are as large as those of the page.
    const width = Math.min(900, Math.max(320, svg.getBoundingClientRect().width || 720)), scale = 260, gap = 6;
    const side = Math.min(210, 0.36 * width), letters = Math.floor(side / 8);
    const [from, low] = stack(sum(0), side, scale, gap);
    const [to, high] = stack(sum(1), width - side - 16, scale, gap);
    svg.setAttribute("viewBox", `0 0 ${width} ${Math.max(low, high, 60)}`);
    const parts = [];
    for (const [source, target, mass] of item.flows) {
      const [a, b] = [from.get(source), to.get(target)];
      const thick = Math.max(mass * scale, 1);
      const [y0, y1] = [a.y + a.used * scale + thick / 2, b.y + b.used * scale + thick / 2];
      a.used += mass;
      b.used += mass;
      const middle = (a.x + b.x) / 2;
      const path = element("path", {
        d: `M${a.x + 16},${y0} C${middle},${y0} ${middle},${y1} ${b.x},${y1}`,
        fill: "none", "stroke-width": thick, "stroke-opacity": 0.55,
        stroke: source === target ? "#009e73" : "#d55e00",
      });
      path.append(element("title", {}, `${name(source)} → ${name(target)}: ${mass.toFixed(3)}`));
      parts.push(path);
    }
    for (const [bars, anchor, shift, paint] of [[from, "end", -8, "#0072b2"], [to, "start", 24, "#009e73"]]) {
      for (const [label, bar] of bars) {
        parts.push(element("rect", { x: bar.x, y: bar.y, width: 16, height: bar.height, fill: paint }));
        const text = element("text", { x: bar.x + shift, y: bar.y + Math.max(bar.height, 14) / 2 + 4, "text-anchor": anchor }, short(label, letters - 6));
        text.append(element("tspan", { class: "share" }, ` ${bar.mass.toFixed(3)}`));
        parts.push(text);
      }
    }
    svg.replaceChildren(...parts);
  }

  function show() {
    const item = data.items[Number(select.value)];
    if (!item || select.value === "") {
      svg.replaceChildren();
      says.textContent = "No rows to show.";
      return;
    }
    const small = item.small > 0.0005 ? ` Not drawn: ${(100 * item.small).toFixed(1)} % in flows smaller than 0.003.` : "";
    says.textContent = `Row ${item.row}. True: ${item.truth.map(name).join(", ")}. ${(100 * item.stays).toFixed(1)} % of the mass is where it `
      + `should be; moving the rest costs ${item.cost.toFixed(4)}.${small}`;
    draw(item);
    flows.replaceChildren(...item.flows.map(([source, target, mass]) => {
      const line = document.createElement("li");
      line.textContent = `${name(source)} to ${name(target)}: ${mass.toFixed(3)}`;
      return line;
    }));
  }

  const step = (by) => {
    const count = select.options.length;
    if (count > 0) select.selectedIndex = (select.selectedIndex + by + count) % count;
    show();
  };
  view.querySelector(".back").addEventListener("click", () => step(-1));
  view.querySelector(".on").addEventListener("click", () => step(1));
  select.addEventListener("change", show);
  wrong.addEventListener("change", fill);
  addEventListener("resize", show);
  fill();
  // The mistake that costs most comes first.
  const mistakes = data.items.filter((item) => !right(item));
  if (mistakes.length > 0) {
    const worst = mistakes.reduce((one, other) => (other.cost > one.cost ? other : one));
    select.value = String(data.items.indexOf(worst));
    show();
  }
})();
