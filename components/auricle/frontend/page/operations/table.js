// @ts-check
// Tables that change in place: whoever reads or has the focus in one keeps the place.

/** @template T @typedef {{ title: string, head?: boolean, show: (cell: HTMLElement, row: T) => void }} Column */

/** @param {HTMLElement} node @param {string} value */
export function write(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

/** A column of text. @template T @param {string} title @param {(row: T) => string} text @returns {Column<T>} */
export const words = (title, text) => ({ title, show: (cell, row) => write(cell, text(row)) });

/** A column of shares from 0 to 1, drawn and written.
 * @template T
 * @param {string} title
 * @param {(row: T) => { share: number, text: string } | null} value
 * @returns {Column<T>} */
export const share = (title, value) => ({
  title,
  show: (cell, row) => {
    const found = value(row);
    if (!found) return void cell.replaceChildren("–");
    let meter = cell.querySelector("meter");
    if (!meter) {
      meter = document.createElement("meter");
      meter.setAttribute("aria-label", title);
      [meter.min, meter.max, meter.high, meter.optimum] = [0, 1, 0.9, 0];
      cell.replaceChildren(meter, document.createElement("span"));
    }
    meter.value = found.share;
    if (cell.lastElementChild instanceof HTMLElement) write(cell.lastElementChild, found.text);
  },
});

/** @template T */
export class Table {
  /** @type {Map<string, HTMLTableRowElement>} */ rows = new Map();

  /**
   * @param {HTMLTableElement} table
   * @param {Column<T>[]} columns the first names the row
   * @param {(row: T) => string} key
   * @param {string} empty said where there are no rows
   */
  constructor(table, columns, key, empty) {
    this.columns = columns;
    this.key = key;
    const head = table.createTHead().insertRow();
    for (const { title } of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = title;
      head.append(cell);
    }
    this.body = table.createTBody();
    this.empty = document.createElement("tr");
    const cell = this.empty.insertCell();
    cell.colSpan = columns.length;
    cell.className = "empty";
    cell.textContent = empty;
  }
  /** @param {readonly T[]} items */
  show(items) {
    const wanted = items.map((item) => this.key(item));
    const kept = new Set(wanted);
    for (const [key, row] of this.rows) {
      if (kept.has(key)) continue;
      row.remove();
      this.rows.delete(key);
    }
    items.forEach((item, at) => {
      const row = this.rows.get(wanted[at]) ?? this.made(wanted[at]);
      // Moved only if it must be: what is moved loses the focus.
      if (this.body.rows[at] !== row) this.body.insertBefore(row, this.body.rows[at] ?? null);
      this.columns.forEach(({ show }, n) => show(/** @type {HTMLElement} */ (row.cells[n]), item));
    });
    if (items.length) this.empty.remove();
    else this.body.append(this.empty);
  }
  /** @param {string} key */
  made(key) {
    const row = document.createElement("tr");
    this.columns.forEach((_, n) => {
      const cell = document.createElement(n ? "td" : "th");
      if (cell instanceof HTMLTableCellElement && !n) cell.scope = "row";
      cell.dataset.title = this.columns[n].title; // beside the value where there is no room for a table
      row.append(cell);
    });
    this.rows.set(key, row);
    return row;
  }
}
