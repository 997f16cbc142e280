// The schema as a page: every route, its fields, and a command to try it with.
import { ask } from "/page/client.js";
import { make } from "/page/viewer.js";

const [schema, models] = await Promise.all([ask("/openapi.json"), ask("/v1/models")]);
document.querySelector("#models").textContent = `Models: ${models.data.map((one) => `${one.id} (${one.task})`).join(", ")}`;

const runOf = (...tasks) => (models.data.find((one) => tasks.includes(one.task)) ?? models.data[0]).id;
const EXAMPLES = {
  "/v1/completions": { model: runOf("language-model"), prompt: "Once", max_tokens: 20 },
  "/v1/chat/completions": { model: runOf("language-model"), messages: [{ role: "user", content: "Hello" }] },
  "/v1/embeddings": { model: runOf(), input: ["a text"] },
  "/api/predict": { run: runOf("classification", "multilabel", "regression"), examples: ["a text"] },
  "/api/translate": { run: runOf("translation"), texts: ["a text"] },
  "/api/fill": { run: runOf("masked-language-model"), texts: ["a <mask> in a text"] },
  "/api/look": { run: runOf(), texts: ["a text"] },
  "/api/play": { run: runOf(), example: "a text", views: [] },
  "/api/play/grow": { run: runOf("language-model", "translation"), example: "a text", path: [] },
};

const sections = new Map();
for (const [path, methods] of Object.entries(schema.paths)) {
  for (const [method, route] of Object.entries(methods)) {
    const title = route.tags?.[0] ?? "more";
    if (!sections.has(title)) sections.set(title, make("section", {}, make("h2", {}, title)));
    sections.get(title).append(entry(path, method, route));
  }
}
document.querySelector("main").replaceChildren(...sections.values());

function entry(path, method, route) {
  const what = (route.description ?? route.summary ?? "").split("\n")[0];
  const summary = make("summary", {}, make("span.method", {}, method.toUpperCase()), make("span.path", {}, path), make("span.soft", {}, what));
  const inside = make("div.inside", {}, make("pre", {}, command(path, method)));
  const reference = route.requestBody?.content?.["application/json"]?.schema?.$ref;
  const fields = reference ? Object.entries(resolve(reference).properties ?? {}) : [];
  const query = (route.parameters ?? []).map((one) => [one.name, { ...one.schema, description: one.description }]);
  if (fields.length + query.length) inside.append(make("table", {}, ...[...query, ...fields].map(([name, field]) => row(name, field))));
  return make("details", {}, summary, inside);
}

function command(path, method) {
  const url = `${location.origin}${path}`;
  const example = EXAMPLES[path];
  if (path === "/api/predict/image") return `curl '${url}?run=${runOf()}' --data-binary @image.png`;
  if (path === "/api/play/code") return `curl '${url}?panel=attention'`;
  if (path === "/v1/models/{model}") return `curl ${url.replace("{model}", runOf())}`;
  if (path === "/api/run" || (path === "/api/play" && method === "get")) return `curl '${url}?run=${runOf()}'`;
  if (method === "get" || !example) return `curl ${url}`;
  return `curl ${url} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example)}'`;
}

function resolve(reference) {
  return schema.components.schemas[reference.split("/").pop()];
}

function kind(field) {
  if (field.$ref) return kind(resolve(field.$ref));
  if (field.anyOf) return [...new Set(field.anyOf.map(kind))].filter((name) => name !== "null").join(" or ");
  if (field.const !== undefined || field.enum) return (field.enum ?? [field.const]).map((value) => JSON.stringify(value)).join(" or ");
  return field.type === "array" ? `list of ${kind(field.items ?? {})}` : String(field.type ?? field.title ?? "");
}

function row(name, field) {
  const limits = [["minimum", "≥"], ["exclusiveMinimum", ">"], ["maximum", "≤"]].filter(([key]) => field[key] !== undefined).map(([key, sign]) => `${sign} ${field[key]}`);
  const usual = field.default !== undefined && field.default !== null ? [`default ${JSON.stringify(field.default)}`] : [];
  return make("tr", {}, make("td", {}, name), make("td.soft", {}, kind(field)), make("td", {}, [field.description, ...limits, ...usual].filter(Boolean).join("; ")));
}
