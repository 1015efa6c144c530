import { createHash } from 'node:crypto';
import { type Fields, fieldsOf, isObject } from '../../core/json.ts';
import { escapeHtml } from './html.ts';
import { type Operation, operationHtml, schemaHtml } from './page-parts.ts';
import { style } from './page-style.ts';

/** One page without a script: nothing is loaded, nothing runs, and it works without a network. */
const styleHash = createHash('sha256').update(style).digest('base64');
export const styleSource = `style-src 'sha256-${styleHash}'`;

interface GroupedOperation extends Operation {
  readonly group: string;
}

/** The reference as people read it. `document` is the one of /openapi.json. */
export function docsPage(document: Fields, exampleUrl: string): string {
  const operations = operationsOf(document);
  const groups = [...Map.groupBy(operations, ({ group }) => group)].sort(
    ([one], [other]) => lastGroups.indexOf(one) - lastGroups.indexOf(other),
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
      `${list.map((one) => operationHtml(one, exampleUrl)).join('')}</section>`,
  );
  const shapes = records.map(([name, schema]) => schemaHtml(name, schema));
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
${nav.join('')}<h2>schemas</h2><ul><li><a href="#schemas">All records</a></li></ul></nav>
<main>
<h1>Reference</h1>
<p>${escapeHtml(info.description)} Send your key as <code>Authorization: Bearer …</code>.
The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>
${main.join('')}
<section><h2 id="schemas">Records</h2>${shapes.join('')}</section>
</main>
</body>
</html>
`;
}

function operationsOf({ paths }: Fields): GroupedOperation[] {
  return Object.entries(fieldsOf(paths)).flatMap(([path, methods]) =>
    Object.entries(fieldsOf(methods)).flatMap(([method, about]) => {
      if (!isObject(about)) return [];
      const [group = ''] = Array.isArray(about.tags) ? about.tags.map(String) : [];
      return [{ method: method.toUpperCase(), path, group, about }];
    }),
  );
}

/** People come to call models; what operators and probes ask for stands at the end. */
const lastGroups = ['admin', 'service'];

function navItem({ method, path, about }: Operation): string {
  const [id, summary] = [escapeHtml(about.operationId), escapeHtml(about.summary)];
  const link = `<b>${method}</b> ${escapeHtml(path)}`;
  return `<li><a href="#${id}" title="${summary}">${link}</a></li>`;
}
