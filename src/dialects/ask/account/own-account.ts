/**
 * What reaches into the account that pays the vendor: files, stores and containers that lie there,
 * by their ids, and tunnels into the network of its owner. Tenants share the operator's accounts,
 * so an id may well be another tenant's.
 */
import type { OwnAccountNeed } from '../../../core/ask.ts';
import { type Fields, fieldsOf, isObject, isText } from '../../../core/json.ts';
import { labelsName } from '../content/addresses.ts';

const keptName = /^(?:(?:file|vector_?store|collection|container|tunnel)_?ids?|cached_?content)$/i;
/** What Azure searches with the rights of the account. */
const sourcesName = /^data_?sources$/i;
/**
 * What a model is told, and no vendor looks up: the samples in a JSON schema, the words for a
 * template, the texts to answer from.
 */
const toldName =
  /^(?:default|const|enum|examples?|dependentRequired|chat_template_kwargs|documents)$/;

const keptThere = 'refers to what a provider keeps in its account';

/** Where the first id of such a thing stands in `value`, which itself stands at `path`. */
export function keptIn(value: object, path: string): OwnAccountNeed | undefined {
  const container = containerAt(fieldsOf(value).container);
  if (container === undefined) return keptBesideContainer(value, path);
  return { param: paramAt(path, container), why: `${keptThere}: leave it out` };
}

/** The same without `container`, which outside of chats is the format of a file. */
export function keptBesideContainer(value: object, path: string): OwnAccountNeed | undefined {
  const place = placeIn(value);
  return place === undefined ? undefined : keptAt(paramAt(path, place));
}

function paramAt(path: string, place: string): string {
  return (path + place).replace(/^\./, '');
}

/**
 * A container in the account, by its id. Looked for in this field only: deeper inside a request the
 * word can mean anything, such as the format of a video.
 */
function containerAt(value: unknown): string | undefined {
  if (isText(value)) return '.container';
  return isObject(value) && isText(value.id) ? '.container.id' : undefined;
}

/** The way to the first id from here, as `.file_id` or `[2].source.file_id`. */
function placeIn(value: object): string | undefined {
  if (Array.isArray(value)) return placeInList(value);
  for (const [name, inner] of Object.entries(value)) {
    if (labelsName.test(name) || toldName.test(name)) continue;
    const place = isIdAt(name, inner) ? '' : placeInAny(inner);
    if (place !== undefined) return `.${name}${place}`;
  }
  return undefined;
}

function placeInList(list: readonly unknown[]): string | undefined {
  for (let at = 0; at < list.length; at += 1) {
    const place = placeInAny(list[at]);
    if (place !== undefined) return `[${at}]${place}`;
  }
  return undefined;
}

function placeInAny(value: unknown): string | undefined {
  return typeof value === 'object' && value !== null ? placeIn(value) : undefined;
}

function isIdAt(name: string, value: unknown): boolean {
  if (sourcesName.test(name)) return Array.isArray(value) && value.length > 0;
  return keptName.test(name) && (isText(value) || (Array.isArray(value) && value.some(isText)));
}

/** What is needed by the first of them that needs anything. */
export function firstNeed<One>(
  list: readonly One[],
  needOf: (one: One, at: number) => OwnAccountNeed | undefined,
): OwnAccountNeed | undefined {
  const needs = list.values().map(needOf);
  return needs.find((need) => need !== undefined);
}

export function keptAt(param: string): OwnAccountNeed {
  return { param, why: `${keptThere}: send the content itself` };
}

/** Schemes by which vendors reach a storage of the account: `gs:`, `s3:`, `ms:`. */
const storage = /^[^!-~]*(?!https?:|data:)[a-z][a-z\d+.-]{1,30}:/i;

/** For a field with bytes or their address: one in a storage of the account needs that account. */
export function keptBytes(text: string | null | undefined, param: string) {
  return text && storage.test(text) ? keptAt(param) : undefined;
}

/**
 * The region in which an answer is to be computed: any but `global` costs more. Refused and not
 * just left out, so that nobody believes it was followed.
 */
export function regionNeed(body: Readonly<Fields>): OwnAccountNeed | undefined {
  const { inference_geo: region } = body;
  if (typeof region !== 'string' || region === 'global') return undefined;
  return { param: 'inference_geo', why: 'has a price of its own: leave it out' };
}

/**
 * What OpenAI allows to accounts that it has checked, such as research into attacks: an operator
 * cannot lend that to tenants.
 */
export function programNeed({ access_programs: programs }: Readonly<Fields>) {
  const chosen = isObject(programs) ? Object.values(programs) : [];
  if (chosen.every((program) => (program ?? 'standard') === 'standard')) return undefined;
  return { param: 'access_programs', why: 'is allowed to one account only: leave it out' };
}
