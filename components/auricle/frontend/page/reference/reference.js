// @ts-check
// The server's OpenAPI document as a page, without a resource of another server.
/** @typedef {Record<string, any>} Schema of JSON, as OpenAPI has it */

const SERVER = new URL(".", location.href);
const METHODS = ["get", "post", "put", "delete"];

/** @param {string} tag @param {object} fields @param {(Node | string)[]} inside */
function made(tag, fields, ...inside) {
  const element = Object.assign(document.createElement(tag), fields);
  element.append(...inside);
  return element;
}
/** @param {string} ref */
const nameOf = (ref) => ref.slice(ref.lastIndexOf("/") + 1);

/** The type of a value, as people write it; names are links. @param {Schema} schema @returns {(Node | string)[]} */
function type(schema = {}) {
  const separated = (/** @type {Schema[]} */ all) => all.flatMap((one, n) => (n ? [" | ", ...type(one)] : type(one)));
  if (schema.$ref) return [made("a", { href: `#${nameOf(schema.$ref)}` }, nameOf(schema.$ref))];
  if (schema.anyOf ?? schema.oneOf) return separated(schema.anyOf ?? schema.oneOf);
  if (schema.enum) return [schema.enum.map((/** @type {unknown} */ one) => JSON.stringify(one)).join(" | ")];
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.type === "array") return ["list of ", ...type(schema.items)];
  if (schema.format === "binary") return ["file"];
  return [schema.type ?? "any"];
}
/** Bounds and default of a value. @param {Schema} schema */
function bounds(schema) {
  const names = ["default", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern"];
  return names.filter((name) => schema[name] !== undefined && schema[name] !== null)
    .map((name) => `, ${name} ${JSON.stringify(schema[name])}`).join("");
}
/** @param {{ name: string, where?: string, required?: boolean, schema: Schema, description?: string }[]} all */
function fields(all) {
  return made("dl", {}, ...all.flatMap(({ name, where, required, schema, description = schema.description }) => [
    made("dt", {}, made("code", {}, name)),
    made("dd", {}, ...type(schema), `${bounds(schema)}${required ? ", required" : ""}${where ? `, in the ${where}` : ""}`,
      ...(description ? [made("p", {}, description)] : [])),
  ]));
}
/** @param {Schema} schema of an object */
const properties = ({ properties = {}, required = [] }) =>
  fields(Object.entries(properties).map(([name, schema]) => ({ name, schema, required: required.includes(name) })));

/** Titles and fields of a body, by content type. @param {Record<string, { schema?: Schema }>} content */
const bodies = (content = {}) => Object.entries(content).flatMap(([kind, { schema = {} }]) => [
  made("p", {}, made("code", {}, kind), ": ", ...type(schema)),
  ...(schema.properties ? [properties(schema)] : []),
]);

/** @param {string} path @param {string} method @param {Schema} operation */
function entry(path, method, operation) {
  const { summary, description, parameters = [], requestBody, responses = {} } = operation;
  const inside = [...(description ? [made("p", {}, description)] : [])];
  if (parameters.length) {
    const all = parameters.map((/** @type {Schema} */ { in: where, ...rest }) => ({ ...rest, where }));
    inside.push(made("h3", {}, "Parameters"), fields(all));
  }
  if (requestBody) inside.push(made("h3", {}, "Request"), ...bodies(requestBody.content));
  inside.push(made("h3", {}, "Responses"), made("dl", {}, ...Object.entries(responses).flatMap(([status, told]) => [
    made("dt", {}, made("code", {}, status)),
    made("dd", {}, told.description, ...bodies(told.content)),
  ])));
  const title = made("summary", {}, made("code", {}, `${method.toUpperCase()} ${path}`), made("span", {}, summary ?? ""));
  return made("details", {}, title, made("div", { className: "inside" }, ...inside));
}

/** @param {Schema} found the document */
function show({ info, paths, components = {} }) {
  /** @type {Map<string, HTMLElement[]>} */ const byTag = new Map();
  for (const [path, methods] of Object.entries(paths)) {
    for (const method of METHODS.filter((name) => methods[name])) {
      const tag = methods[method].tags?.[0] ?? "more";
      byTag.set(tag, [...(byTag.get(tag) ?? []), entry(path, method, methods[method])]);
    }
  }
  const schemas = Object.entries(components.schemas ?? {}).map(([name, schema]) =>
    made("details", { id: name }, made("summary", {}, made("code", {}, name)),
      made("div", { className: "inside" }, ...(schema.description ? [made("p", {}, schema.description)] : []), properties(schema))));
  const title = (/** @type {string} */ name) => made("h2", {}, name[0].toUpperCase() + name.slice(1));
  document.getElementById("version")?.replaceChildren(`Version ${info.version}`);
  document.getElementById("operations")?.replaceChildren(
    ...[...byTag].flatMap(([tag, all]) => [title(tag), ...all]), title("schemas"), ...schemas);
}

addEventListener("hashchange", () => document.getElementById(location.hash.slice(1))?.setAttribute("open", ""));
async function load() {
  try {
    show(await (await fetch(new URL("openapi.json", SERVER))).json());
  } catch {
    document.getElementById("operations")?.replaceChildren("The server does not answer.");
  }
}
void load();
