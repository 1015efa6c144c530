import { createHash } from 'node:crypto';
import { fieldsOf, isObject, itemsOf, type JsonObject, objectsIn } from '../../core/json.ts';

/** Supports light and dark mode, and small screens. */
const style = `
:root {
  --ground: #fbfaf7; --panel: #f2efe8; --ink: #22211e; --soft: #66625a; --line: #ddd8cc;
  --link: #1d5c8a; --get: #1b6b45; --post: #8a4b08; --put: #5b4599; --delete: #a3262b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #171614; --panel: #211f1c; --ink: #ece8df; --soft: #a8a297; --line: #3a3732;
    --link: #7db9e8; --get: #6fce9f; --post: #eeb06a; --put: #b7a2f2; --delete: #f28f92;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body {
  margin: 0; display: grid; grid-template-columns: 20rem minmax(0, 1fr);
  background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif;
}
a { color: var(--link); text-underline-offset: 2px; }
a:focus-visible, summary:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code, pre { font: 0.875em/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
small { color: var(--soft); font-weight: 400; }
nav {
  position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1rem 1.25rem;
  background: var(--panel); border-right: 1px solid var(--line); font-size: 0.8125rem;
}
nav .brand { font-size: 1.125rem; font-weight: 700; margin: 0; }
nav h2 { margin: 1.25rem 0 0.25rem; font-size: 0.8125rem; color: var(--soft); }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a {
  display: block; padding: 0.15rem 0; color: inherit; text-decoration: none;
  overflow-wrap: anywhere;
}
nav a:hover { text-decoration: underline; }
nav b { font-weight: 600; color: var(--soft); font-size: 0.6875rem; }
main { padding: 1.5rem clamp(1rem, 4vw, 3rem) 6rem; max-width: 64rem; }
h1 { margin: 0 0 0.5rem; font-size: 1.75rem; line-height: 1.2; }
section > h2 { margin: 3rem 0 0.5rem; font-size: 1.375rem; text-transform: capitalize; }
article { padding: 1.25rem 0; border-top: 1px solid var(--line); }
h3 { margin: 0 0 0.5rem; font-size: 1.0625rem; }
h4 { margin: 1rem 0 0.25rem; font-size: 0.875rem; }
p { margin: 0.25rem 0; }
.method { font: 700 0.8125rem ui-monospace, monospace; margin-right: 0.25rem; }
.get { color: var(--get); } .post { color: var(--post); } .delete { color: var(--delete); }
.put, .patch { color: var(--put); }
.answer { margin-top: 0.75rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.875rem; }
th, td {
  padding: 0.35rem 0.75rem 0.35rem 0; border-bottom: 1px solid var(--line);
  text-align: left; vertical-align: top;
}
th { font: 600 0.8125rem/1.6 ui-monospace, monospace; white-space: nowrap; }
th { width: 15rem; }
td:nth-child(2) { width: 14rem; }
td table { font-size: 0.8125rem; }
summary { cursor: pointer; color: var(--soft); font-size: 0.875rem; margin-top: 0.75rem; }
pre {
  margin: 0.5rem 0 0; padding: 0.75rem 1rem; background: var(--panel); border-radius: 6px;
  overflow-x: auto; white-space: pre-wrap;
}
@media (max-width: 52rem) {
  table, tbody, tr, th, td { display: block; }
  th, td, td:nth-child(2) { width: auto; border: 0; padding: 0; white-space: normal; }
  tr { padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
  td table { padding-left: 1rem; }
  body { display: block; }
  nav {
    position: static; height: auto; max-height: 40vh;
    border-right: 0; border-bottom: 1px solid var(--line);
  }
}
`;

/** The page has no script and loads nothing, so its policy allows only this style. */
const styleHash = createHash('sha256').update(style).digest('base64');
export const styleSource = `style-src 'sha256-${styleHash}'`;

interface GroupedOperation extends DocumentedOperation {
  readonly group: string;
}

