// @ts-check
// The page's elements by their names, and new ones.

/** @template {HTMLElement} E @param {string} id @param {new () => E} type @returns {E} */
export function at(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${id}`);
  return found;
}
/** @param {string} id @param {string} value */
export const text = (id, value) => (at(id, HTMLElement).textContent = value);
/** @param {string} id @param {boolean} shown */
export const show = (id, shown) => (at(id, HTMLElement).hidden = !shown);
/** @param {string} id */
export const field = (id) => at(id, HTMLInputElement).value.trim();

/** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {object} fields its properties @param {(Node | string)[]} inside */
export function made(tag, fields, ...inside) {
  const element = Object.assign(document.createElement(tag), fields);
  element.append(...inside);
  return element;
}
/** @param {string} label @param {() => void} pressed @param {object} fields */
export function button(label, pressed, fields = {}) {
  const element = made("button", { type: "button", ...fields }, label);
  element.addEventListener("click", pressed);
  return element;
}

/** @param {number} seconds */
export const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

/** Copy; the button tells for a while that it did. @param {HTMLButtonElement} pressed @param {string} value */
export async function copy(pressed, value) {
  const label = pressed.dataset.label ?? pressed.textContent ?? "";
  pressed.dataset.label = label;
  try {
    await navigator.clipboard.writeText(value);
    pressed.textContent = "Copied";
  } catch {
    pressed.textContent = "This browser forbids it";
  }
  setTimeout(() => (pressed.textContent = label), 2000);
}
