import { jsonDepthMax, jsonNamesMax } from '../../../core/bounds.ts';
import { isObject, type JsonObject } from '../../../core/json.ts';
import type { RawBody } from '../../dialect.ts';
import { longNumber, parseExact } from '../exact-json.ts';

// Keeps integers beyond 2^53 exact, such as a limit in a tool's schema or an ID in a call's
// arguments. The gateway validates them as floats, but sends the client's original digits upstream.

/** Exact parsing costs time for each value, so a body with too many values is sent with floats. */
const bodyLimits = { levels: jsonDepthMax, names: jsonNamesMax, values: jsonNamesMax };

/** Returns the body with exact numbers; undefined if it has no long numbers. */
export function parseExactBody(source: RawBody | null): Readonly<JsonObject> | undefined {
  if (source === null || !longNumber.test(source.text)) return undefined;
  const exact = parseExact(source.text, bodyLimits);
  return isObject(exact) ? exact : undefined;
}

/** Fields that contain the client's own JSON, in all dialects. */
const freeFields = [
  'messages',
  'input',
  'tools',
  'functions',
  'response_format',
  'output_config',
  'output_format',
  'text',
];

/** Returns the body with exact numbers in the fields that contain the client's own JSON. */
export function withExactNumbers<RequestBody extends object>(
  body: RequestBody,
  source: RawBody | null,
): RequestBody {
  const exact = parseExactBody(source);
  if (exact === undefined) return body;
  const free = freeFields.filter((name) => Object.hasOwn(body, name));
  return { ...body, ...Object.fromEntries(free.map((name) => [name, exact[name]])) };
}
