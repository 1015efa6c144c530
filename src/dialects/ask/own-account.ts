/**
 * What reaches into the account that pays the vendor: files, stores and containers that lie there,
 * by their ids. Tenants share the operator's accounts, so an id may well be another tenant's.
 */
import type { OwnAccountNeed } from '../../core/ask.ts';
import { isObject } from '../../core/json.ts';
import { labelsName } from './addresses.ts';

const keptName = /^(?:(?:file|vector_?store|collection|container)_?ids?|cached_?content)$/i;
/** What Azure searches in the name of the account. */
const sourcesName = /^data_?sources$/i;
/** Both the thing itself, by its id, and what one may have to say about a new one. */
const containerName = 'container';

const isKept = 'refers to what a provider keeps in its account: send the content itself';
const isDear = 'has a price of its own: leave it out';

/** Where the first id of such a thing stands in `value`, which itself stands at `path`. */
export function keptIn(value: unknown, path: string): OwnAccountNeed | undefined {
  if (Array.isArray(value)) return keptInList(value, path);
  if (!isObject(value)) return undefined;
  for (const [name, inner] of Object.entries(value)) {
    if (labelsName.test(name)) continue;
    const place = path === '' ? name : `${path}.${name}`;
    if (isIdAt(name, inner)) return keptAt(place);
    const isNew = name === containerName && isObject(inner);
    if (isNew && isId(inner.id)) return keptAt(`${place}.id`);
    const found = keptIn(inner, place);
    if (found) return found;
  }
  return undefined;
}

function keptInList(list: readonly unknown[], path: string): OwnAccountNeed | undefined {
  for (const [at, inner] of list.entries()) {
    // Lists of a million numbers are common: token ids, vectors.
    const found = typeof inner === 'object' ? keptIn(inner, `${path}[${at}]`) : undefined;
    if (found) return found;
  }
  return undefined;
}

function isIdAt(name: string, value: unknown): boolean {
  if (sourcesName.test(name)) return Array.isArray(value) && value.length > 0;
  if (!keptName.test(name) && name !== containerName) return false;
  return isId(value) || (Array.isArray(value) && value.some(isId));
}

function isId(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

export function keptAt(param: string): OwnAccountNeed {
  return { param, why: isKept };
}

/** Schemes by which vendors reach a storage of the account: `gs:`, `s3:`, `ms:`. */
const storage = /^[^!-~]*(?!https?:|data:)[a-z][a-z\d+.-]{1,30}:/i;

/** Bytes in a request, or where they are. */
export function keptBytes(text: string | null | undefined, param: string) {
  return text && storage.test(text) ? keptAt(param) : undefined;
}

/**
 * Where an answer may be computed: but for the whole world it costs more. Nobody shall believe that
 * such a wish was heard, so it is not just left out.
 */
export function regionNeed(
  body: Readonly<Record<string, unknown>>,
  param: string,
): OwnAccountNeed | undefined {
  const region = body[param];
  return typeof region === 'string' && region !== 'global' ? { param, why: isDear } : undefined;
}
