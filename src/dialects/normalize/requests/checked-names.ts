import { exceededLimit, type JsonObject } from '../../../core/json.ts';
import type { RawBody } from '../../dialect.ts';
import { cacheKeyFields } from './prompt-cache.ts';
import { serverParameters, surchargedParameters } from './restricted-parameters.ts';
import { foldCase, lowercaseName } from './unknown-fields.ts';

// A request is checked as the gateway's JSON parser reads it. A server may read its text in another
// way: some use the first of two fields with the same name, and servers written in Go read `URL` as
// `url`. So a body that could be read in two ways is rewritten to what was checked.

/** Names that the gateway reads without a schema, at any depth. */
const commonNames = [
  ...['id', 'type', 'name', 'url', 'uri', 'data', 'file_id', 'file_url', 'server_url', 'audio'],
  ...['images', 'tools', 'tool', 'definition', 'tool_changes', 'environment', 'container', 'ttl'],
  ...['cache_control', 'result', 'inference_geo', 'access_programs'],
  ...surchargedParameters.keys(),
  ...serverParameters,
  ...cacheKeyFields,
];

/** Returns the names that the gateway checks: those of the schemas, and the common ones. */
export function checkedNames(...schemas: readonly object[]): ReadonlySet<string> {
  const names = new Set(commonNames);
  const collect = (schema: object): void => {
    for (const [keyword, inner] of Object.entries(schema)) {
      if (typeof inner !== 'object' || inner === null) continue;
      if (keyword === 'properties') for (const name of Object.keys(inner)) names.add(name);
      collect(inner);
    }
  };
  for (const schema of schemas) collect(schema);
  return names;
}

/**
 * Fields whose content has names that the client chooses, such as the properties of a tool's schema
 * or the arguments of a call.
 */
const ownNames: ReadonlySet<string> = new Set([
  ...['parameters', 'input_schema', 'schema', 'properties', 'patternProperties', '$defs'],
  ...['definitions', 'dependentSchemas', 'default', 'const', 'enum', 'examples', 'input_examples'],
  ...['arguments', 'metadata', 'client_metadata', 'attributes', 'variables', 'headers', 'env'],
  ...['documents', 'chat_template_kwargs'],
]);

function hasOwnNames(name: string, value: object): boolean {
  // The `input` of a tool call is an object. The `input` of a request is a list of items.
  return ownNames.has(name) || (name === 'input' && !Array.isArray(value));
}

interface NamesFound {
  names: number;
  hasLookalikes: boolean;
}

function countNames(
  value: object,
  known: ReadonlySet<string>,
  areOwn: boolean,
  found: NamesFound,
): void {
  if (Array.isArray(value)) {
    for (const item of value as readonly unknown[]) {
      if (typeof item === 'object' && item !== null) countNames(item, known, areOwn, found);
    }
    return;
  }
  for (const name in value) {
    const inner = (value as JsonObject)[name];
    found.names += 1;
    if (!areOwn && isLookalike(name, known)) found.hasLookalikes = true;
    if (typeof inner === 'object' && inner !== null) {
      countNames(inner, known, areOwn || hasOwnNames(name, inner), found);
    }
  }
}

function isLookalike(name: string, known: ReadonlySet<string>): boolean {
  return !known.has(name) && !lowercaseName.test(name) && known.has(foldCase(name));
}

/**
 * Returns true if the text means to every server what `body`, its parsed form, means to the
 * gateway. Parsing keeps one of two fields with the same name, so a text with a duplicate at any
 * depth has more names than its parsed form.
 */
export function isUnambiguous(
  { text, names }: RawBody,
  body: object,
  known: ReadonlySet<string>,
): boolean {
  const found = { names: 0, hasLookalikes: false };
  countNames(body, known, false, found);
  if (found.hasLookalikes) return false;
  if ((names ?? countByColons(text)) === found.names) return true;
  const limits = { levels: Number.POSITIVE_INFINITY, names: found.names };
  return exceededLimit(text, limits) === undefined;
}

const [tab, lineFeed, carriageReturn, space, quote, backslash] = [9, 10, 13, 32, 34, 92];

/**
 * Counts the names in JSON by their closing quote and colon. Returns undefined if that may count
 * wrong: after a space before a colon, or a backslash at the end of a name. This takes a small part
 * of the time of a scan of all characters.
 */
function countByColons(text: string): number | undefined {
  let names = 0;
  for (let at = text.indexOf(':'); at !== -1; at = text.indexOf(':', at + 1)) {
    const before = text.charCodeAt(at - 1);
    if (before === quote) {
      if (text.charCodeAt(at - 2) !== backslash) names += 1;
      else if (text.charCodeAt(at - 3) === backslash) return undefined;
    } else if (
      before === space ||
      before === tab ||
      before === lineFeed ||
      before === carriageReturn
    ) {
      return undefined;
    }
  }
  return names;
}

/** Removes the fields, at any depth, whose names differ from a checked name only in case. */
export function withoutLookalikes<Body extends object>(
  body: Body,
  known: ReadonlySet<string>,
): Body {
  const found = { names: 0, hasLookalikes: false };
  countNames(body, known, false, found);
  return found.hasLookalikes ? (removeLookalikes(body, known) as Body) : body;
}

function removeLookalikes(value: unknown, known: ReadonlySet<string>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => removeLookalikes(item, known));
  const fields = Object.entries(value)
    .filter(([name]) => !isLookalike(name, known))
    .map(([name, inner]) => {
      const isOwn = typeof inner === 'object' && inner !== null && hasOwnNames(name, inner);
      return [name, isOwn ? inner : removeLookalikes(inner, known)] as const;
    });
  return Object.fromEntries(fields);
}