/** Renders the OpenAPI document as a page. */
export function docsPage(document: JsonObject, exampleUrl: string): string {
  const operations = operationsOf(document);
  const groups = [...Map.groupBy(operations, ({ group }) => group)].sort(
    ([a], [b]) => lastGroups.indexOf(a) - lastGroups.indexOf(b),
  );
  const info = fieldsOf(document.info);
  const { schemas } = fieldsOf(document.components);
  const records = Object.entries(fieldsOf(schemas)).sort(([a], [b]) => (a < b ? -1 : 1));
  const nav = groups.map(
    ([group, list]) => `<h2>${escapeHtml(group)}</h2><ul>${list.map(navItem).join('')}</ul>`,
  );
  const main = groups.map(
    ([group, list]) =>
      `<section><h2 id="${escapeHtml(group)}">${escapeHtml(group)}</h2>` +
      `${list.map((operation) => operationHtml(operation, exampleUrl)).join('')}</section>`,
  );
  const recordSections = records.map(([name, schema]) => schemaHtml(name, schema));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Tollgate reference</title>
<style>${style}</style>
</head>
<body>
<nav aria-label="Endpoints"><p class="brand">Tollgate <small>${escapeHtml(info.version)}</small></p>
${nav.join('')}<h2>schemas</h2><ul><li><a href="#schemas">All schemas</a></li></ul></nav>
<main>
<h1>Reference</h1>
<p>${escapeHtml(info.description)} Send your key as <code>Authorization: Bearer …</code>.
OpenAPI: <a href="/openapi.json">/openapi.json</a>.</p>
${main.join('')}
<section><h2 id="schemas">Schemas</h2>${recordSections.join('')}</section>
</main>
</body>
</html>
`;
}

function operationsOf({ paths }: JsonObject): GroupedOperation[] {
  return Object.entries(fieldsOf(paths)).flatMap(([path, methods]) =>
    Object.entries(fieldsOf(methods)).flatMap(([method, definition]) => {
      if (!isObject(definition)) return [];
      const [group = ''] = Array.isArray(definition.tags) ? definition.tags.map(String) : [];
      return [{ method: method.toUpperCase(), path, group, definition }];
    }),
  );
}

/** Groups for operators and probes, listed last. */
const lastGroups = ['admin', 'service'];

function navItem({ method, path, definition }: DocumentedOperation): string {
  const [id, summary] = [escapeHtml(definition.operationId), escapeHtml(definition.summary)];
  const link = `<b>${method}</b> ${escapeHtml(path)}`;
  return `<li><a href="#${id}" title="${summary}">${link}</a></li>`;
}

interface DocumentedOperation {
  readonly method: string;
  readonly path: string;
  readonly definition: JsonObject;
}

const entriesOf = (value: unknown) => Object.entries(fieldsOf(value));

function operationHtml(
  { method, path, definition }: DocumentedOperation,
  exampleUrl: string,
): string {
  const bodies = isObject(definition.requestBody) ? entriesOf(definition.requestBody.content) : [];
  const example = escapeHtml(curl(method, path, definition, bodies[0], exampleUrl));
  const badge = `<span class="method ${method.toLowerCase()}">${method}</span>`;
  return [
    `<article id="${escapeHtml(definition.operationId)}">`,
    `<h3>${badge} <code>${escapeHtml(path)}</code></h3>`,
    `<p><strong>${escapeHtml(definition.summary)}.</strong>`,
    `${sentenceHtml(definition.description)} ${access(definition)}</p>`,
    parametersHtml(objectsIn(definition.parameters)),
    ...bodies.map(bodyHtml),
    ...entriesOf(definition.responses).map(answerHtml),
    `<details><summary>curl</summary><pre><code>${example}</code></pre></details>`,
    '</article>',
  ].join('\n');
}

function schemaHtml(name: string, schema: unknown): string {
  const definition = fieldsOf(schema);
  const note = definition.description ? `<p>${sentenceHtml(definition.description)}</p>` : '';
  const id = escapeHtml(name);
  return `<article id="schema-${id}"><h3>${id}</h3>${note}${fieldsHtml(definition)}</article>`;
}

const credentials: Readonly<Record<string, string>> = {
  routing: 'a routing key',
  management: 'a management key',
  admin: 'the admin token',
};

function access({ security }: JsonObject): string {
  const names = objectsIn(security).flatMap((requirement) => Object.keys(requirement));
  if (names.length === 0) return '<em>No key required.</em>';
  return `<em>Requires ${names.map((name) => credentials[name] ?? name).join(' or ')}.</em>`;
}

function parametersHtml(parameters: readonly JsonObject[]): string {
  if (parameters.length === 0) return '';
  const rows = parameters.map(({ name, in: location, required, description, schema }) =>
    row(
      `${escapeHtml(name)} <small>${escapeHtml(location)}${required ? '' : ', optional'}</small>`,
      schema,
      description,
    ),
  );
  return table('Parameters', rows);
}

function bodyHtml([type, media]: readonly [string, unknown]): string {
  const schema = fieldsOf(media).schema;
  const title = `Body <small>${escapeHtml(type)}</small>`;
  return `<h4>${title}</h4><p>${typeHtml(schema)}</p>${inlineFields(schema)}`;
}

function answerHtml([status, answer]: readonly [string, unknown]): string {
  const contents = entriesOf(fieldsOf(answer).content);
  const statusText = escapeHtml(status === 'default' ? 'error' : status);
  const rows = contents.map(([type, media]) => {
    const schema = fieldsOf(media).schema;
    const head = `<b>${statusText}</b> <small>${escapeHtml(type)}</small> ${typeHtml(schema)}`;
    return `<p class="answer">${head}</p>${inlineFields(schema)}`;
  });
  return rows.join('');
}

/** Schemas with a name have their own section; others are rendered inline. */
function inlineFields(schema: unknown): string {
  return isObject(schema) && isObject(schema.properties) ? fieldsHtml(schema) : '';
}

function fieldsHtml({ properties, required }: JsonObject): string {
  const needed = new Set(itemsOf(required));
  const rows = entriesOf(properties).map(([name, schema]) => {
    const mark = needed.has(name) ? '' : ' <small>optional</small>';
    const { description } = fieldsOf(schema);
    return row(`${escapeHtml(name)}${mark}`, schema, description, inlineFields(schema));
  });
  return rows.length > 0 ? table('', rows) : '';
}

function table(title: string, rows: readonly string[]): string {
  const heading = title === '' ? '' : `<h4>${title}</h4>`;
  return `${heading}<div class="scroll"><table><tbody>${rows.join('')}</tbody></table></div>`;
}

function row(name: string, schema: unknown, description: unknown, fields = ''): string {
  const details = `${sentenceHtml(description)}${fields}`;
  return `<tr><th scope="row">${name}</th><td>${typeHtml(schema)}</td><td>${details}</td></tr>`;
}

/** Renders a type in a few words, such as `list of integer, from 0`. */
function typeHtml(schema: unknown): string {
  if (!isObject(schema)) return '';
  const { $ref, anyOf, type, items } = schema;
  if (typeof $ref === 'string') {
    const name = escapeHtml($ref.split('/').at(-1));
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (Array.isArray(anyOf)) return [...new Set(anyOf.map(typeHtml))].join(' or ');
  if (Array.isArray(schema.enum)) return schema.enum.map(literal).join(', ');
  if (schema.const !== undefined) return literal(schema.const);
  if (type === 'array') return `list of ${typeHtml(items) || 'anything'}`;
  return `${escapeHtml(type ?? 'anything')}${escapeHtml(boundsOf(schema))}`;
}

function literal(value: unknown): string {
  return `<code>${escapeHtml(JSON.stringify(value))}</code>`;
}

function boundsOf(schema: JsonObject): string {
  const { default: defaultValue } = schema;
  return (
    rangeOf(schema) +
    (defaultValue === undefined ? '' : `, default ${JSON.stringify(defaultValue)}`)
  );
}

function rangeOf({ minimum, maximum, minLength, maxLength }: JsonObject): string {
  const low = minimum ?? minLength;
  const high = maximum === Number.MAX_SAFE_INTEGER ? undefined : (maximum ?? maxLength);
  const unit = minLength === undefined && maxLength === undefined ? '' : ' characters';
  if (low === undefined) return high === undefined ? '' : `, up to ${high}${unit}`;
  return high === undefined ? `, from ${low}${unit}` : `, ${low} to ${high}${unit}`;
}

function curl(
  method: string,
  path: string,
  definition: JsonObject,
  body: readonly [string, unknown] | undefined,
  exampleUrl: string,
): string {
  const isOpen = itemsOf(definition.security).length === 0;
  const example = isObject(body?.[1]) ? body[1].example : undefined;
  const isForm = body?.[0] === 'multipart/form-data';
  const form = entriesOf(example).map(([name, value]) => `  -F ${quoted(`${name}=${value}`)}`);
  const json = [
    '  -H "Content-Type: application/json"',
    `  -d ${quoted(JSON.stringify(example ?? {}))}`,
  ];
  return [
    `curl ${method === 'GET' ? '' : `-X ${method} `}${quoted(exampleUrl + path)}`,
    ...(isOpen ? [] : ['  -H "Authorization: Bearer $KEY"']),
    ...(body === undefined ? [] : isForm ? form : json),
  ].join(' \\\n');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes any value for element content and quoted attributes. */
function escapeHtml(value: unknown): string {
  return String(value ?? '').replace(/[&<>"']/g, (character) => entities[character] ?? '');
}

/** Also renders `code spans` in backticks. */
function sentenceHtml(value: unknown): string {
  return escapeHtml(value).replace(/`([^`]+)`/g, '<code>$1</code>');
}
