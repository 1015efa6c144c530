import { invalidRequest } from '../core/errors.ts';
import { readJson } from './body.ts';
import type { Exchange } from './exchange.ts';

/** Checks on what a client sent. The rules of keys and tenants live with their use-cases. */
export { validate } from '../auth/manage-input.ts';

/** The largest honest body is a full allow-list: 200 patterns of 200 characters, escaped. */
const managementBytesMax = 256 * 1024;

/** The body of a management call; one that was left out is an empty object. */
export async function readManagementBody({ request }: Exchange): Promise<unknown> {
  if (request.body === null) return {};
  return (await readJson(request, managementBytesMax)).value;
}

export function readOffset(query: URLSearchParams): number {
  const text = query.get('offset') ?? '0';
  const offset = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(offset)) return offset;
  throw invalidRequest('offset must be a whole number of at least 0.', 'offset');
}

export function readFlag(query: URLSearchParams, name: string): boolean {
  const text = query.get(name) ?? 'false';
  if (text === 'true' || text === 'false') return text === 'true';
  throw invalidRequest(`${name} must be true or false.`, name);
}
