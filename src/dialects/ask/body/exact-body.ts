import { jsonDepthMax, jsonNamesMax } from '../../../core/bounds.ts';
import { type Fields, isObject } from '../../../core/json.ts';
import { longNumber, parseExact } from '../../answer/exact-json.ts';
import type { Source } from './edit-body.ts';

/**
 * Requests with integers beyond 2^53: the largest of 64 bits in a tool's schema, an id among the
 * arguments of a call. What is checked and counted here is a float; what goes on is what was
 * written.
 */

/** Exactness costs time for each value, so a body made of millions goes on as floats. */
const limits = { levels: jsonDepthMax, names: jsonNamesMax, values: jsonNamesMax };

/** All that the client wrote; undefined where no number of it is long. */
export function exactIn(source: Source | null): Readonly<Fields> | undefined {
  if (source === null || !longNumber.test(source.text)) return undefined;
  const exact = parseExact(source.text, limits);
  return isObject(exact) ? exact : undefined;
}

/** Fields in which clients put JSON of their own, by their names in all dialects. */
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

/** The body to be put in other words: exact where its numbers are nobody's but the client's. */
export function exactWords<Given extends object>(body: Given, source: Source | null): Given {
  const exact = exactIn(source);
  if (exact === undefined) return body;
  const free = freeFields.filter((name) => Object.hasOwn(body, name));
  return { ...body, ...Object.fromEntries(free.map((name) => [name, exact[name]])) };
}
