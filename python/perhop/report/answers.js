// Charts that answer: values under the pointer, zoom, lines and points on and off, and phone width.
// The page is complete without it.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const charts = [];

  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "line", "path", "rect", "clipPath", "text"].includes(tag);
    const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const shift = (element) =>
    (/translate\(([-\d.e]+)[ ,]([-\d.e]+)/.exec(element.getAttribute("transform")) ?? [0, 0, 0])
      .slice(1).map(Number);

  // The points of a path of lines, as [x, y, whether the pen was up]; null for curves.
  function points(path) {
    const drawn = path.getAttribute("d") ?? "";
    if (/[^MLHV\d.,e\s-]/.test(drawn)) return null;
    let [x, y] = [0, 0];
    return [...drawn.matchAll(/([MLHV])([^MLHV]*)/g)].map(([, command, rest]) => {
      const values = rest.split(",").map(Number);
      if (command === "V") [y] = values;
      else if (command === "H") [x] = values;
      else [x, y] = values;
      return [x, y, command === "M"];
    });
  }

  // A number in the words of a chart: three or four digits.
  const shown = (value) =>
    value === 0 ? "0" : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en")
      : String(Number(value.toPrecision(3)));

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.scales = JSON.parse(figure.dataset.chart);
      this.svg = figure.querySelector("svg");
      const root = this.svg.querySelector(".root");
      [this.left, this.top] = shift(root.parentNode);
      const box = this.svg.viewBox.baseVal;
      this.right = box.width - this.left - this.scales.width;
      this.legend = root.querySelector(".role-legend");
      this.height = box.height - (this.legend ? this.legend.getBBox().height + 16 : 0);
      this.width = this.scales.width;
      this.range = [0, 1];
      this.off = new Set();
      this.axis = root.querySelector('.role-axis[data-label^="X-axis"]');
      this.axes = [...root.querySelectorAll(".role-axis")].map((axis) => axis.parentNode);
      this.plot = root.querySelector("g");
      this.read(root);
      this.surface();
      if (this.legend) this.buttons();
      new ResizeObserver(() => this.lay()).observe(figure);
    }

    read(root) {
      this.moved = [];
      this.spots = [];
      this.lines = new Map(this.scales.lines.map(([name]) => [name, []]));
      const named = new Map();
      for (const element of root.querySelectorAll(".role-mark > :is(path, line, text)")) {
        const kind = element.parentNode.classList[0];
        const label = element.dataset.label ?? "";
        const name = kind === "mark-text" ? element.textContent
          : label.includes("flow: ") ? label.slice(label.lastIndexOf("flow: ") + 6) : null;
        if (name !== null && this.lines.has(name)) {
          named.set(name, [...(named.get(name) ?? []), element]);
        }
        const drawn = kind === "mark-line" ? points(element) : null;
        if (drawn) {
          this.moved.push({ element, drawn });
          this.lines.get(name)?.push(...drawn);
        } else {
          const [x, y] = shift(element);
          // Upright words are moved, turned and moved again.
          const turned = /\) ?(rotate.*)/.exec(element.getAttribute("transform") ?? "")?.[1] ?? "";
          this.moved.push({ element, x, y, across: Number(element.getAttribute("x2") ?? 0),
            turned, word: kind === "mark-text" });
          if (this.scales.points && kind === "mark-symbol") this.spots.push({ name, label, x, y });
        }
      }
      this.named = named;
      for (const line of root.querySelectorAll(".role-axis-grid line, .role-axis-domain line")) {
        if (Number(line.getAttribute("x2")) > 0) line.dataset.full = "";
      }
    }

    surface() {
      const id = `clip-${this.figure.id}`;
      this.clip = make("rect", { x: 0, y: -2, height: this.scales.height + 4 });
      this.svg.prepend(make("clipPath", { id }, this.clip));
      for (const group of this.plot.querySelectorAll(".mark-line.role-mark, .mark-rule.role-mark")) {
        group.setAttribute("clip-path", `url(#${id})`);
      }
      this.cross = make("line", { class: "cross", y1: 0, y2: this.scales.height, visibility: "hidden" });
      this.band = make("rect", { class: "band", y: 0, height: this.scales.height, visibility: "hidden" });
      this.face = make("rect", { class: "face", y: 0, x: 0, height: this.scales.height });
      this.plot.append(this.band, this.cross, this.face);
      this.tip = make("div", { class: "tip", hidden: "" });
      this.figure.append(this.tip);
      const at = (event) => {
        const seen = this.face.getBoundingClientRect();
        return Math.min(1, Math.max(0, (event.clientX - seen.left) / seen.width));
      };
      this.face.addEventListener("pointerdown", (event) => {
        this.start = at(event);
        this.face.setPointerCapture(event.pointerId);
      });
      this.face.addEventListener("pointermove", (event) => {
        if (this.start !== undefined) this.select(this.start, at(event));
        this.show(at(event), event);
      });
      this.face.addEventListener("pointerup", (event) => {
        const [low, high] = [this.start, at(event)].sort((a, b) => a - b);
        this.start = undefined;
        this.band.setAttribute("visibility", "hidden");
        if (high - low > 0.01) {
          this.zoom(low, high);
          this.show(at(event), event);
        }
      });
      this.face.addEventListener("pointerleave", () => this.hide());
      this.face.addEventListener("dblclick", () => this.zoom());
    }

    select(from, to) {
      this.band.setAttribute("x", Math.min(from, to) * this.width);
      this.band.setAttribute("width", Math.abs(to - from) * this.width);
      this.band.setAttribute("visibility", "visible");
    }

    // Show a part of what is seen, or everything; charts over time follow each other.
    zoom(low, high) {
      const [a, b] = this.range;
      const range = low === undefined ? [0, 1] : [a + low * (b - a), a + high * (b - a)];
      if (range[1] - range[0] < 1e-5) return;
      this.hide();
      for (const chart of this.scales.time ? charts : [this]) {
        if (chart !== this && !chart.scales.time) continue;
        chart.range = range;
        chart.lay(true);
      }
    }

    // Half or double the part of the axis that is seen, about its middle, or move it.
    step(factor, move = 0) {
      const [a, b] = this.range;
      const size = Math.min(1, (b - a) * factor);
      const low = Math.min(1 - size, Math.max(0, (a + b - size) / 2 + move * (b - a)));
      this.range = [0, 1];
      this.zoom(low, low + size);
    }

    buttons() {
      this.legend.remove();
      const list = make("ul", { class: "legend" });
      const symbols = this.legend.querySelectorAll(".role-legend-symbol path");
      for (const [number, [name, colour, dash]] of this.scales.lines.entries()) {
        const stroke = { x1: 0, y1: 6, x2: 34, y2: 6, stroke: colour, "stroke-width": 3 };
        if (dash[1]) stroke["stroke-dasharray"] = dash.join(" ");
        const mark = this.scales.points ? symbols[number] : make("line", stroke);
        if (this.scales.points) {
          mark.setAttribute("transform", "translate(17,6)");
          if (!mark.getAttribute("fill")) mark.setAttribute("fill", "none");
        }
        const swatch = make("svg", { width: 34, height: 12, "aria-hidden": "true" }, mark);
        const button = make("button", { type: "button", "aria-pressed": "true" }, swatch, name);
        button.addEventListener("click", () => {
          const hidden = !this.off.delete(name);
          if (hidden) this.off.add(name);
          button.setAttribute("aria-pressed", String(!hidden));
          this.lay(true);
        });
        list.append(make("li", {}, button));
      }
      const tools = make("div", { class: "tools", role: "group", "aria-label": "Zoom" });
      const kinds = [["\u2212", "Zoom out", () => this.step(2)], ["+", "Zoom in", () => this.step(0.5)],
        ["\u25c2", "Move left", () => this.step(1, -0.25)],
        ["\u25b8", "Move right", () => this.step(1, 0.25)], ["All", "Show all", () => this.zoom()]];
      for (const [sign, label, act] of kinds) {
        const button = make("button", { type: "button", "aria-label": label, title: label }, sign);
        button.addEventListener("click", act);
        tools.append(button);
      }
      this.figure.append(make("div", { class: "under" }, list, tools));
    }

    // The value of the horizontal axis at a share of the whole axis.
    value(axis, part) {
      const { domain: [low, high], log, factor } = this.scales[axis];
      return factor * (log ? low * (high / low) ** part : low + part * (high - low));
    }

    show(part, event) {
      const [a, b] = this.range;
      if (this.scales.points) return this.show_point(part, event);
      const u = a + part * (b - a);
      const x = u * this.scales.width;
      const rows = this.scales.lines.filter(([name]) => !this.off.has(name)).map(([name, colour]) => {
        const y = this.height_at(this.lines.get(name), x);
        if (y === null) return null;
        const value = shown(this.value("y", 1 - y / this.scales.height));
        return make("div", {}, make("i", { style: `background:${colour}` }), `${name} `,
          make("b", {}, `${value}\u00a0${this.scales.y.unit}`));
      });
      const { name, unit } = this.scales.x;
      this.tip.replaceChildren(make("div", {}, `${name} ${shown(this.value("x", u))} ${unit}`),
        ...rows.filter(Boolean));
      this.place(event);
      for (const chart of charts) {
        if (chart !== this && !(chart.scales.time && this.scales.time)) continue;
        chart.cross.setAttribute("transform", `translate(${part * chart.width},0)`);
        chart.cross.setAttribute("visibility", "visible");
      }
    }

    // The values of the point that is nearest to the pointer, if one is near.
    show_point(part, event) {
      const [a, b] = this.range;
      const seen = this.face.getBoundingClientRect();
      const y = ((event.clientY - seen.top) / seen.height) * this.scales.height;
      const away = (spot) =>
        Math.hypot(((spot.x / this.scales.width - a) / (b - a) - part) * this.width, spot.y - y);
      const near = this.spots.filter(({ name }) => !this.off.has(name))
        .reduce((best, spot) => (best && away(best) <= away(spot) ? best : spot), null);
      if (!near || away(near) > 40) return this.hide();
      this.tip.replaceChildren(...near.label.split("; ").map((each) => make("div", {}, each)));
      this.place(event);
      const at = ((near.x / this.scales.width - a) / (b - a)) * this.width;
      this.cross.setAttribute("transform", `translate(${at},0)`);
      this.cross.setAttribute("visibility", "visible");
    }

    // Put the values beside the pointer.
    place(event) {
      this.tip.hidden = false;
      const frame = this.figure.getBoundingClientRect();
      const at = event.clientX - frame.left;
      const beside = at + 16 + this.tip.offsetWidth > frame.width;
      this.tip.style.left = `${Math.max(0, beside ? at - 16 - this.tip.offsetWidth : at + 16)}px`;
      this.tip.style.top = `${event.clientY - frame.top + 12}px`;
    }

    hide() {
      this.tip.hidden = true;
      for (const chart of charts) chart.cross.setAttribute("visibility", "hidden");
    }

    // The height of a line at x in the drawing's pixels; null where there is none.
    height_at(drawn, x) {
      for (let i = drawn.length - 1; i >= 0; i--) {
        if (drawn[i][0] > x) continue;
        const next = drawn[i + 1];
        if (!next || next[2]) return drawn[i][0] === x ? drawn[i][1] : null;
        if (this.scales.step) return drawn[i][1];
        const part = (x - drawn[i][0]) / (next[0] - drawn[i][0] || 1);
        return drawn[i][1] + part * (next[1] - drawn[i][1]);
      }
      return null;
    }

    // Draw everything at the width of the page and the part of the axis that is seen.
    lay(again = false) {
      const room = this.figure.clientWidth - this.left - this.right;
      const width = Math.max(180, Math.min(this.scales.width, room));
      if (width === this.width && !again && this.drawn) return;
      this.drawn = true;
      this.width = width;
      const [a, b] = this.range;
      const map = (x) => ((x / this.scales.width - a) / (b - a)) * width;
      const crowded = width < 0.75 * this.scales.width;
      for (const { element, drawn, x, y, across, turned, word } of this.moved) {
        if (drawn) {
          element.setAttribute("d", drawn.map(([px, py, up]) =>
            `${up ? "M" : "L"}${map(px).toFixed(1)},${py}`).join(""));
          element.style.display = "";
        } else {
          const to = map(x);
          element.setAttribute("transform", `translate(${to.toFixed(1)},${y})${turned}`);
          if (across) element.setAttribute("x2", (map(x + across) - to).toFixed(1));
          const out = !across && (to < -1 || to > width + 1);
          element.style.display = out || (word && crowded) ? "none" : "";
        }
      }
      for (const [name, elements] of this.named) {
        if (this.off.has(name)) for (const element of elements) element.style.display = "none";
      }
      for (const line of this.plot.querySelectorAll("[data-full]")) line.setAttribute("x2", width);
      for (const part of [this.clip, this.face]) part.setAttribute("width", width);
      this.ticks(width);
      const across = this.left + width + this.right;
      this.svg.setAttribute("viewBox", `0 0 ${across} ${this.height}`);
      this.svg.setAttribute("width", across);
      this.svg.setAttribute("height", this.height);
      this.figure.dataset.drawn = "yes";
    }

    ticks(width) {
      const [a, b] = this.range;
      const { domain: [low, high], log } = this.scales.x;
      const [from, to] = [this.value("x", a), this.value("x", b)];
      const factor = this.scales.x.factor;
      const marks = [];
      if (log && to / from > 20) {
        for (let e = Math.floor(Math.log10(from)); e <= Math.log10(to); e++) {
          for (const m of to / from > 1e4 || width < 500 ? [1] : [1, 2, 5]) marks.push(Number(`${m}e${e}`));
        }
      } else {
        const rough = (to - from) / Math.max(2, Math.floor(width / 72));
        const power = 10 ** Math.floor(Math.log10(rough));
        const least = this.scales.x.whole ? 1 : 0;
        const step = Math.max(least, power * [1, 2, 5, 10].find((m) => m * power >= rough));
        for (let i = Math.ceil(from / step - 1e-9); i * step <= to * (1 + 1e-9); i++) {
          marks.push(Number((i * step).toPrecision(12)));
        }
      }
      const part = (value) => (log ? Math.log(value / factor / low) / Math.log(high / low)
        : (value / factor - low) / (high - low));
      const [lines, words] = [".role-axis-tick", ".role-axis-label"].map((c) => this.axis.querySelector(c));
      const [line, word] = [lines.firstElementChild, words.firstElementChild];
      if (!line || !word) return;
      const inside = marks.filter((mark) => mark >= from * (1 - 1e-9) && mark <= to * (1 + 1e-9));
      const move = (mark) => ((part(mark) - a) / (b - a)) * width;
      lines.replaceChildren(...inside.map((mark) => {
        const copy = line.cloneNode();
        copy.setAttribute("transform", `translate(${move(mark).toFixed(1)},0)`);
        return copy;
      }));
      words.replaceChildren(...inside.map((mark) => {
        const copy = word.cloneNode();
        copy.setAttribute("transform", `translate(${move(mark).toFixed(1)},${shift(word)[1]})`);
        copy.textContent = mark.toLocaleString("en", { maximumSignificantDigits: 12 })
          + (this.scales.x.unit === "%" ? "%" : "");
        return copy;
      }));
      const title = this.axis.querySelector(".role-axis-title text");
      title?.setAttribute("transform", `translate(${width / 2},${shift(title)[1]})`);
    }
  }

  // What marks say, or nodes and links of a network, to the pointer and to the left and right keys.
  function told(box) {
    const said = new Map();
    for (const title of box.querySelectorAll("svg title")) {
      said.set(title.parentNode, title.textContent);
      title.remove();
    }
    const labelled = box.querySelectorAll(".role-mark > path[data-label]");
    for (const mark of labelled) said.set(mark, mark.dataset.label);
    const marks = [...said.keys()];
    const nodes = marks.filter((mark) => mark.matches("circle, [d$=z]"));
    const order = [...nodes, ...marks.filter((mark) => !nodes.includes(mark))];
    const tip = make("div", { class: "tip", role: "status", hidden: "" });
    box.parentNode.append(tip);
    let at = null;
    const say = (mark) => {
      at?.classList.remove("near");
      at = mark;
      tip.hidden = mark === null;
      if (mark === null) return;
      mark.classList.add("near");
      tip.replaceChildren(...said.get(mark).split("; ").map((each) => make("div", {}, each)));
      const [frame, seen] = [box.parentNode, mark].map((each) => each.getBoundingClientRect());
      const left = (seen.left + seen.right) / 2 - frame.left - tip.offsetWidth / 2;
      tip.style.left = `${Math.max(0, Math.min(frame.width - tip.offsetWidth, left))}px`;
      tip.style.top = `${(seen.top + seen.bottom) / 2 - frame.top + 12}px`;
    };
    box.addEventListener("pointerover", ({ target }) => say(said.has(target) ? target : null));
    for (const gone of ["pointerleave", "blur"]) box.addEventListener(gone, () => say(null));
    box.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") say(null);
      if (!step || !order.length) return;
      event.preventDefault();
      const next = at === null && step < 0 ? 0 : order.indexOf(at) + step;
      const mark = order[(next + order.length) % order.length];
      mark.scrollIntoView({ block: "nearest", inline: "nearest" });
      say(mark);
    });
  }

  for (const box of document.querySelectorAll("figure:not([data-chart]) .drawing")) told(box);
  for (const figure of document.querySelectorAll("figure[data-chart]")) charts.push(new Chart(figure));
})();
