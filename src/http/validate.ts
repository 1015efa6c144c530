import { readJson } from './body.ts';
import type { Exchange } from './exchange.ts';
import { flagSchema, offsetSchema, readParameter } from './query.ts';

/** Checks on what a client sent. The rules of keys and tenants live with their use-cases. */
export { validate } from '../auth/manage-input.ts';

/** The largest honest body is a full allow-list: 200 patterns of 200 characters, escaped. */
const managementBytesMax = 256 * 1024;

const flag = flagSchema('');

/** The body of a management call; one that was left out is an empty object. */
export async function readManagementBody(exchange: Exchange): Promise<unknown> {
  if (exchange.request.body === null) return {};
  return (await readJson(exchange, managementBytesMax)).value;
}

export function readOffset(query: URLSearchParams): number {
  return readParameter(query, 'offset', offsetSchema) ?? 0;
}

export function readFlag(query: URLSearchParams, name: string): boolean {
  return readParameter(query, name, flag) ?? false;
}
