import { type Fields, fieldsOf, isObject, itemsOf, objectsIn } from '../../core/json.ts';
import { escapeHtml, sentenceHtml } from './html.ts';

/** Endpoints and records as HTML. All of it comes from the document of /openapi.json. */

export interface Operation {
  readonly method: string;
  readonly path: string;
  readonly about: Fields;
}

const entriesOf = (value: unknown) => Object.entries(fieldsOf(value));

export function operationHtml({ method, path, about }: Operation, exampleUrl: string): string {
  const bodies = isObject(about.requestBody) ? entriesOf(about.requestBody.content) : [];
  const example = escapeHtml(curl(method, path, about, bodies[0], exampleUrl));
  const badge = `<span class="method ${method.toLowerCase()}">${method}</span>`;
  return [
    `<article id="${escapeHtml(about.operationId)}">`,
    `<h3>${badge} <code>${escapeHtml(path)}</code></h3>`,
    `<p><strong>${escapeHtml(about.summary)}.</strong>`,
    `${sentenceHtml(about.description)} ${access(about)}</p>`,
    parametersHtml(objectsIn(about.parameters)),
    ...bodies.map(bodyHtml),
    ...entriesOf(about.responses).map(answerHtml),
    `<details><summary>curl</summary><pre><code>${example}</code></pre></details>`,
    '</article>',
  ].join('\n');
}

export function schemaHtml(name: string, schema: unknown): string {
  const about = fieldsOf(schema);
  const note = about.description ? `<p>${sentenceHtml(about.description)}</p>` : '';
  const id = escapeHtml(name);
  return `<article id="schema-${id}"><h3>${id}</h3>${note}${fieldsHtml(about)}</article>`;
}

const credentials: Readonly<Record<string, string>> = {
  routing: 'a routing key',
  management: 'a management key',
  admin: 'the admin token',
};

function access({ security }: Fields): string {
  const names = objectsIn(security).flatMap((one) => Object.keys(one));
  if (names.length === 0) return '<em>Open to anybody.</em>';
  return `<em>Needs ${names.map((name) => credentials[name] ?? name).join(' or ')}.</em>`;
}

function parametersHtml(parameters: readonly Fields[]): string {
  if (parameters.length === 0) return '';
  const rows = parameters.map(({ name, in: place, required, description, schema }) =>
    row(
      `${escapeHtml(name)} <small>${escapeHtml(place)}${required ? '' : ', optional'}</small>`,
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
  const when = escapeHtml(status === 'default' ? 'else' : status);
  const rows = contents.map(([type, media]) => {
    const schema = fieldsOf(media).schema;
    const head = `<b>${when}</b> <small>${escapeHtml(type)}</small> ${typeHtml(schema)}`;
    return `<p class="answer">${head}</p>${inlineFields(schema)}`;
  });
  return rows.join('');
}

/** Records with a name have a section of their own; others are described on the spot. */
function inlineFields(schema: unknown): string {
  return isObject(schema) && isObject(schema.properties) ? fieldsHtml(schema) : '';
}

function fieldsHtml({ properties, required }: Fields): string {
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

function row(name: string, schema: unknown, description: unknown, more = ''): string {
  const words = `${sentenceHtml(description)}${more}`;
  return `<tr><th scope="row">${name}</th><td>${typeHtml(schema)}</td><td>${words}</td></tr>`;
}

/** The type of a value, in a few words. */
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

function boundsOf(schema: Fields): string {
  const { default: usual } = schema;
  return rangeOf(schema) + (usual === undefined ? '' : `, usually ${JSON.stringify(usual)}`);
}

function rangeOf({ minimum, maximum, minLength, maxLength }: Fields): string {
  const low = minimum ?? minLength;
  const high = maximum === Number.MAX_SAFE_INTEGER ? undefined : (maximum ?? maxLength);
  if (low === undefined) return high === undefined ? '' : `, up to ${high}`;
  return high === undefined ? `, from ${low}` : `, ${low} to ${high}`;
}

function curl(
  method: string,
  path: string,
  about: Fields,
  body: readonly [string, unknown] | undefined,
  exampleUrl: string,
): string {
  const isOpen = itemsOf(about.security).length === 0;
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
