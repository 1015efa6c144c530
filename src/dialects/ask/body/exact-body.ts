import { jsonDepthMax, jsonNamesMax } from '../../../core/bounds.ts';
import { type Fields, isObject } from '../../../core/json.ts';
import { longNumber, parseExact } from '../../answer/exact-json.ts';
import type { Source } from './edit-body.ts';

/**
 * Requests with integers beyond 2^53, such as the largest 64-bit integer in a tool's schema, or an
 * id in the arguments of a call. The gateway checks and counts them as floats, but upstreams get
 * the digits that the client wrote.
 */

/** Exactness costs time for each value, so a body of millions of values is sent with floats. */
const limits = { levels: jsonDepthMax, names: jsonNamesMax, values: jsonNamesMax };

/** The client's body with exact numbers; undefined if none of its numbers is long. */
export function exactIn(source: Source | null): Readonly<Fields> | undefined {
  if (source === null || !longNumber.test(source.text)) return undefined;
  const exact = parseExact(source.text, limits);
  return isObject(exact) ? exact : undefined;
}

/** Fields in which clients put JSON of their own, in all dialects. */
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

/** The body to translate, with exact numbers in the fields that hold JSON of the client's own. */
export function exactWords<Given extends object>(body: Given, source: Source | null): Given {
  const exact = exactIn(source);
  if (exact === undefined) return body;
  const free = freeFields.filter((name) => Object.hasOwn(body, name));
  return { ...body, ...Object.fromEntries(free.map((name) => [name, exact[name]])) };
}
