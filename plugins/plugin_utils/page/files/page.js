"use strict";
// Draws the charts of a page with uPlot. All text reaches the page as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const drawn = [];
  const make = (tag, kind, text) => {
    const node = document.createElement(tag);
    if (kind) node.className = kind;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const palette = (index) => color(`--c${index % 8}`);
  const short = (value) => (value == null ? "-" : Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2) : String(+value.toPrecision(5)));
  const digits = (value) => String(+value.toPrecision(4));
  const seconds = (value) => (value < 1 ? `${digits(value * 1000)} ms` : value < 120 ? `${digits(value)} s` : value < 7200 ? `${(value / 60).toFixed(1)} min` : `${(value / 3600).toFixed(1)} h`);
  const named = (launch) => `${launch.name}/${launch.key.slice(0, 8)}/${launch.generation}`;

  // A chart that is drawn again when the theme or the width changes.
  const chart = (box, options, title) => {
    const place = make("div");
    box.append(place);
    if (title) { place.setAttribute("role", "img"); place.setAttribute("aria-label", `${title}; the same numbers are in the table below`); }
    const entry = { place, options, plot: null };
    entry.draw = () => {
      if (entry.plot) entry.plot.destroy();
      const made = entry.options();
      entry.plot = made && new uPlot({ width: Math.max(220, place.clientWidth), height: 300, ...made.options }, made.data, place);
    };
    entry.draw();
    drawn.push(entry);
    if (title) behind(box, entry);
    return entry;
  };
  // The numbers of a chart as a table, which is made when somebody opens it, and again with the chart.
  const behind = (box, entry) => {
    const details = make("details"), place = make("div");
    details.append(make("summary", "", "As a table"), place);
    box.append(details);
    const fill = () => {
      place.replaceChildren();
      if (!details.open || !entry.plot) return;
      const { series, data: columns } = entry.plot, text = (value) => (value == null ? "" : short(value));
      table(place, series.map((one) => one.label), columns[0].map((x, i) => columns.map((column, n) => (n || !series[0].time ? text(column[i]) : new Date(x * 1000).toISOString()))));
    };
    const draw = entry.draw;
    entry.draw = () => { draw(); fill(); };
    details.addEventListener("toggle", fill);
  };
  const axis = (more) => ({ stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") }, ...more });
  const values = (_plot, ticks) => ticks.map((tick) => (tick == null ? "" : short(tick)));
  const select = (options, label) => {
    const node = make("select");
    node.setAttribute("aria-label", label);
    options.forEach(([value, text]) => { const option = make("option", "", text); option.value = value; node.append(option); });
    return node;
  };

  // Attempts are lines of their own: the steps after a restart begin again at the checkpoint.
  const lines = (launch, name, by) => {
    const series = launch.metrics[name];
    if (!series) return [];
    const first = series.times.find((time) => time != null);
    return [...new Set(series.attempts)].map((attempt) => {
      const points = new Map();
      series.steps.forEach((step, i) => {
        if (series.attempts[i] !== attempt) return;
        const x = by === "step" ? step : series.times[i] == null ? null : by === "time" ? series.times[i] : series.times[i] - first;
        if (x != null) points.set(x, [series.values[i], series.low[i] ?? null, series.high[i] ?? null]);
      });
      const xs = [...points.keys()].sort((a, b) => a - b);
      return { attempt, banded: series.low.length > 0, table: [xs, ...[0, 1, 2].map((n) => xs.map((x) => points.get(x)[n]))] };
    }).filter((line) => line.table[0].length);
  };

  const metrics = (box) => {
    const names = [...new Set(data.launches.flatMap((launch) => Object.keys(launch.metrics)))];
    if (!names.length) { box.append(make("p", "none", "The logs show no steps in a known format.")); return; }
    const many = data.launches.length > 1;
    const name = select(names.map((one) => [one, one]), "Metric");
    const by = select([["step", "over steps"], [many ? "elapsed" : "time", "over time"]], "Axis");
    const log = make("input");
    log.type = "checkbox";
    const label = make("label", "", " logarithmic");
    label.prepend(log);
    const controls = make("div", "controls");
    controls.append(name, by, label);
    box.append(controls);
    const entry = chart(box, () => {
      const shown = data.launches.flatMap((launch, index) => lines(launch, name.value, by.value).map((line) => ({ ...line, launch, index })));
      if (!shown.length) return null;
      const series = [{ label: by.value === "step" ? "step" : by.value === "time" ? "time" : "seconds" }];
      const bands = [];
      shown.forEach((line) => {
        const stroke = palette(many ? line.index : line.attempt);
        const text = many ? named(line.launch) + (line.attempt ? ` attempt ${line.attempt + 1}` : "") : `attempt ${line.attempt + 1}`;
        const value = (_plot, number) => short(number);
        // A restart is marked where its first step is.
        const first = (plot, i) => [plot.data[i].findIndex((number) => number != null)];
        const points = line.table[0].length < 3 ? { show: true } : line.attempt ? { show: true, size: 9, filter: first } : { show: false };
        series.push({ label: text, stroke, width: 1.5, value, spanGaps: true, points, dash: many && line.attempt ? [4, 4] : undefined });
        if (line.banded) {
          const edge = { stroke: "transparent", width: 0, value, spanGaps: true, points: { show: false } };
          series.push({ ...edge, label: "lowest" }, { ...edge, label: "highest" });
          bands.push({ series: [series.length - 1, series.length - 2], fill: `${stroke}33` });
        }
      });
      const tables = shown.map((line) => (line.banded ? line.table : line.table.slice(0, 2)));
      const modes = tables.map((table) => table.map(() => 1));
      const unit = log.checked ? `${name.value}, logarithmic` : name.value;
      box.querySelector("[role=img]").dataset.axis = unit;
      const options = {
        series, bands, scales: { x: { time: by.value === "time" }, y: log.checked ? { distr: 3 } : {} },
        axes: [axis(by.value === "time" ? {} : { values }), axis({ values, size: 70, label: unit })], legend: { live: true },
      };
      const joined = uPlot.join(tables, modes);
      if (log.checked) for (let i = 1; i < joined.length; i++) joined[i] = joined[i].map((value) => (value > 0 ? value : null));
      return { options, data: joined };
    }, "Metrics");
    [name, by, log].forEach((control) => control.addEventListener("change", () => entry.draw()));
  };

  const ranks = (box) => {
    const kinds = [["seconds", "seconds of a step"], ["throughput", "tokens per second"]].filter(([kind]) => data.launches[0].ranks.some((rank) => rank[kind].length));
    if (!kinds.length) { box.append(make("p", "none", "The logs show no times of steps.")); return; }
    const titles = ["5 %", "25 %", "median", "75 %", "95 %", "highest"];
    const shown = select(kinds, "Quantity"), controls = make("div", "controls");
    controls.append(shown, make("span", "axis", "over ranks: quantiles of each rank's steps"));
    box.append(controls);
    const entry = chart(box, () => {
      const kind = shown.value, text = kind === "seconds" ? seconds : short;
      const rows = data.launches[0].ranks.filter((rank) => rank[kind].length);
      return {
        options: {
          scales: { x: { time: false, range: rows.length === 1 ? [rows[0].rank - 1, rows[0].rank + 1] : undefined } },
          series: [{ label: "rank" }, ...titles.map((label, i) => ({ label, stroke: palette(i), width: i === 2 ? 2.5 : 1, show: i !== 5, points: { show: rows.length < 25 }, value: (_plot, v) => (v == null ? "-" : text(v)) }))],
          axes: [axis({ values, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }), axis({ size: 70, values: (_plot, ticks) => ticks.map(text) })],
        },
        data: [rows.map((rank) => rank.rank), ...titles.map((_title, i) => rows.map((rank) => rank[kind][i]))],
      };
    }, "Steps by rank");
    shown.addEventListener("change", () => entry.draw());
  };

  const table = (box, heads, rows) => {
    const node = make("table"), head = make("thead"), body = make("tbody"), line = make("tr");
    heads.forEach((text) => line.append(make("th", "", text)));
    head.append(line);
    rows.forEach((cells) => { const row = make("tr"); cells.forEach((text) => row.append(make("td", "", text))); body.append(row); });
    node.append(head, body);
    box.append(node);
  };
  const stragglers = (box) => {
    const rows = data.launches[0].ranks.filter((rank) => rank.seconds.length);
    if (rows.length < 2) return;
    const medians = rows.map((rank) => rank.seconds[2]).sort((a, b) => a - b);
    const usual = medians[Math.floor(medians.length / 2)];
    const slowest = [...rows].sort((a, b) => b.seconds[2] - a.seconds[2]).slice(0, 8);
    box.append(make("h3", "", "Slowest ranks"));
    const rates = rows.some((rank) => rank.throughput.length);
    table(box, ["rank", "median step", "against the median rank", "95 %", ...(rates ? ["median tokens/s"] : []), "last step"], slowest.map((rank) => [
      rank.rank, seconds(rank.seconds[2]), `${(rank.seconds[2] / usual).toFixed(2)} x`, seconds(rank.seconds[4]), ...(rates ? [short(rank.throughput[2])] : []), rank.last,
    ]));
  };

  const KINDS = {
    queued: 7, preflight: 4, staging: 1, "set-up": 6, "waits for roles": 7, "start-up": 4, training: 2, checkpoints: 0, lost: 1, stalled: 5, runs: 0,
    "after the last step": 3, "after the artifact": 3, waits: 7,
  };
  // A row for each kind of phase, and one for each kind of mark, over the same time.
  const timeline = (box) => {
    const { timeline: phases, marks } = data.launches[0];
    const began = phases[0].began, length = Math.max(1e-6, phases[phases.length - 1].ended - began);
    const grid = make("div", "bars");
    const share = (time) => `${(100 * time) / length}%`;
    const row = (kind, parts, last, fill) => {
      const track = make("div", "track");
      parts.forEach((part) => {
        const bar = make("i");
        bar.title = kind + (part.attempt == null ? "" : `, attempt ${part.attempt + 1}`);
        fill(bar, part);
        track.append(bar);
      });
      grid.append(make("span", "", kind), track, make("span", "soft last", last));
    };
    Object.keys(KINDS).forEach((kind) => {
      const parts = phases.filter((phase) => phase.kind === kind);
      const total = parts.reduce((sum, phase) => sum + phase.ended - phase.began, 0);
      if (parts.length) row(kind, parts, seconds(total) + (parts.length > 1 ? ` in ${parts.length}` : ""), (bar, phase) => {
        bar.style.left = share(phase.began - began);
        bar.style.width = share(phase.ended - phase.began);
        bar.style.background = `var(--c${KINDS[kind]})`;
        bar.title += `: ${seconds(phase.ended - phase.began)}`;
      });
    });
    [...new Set(marks.map((mark) => mark.kind))].forEach((kind) => {
      const parts = marks.filter((mark) => mark.kind === kind);
      row(kind, parts, parts.length > 1 ? `${parts.length} times` : seconds(parts[0].at - began), (bar, mark) => {
        bar.className = "mark";
        bar.style.left = share(mark.at - began);
        bar.title += `: after ${seconds(mark.at - began)}${mark.text ? `, ${mark.text}` : ""}`;
      });
    });
    box.append(grid);
  };

  const heat = (box) => {
    data.launches[0].heat_maps.forEach((map) => {
      const all = map.rows.flatMap((row) => row.values.filter((value) => value != null));
      const most = map.kind === "power" || map.kind === "gpu_memory" ? Math.max(1e-9, ...all) : 100;
      box.append(make("h3", "", map.title));
      const grid = make("div", "heat");
      map.rows.forEach((row) => {
        const cells = make("div", "cells");
        row.values.forEach((value, i) => {
          const cell = make("i");
          if (value != null) {
            cell.style.background = `rgba(var(--heat), ${(0.08 + 0.92 * Math.min(1, value / most)).toFixed(3)})`;
            cell.title = `${row.node}, ${seconds(((map.ended - map.began) * i) / row.values.length)} after the start: ${short(value)}`;
          }
          cells.append(cell);
        });
        grid.append(make("span", "", row.node), cells);
      });
      const details = make("details"), known = (row) => row.values.filter((value) => value != null);
      details.append(make("summary", "", "As a table"));
      table(details, ["node", "mean", "highest"], map.rows.map((row) => [row.node, ...(known(row).length ? [known(row).reduce((sum, value) => sum + value, 0) / known(row).length, Math.max(...known(row))].map(short) : ["", ""])]));
      box.append(grid, details, make("p", "axis", `From 0 (light) to ${short(most)} (full colour), over ${seconds(map.ended - map.began)}`));
    });
  };

  const spark = (box) => {
    const launch = data.launches.find((one) => one.run_dir === box.dataset.run);
    const name = launch && (launch.metrics.loss ? "loss" : Object.keys(launch.metrics)[0]);
    const found = name ? lines(launch, name, "step") : [];
    if (!found.length) return;
    chart(box, () => ({
      options: {
        width: 120, height: 30, legend: { show: false }, cursor: { show: false }, padding: [2, 2, 2, 2], axes: [{ show: false }, { show: false }],
        scales: { x: { time: false } }, series: [{}, ...found.map((line) => ({ stroke: palette(line.attempt), width: 1.5, points: { show: false } }))],
      },
      data: uPlot.join(found.map((line) => line.table.slice(0, 2))),
    }));
  };

  const parallel = (box) => {
    const { elements, metric, best } = data.sweep;
    const names = [...new Set(elements.flatMap((row) => Object.keys(row.parameters)))];
    const columns = [...names.map((name) => [name, (row) => row.parameters[name]]), [metric || "metric", (row) => row.metric]];
    const ranges = [];
    const scaled = columns.map(([, read]) => {
      const raw = elements.map(read), numbers = raw.map(Number);
      const numeric = raw.every((value, i) => value == null || value === "" || Number.isFinite(numbers[i]));
      const distinct = [...new Set(raw.filter((value) => value != null).map(String))];
      // Values such as learning rates, which differ by orders of magnitude, are spread by their logarithms.
      const sized = raw.flatMap((value, i) => (value == null || value === "" ? [] : [numbers[i]]));
      const orders = numeric && sized.length && Math.min(...sized) > 0 && Math.max(...sized) >= 50 * Math.min(...sized);
      const at = raw.map((value, i) => (value == null || value === "" ? null : orders ? Math.log(numbers[i]) : numeric ? numbers[i] : distinct.indexOf(String(value))));
      const known = at.filter((value) => value != null), low = Math.min(...known), high = Math.max(...known);
      ranges.push(!known.length ? "" : numeric ? `${short(Math.min(...sized))} to ${short(Math.max(...sized))}${orders ? "\nlogarithmic" : ""}` : distinct.length < 4 ? distinct.join(", ").slice(0, 40) : `${distinct.length} values`);
      return at.map((value) => (value == null ? null : high > low ? (value - low) / (high - low) : 0.5));
    });
    chart(box, () => ({
      options: {
        legend: { show: elements.length <= 24 }, cursor: { drag: { x: false, y: false } },
        scales: { x: { time: false, range: [-0.2, columns.length - 0.8] }, y: { range: [-0.05, 1.05] } },
        axes: [axis({ splits: () => columns.map((_column, i) => i), size: 80, values: () => columns.map(([name], i) => `${name}\n${ranges[i]}`) }), axis({ size: 70, splits: () => [0, 1], values: () => ["lowest", "highest"] })],
        series: [{ label: "element", value: () => "" }, ...elements.map((row, i) => ({
          label: `${row.number}`, stroke: best && best.number === row.number ? color("--good") : palette(i), width: best && best.number === row.number ? 4 : 1, points: { show: true, size: 5 },
          value: (_plot, _value, _series, index) => (index == null ? "" : `${columns[index][0]} ${columns[index][1](row) ?? "-"}`),
        }))],
      },
      data: [columns.map((_column, i) => i), ...elements.map((_row, i) => scaled.map((column) => column[i]))],
    }));
  };

  const search = () => {
    const input = document.getElementById("search");
    if (!input) return;
    const rows = [...document.querySelectorAll("#index tbody tr")];
    const filter = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      rows.forEach((row) => { row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word)); count += row.hidden ? 0 : 1; });
      document.getElementById("count").textContent = `${count} of ${rows.length}`;
    };
    input.addEventListener("input", filter);
    filter();
  };
  const sortable = () => document.querySelectorAll("table.sortable").forEach((node) => {
    const heads = [...node.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const compare = new Intl.Collator("en", { numeric: true }).compare;
        const key = (row) => (row.cells[column].dataset.sort ?? row.cells[column].textContent.trim()).replace(/^-$/, "");
        const order = (a, b) => { const x = Number(key(a)), y = Number(key(b)); return Number.isFinite(x) && Number.isFinite(y) ? x - y : compare(key(a), key(b)); };
        // What has no value stays below.
        node.tBodies[0].append(...[...node.tBodies[0].rows].sort((a, b) => (!key(a) - !key(b)) || (up ? order(a, b) : order(b, a))));
      });
    });
  });

  const redraw = () => drawn.forEach((entry) => entry.draw());
  const theme = (name) => { root.dataset.theme = name; redraw(); };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  root.dataset.theme = dark.matches ? "dark" : "light";
  dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
  const charts = { metrics, ranks, stragglers, timeline, heat, spark, parallel };
  document.querySelectorAll("[data-chart]").forEach((box) => charts[box.dataset.chart](box));
  search();
  sortable();
  root.dataset.ready = "true";
})();
