"use strict";
// The table of cells: filters, sorts and shows some at a time. What rows say enters the page as text alone.
(() => {
  const data = JSON.parse(document.getElementById("cell-data").textContent);
  const table = document.getElementById("cell-table");
  const body = table.tBodies[0];
  const width = data.labels.length + data.columns.length + 1;
  const open = new Set(); // rows whose notes are shown
  let order = data.rows.map((_, index) => index);
  let found = order;
  let first = 0;
  let printing = false;

  const label = (row, number) => data.labels[number].texts[row.l[number]];
  const collator = new Intl.Collator("en", { numeric: true });

  function matches(row, wanted, outcome, words) {
    if (outcome !== "" && row.o !== Number(outcome)) return false;
    if (wanted.some(([number, value]) => row.l[number] !== value)) return false;
    if (!words.length) return true;
    const texts = row.l.map((_, number) => label(row, number));
    const text = [...texts, data.outcomes[row.o], ...row.n.map((n) => data.notes[n])].join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  }

  function filter() {
    const selects = [...document.querySelectorAll("#filters select[data-label]")];
    const wanted = selects.filter((s) => s.value !== "").map((s) => [Number(s.dataset.label), Number(s.value)]);
    const outcome = document.querySelector("#filters select[data-outcome]")?.value ?? "";
    const words = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    found = order.filter((index) => matches(data.rows[index], wanted, outcome, words));
    first = 0;
    show();
  }

  // What a column sorts by; null, which stays last in both directions, where a cell has no number.
  function key(column) {
    const number = Number(column.slice(1));
    if (column[0] === "l") return (row) => label(row, number);
    if (column[0] === "o") return (row) => data.outcomes[row.o];
    return (row) => row.e[number]?.[0] ?? null;
  }

  function sort(button) {
    const head = button.closest("th");
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const of = key(button.dataset.sort);
    const keys = data.rows.map(of);
    const sign = down ? -1 : 1;
    order = data.rows.map((_, index) => index).sort((a, b) => {
      const [x, y] = [keys[a], keys[b]];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      const difference = typeof x === "string" ? collator.compare(x, y) : x - y;
      return sign * difference || a - b;
    });
    filter();
  }

  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function line(index) {
    const row = data.rows[index];
    const made = element("tr");
    row.l.forEach((_, number) => {
      const head = element("th", label(row, number));
      head.scope = "row";
      made.append(head);
    });
    const verdict = element("td", data.outcomes[row.o], "verdict");
    if (row.n.length) verdict.append(opener(index, row));
    made.append(verdict);
    for (const entry of row.e) {
      const cell = element("td", entry ? entry[1] : "-", "number");
      if (entry && entry[2]) cell.append(element("span", entry[2]));
      made.append(cell);
    }
    return made;
  }

  function opener(index, row) {
    const button = element("button", row.n.length === 1 ? "1 note" : `${row.n.length} notes`);
    button.type = "button";
    button.setAttribute("aria-expanded", String(open.has(index)));
    button.addEventListener("click", () => {
      const line = button.closest("tr");
      if (open.delete(index)) line.nextElementSibling.remove();
      else {
        open.add(index);
        line.after(notes(row));
      }
      button.setAttribute("aria-expanded", String(open.has(index)));
    });
    return button;
  }

  function notes(row) {
    const made = element("tr", undefined, "notes");
    const cell = element("td");
    cell.colSpan = width;
    const list = element("ul");
    list.append(...row.n.map((number) => element("li", data.notes[number])));
    cell.append(list);
    made.append(cell);
    return made;
  }

  function show() {
    const most = printing ? data.mostPrinted : data.atATime;
    const start = printing ? 0 : first;
    const here = found.slice(start, start + most);
    const lines = here.flatMap((index) => {
      const row = data.rows[index];
      return (printing || open.has(index)) && row.n.length ? [line(index), notes(row)] : [line(index)];
    });
    body.replaceChildren(...lines);
    const count = (n) => n.toLocaleString("en");
    const all = data.rows.length;
    const some = found.length === all ? `${count(all)}` : `${count(found.length)} of ${count(all)}`;
    const part = here.length < found.length ? `; shown are ${count(start + 1)} to ${count(start + here.length)}` : "";
    document.getElementById("shown").textContent = `${some} ${all === 1 ? "cell" : "cells"}${part}`;
    document.getElementById("pages").hidden = found.length <= data.atATime;
    document.getElementById("place").textContent = `${count(first + 1)} to ${count(first + here.length)}`;
    document.getElementById("earlier").disabled = first === 0;
    document.getElementById("later").disabled = first + data.atATime >= found.length;
  }

  function turn(by) {
    first = Math.max(0, first + by);
    show();
    document.getElementById("cells").scrollIntoView();
  }

  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-sort]");
    if (button) sort(button);
  });
  const form = document.getElementById("filters");
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  document.getElementById("earlier").addEventListener("click", () => turn(-data.atATime));
  document.getElementById("later").addEventListener("click", () => turn(data.atATime));
  for (const [name, value] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(name, () => {
      printing = value;
      show();
    });
  }
  filter();
})();
