/**
 * Finds what reaches into the account that pays the vendor: ids of files, stores and containers
 * there, and tunnels into the network of its owner. Tenants share the operator's accounts, so an
 * id may well be another tenant's.
 */
import type { OwnAccountNeed } from '../../../core/ask.ts';
import { type Fields, fieldsOf, isObject, isText } from '../../../core/json.ts';
import { labelsName } from '../content/addresses.ts';

const keptName = /^(?:(?:file|vector_?store|collection|container|tunnel)_?ids?|cached_?content)$/i;
/** The field for sources that Azure searches with the rights of the account. */
const sourcesName = /^data_?sources$/i;
/**
 * Fields that are only words for the model, in which no vendor looks up ids: samples in a JSON
 * schema, words for a template, texts to answer from.
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

/** Like `keptIn`, but without `container`, which outside of chats is the format of a file. */
export function keptBesideContainer(value: object, path: string): OwnAccountNeed | undefined {
  const place = placeIn(value);
  return place === undefined ? undefined : keptAt(paramAt(path, place));
}

function paramAt(path: string, place: string): string {
  return (path + place).replace(/^\./, '');
}

/**
 * The path of a container's id. Only this field is searched: deeper inside a request the word
 * can mean anything, such as the format of a video.
 */
function containerAt(value: unknown): string | undefined {
  if (isText(value)) return '.container';
  return isObject(value) && isText(value.id) ? '.container.id' : undefined;
}

/** The path to the first id inside `value`, such as `.file_id` or `[2].source.file_id`. */
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

/** The need of the first one in the list that has any. */
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

/** Addresses by which vendors reach a storage of the account: `gs:`, `s3:`, `ms:`. */
const storage = /^[^!-~]*(?!https?:|data:)[a-z][a-z\d+.-]{1,30}:/i;

/** For a field with bytes or their address: one in an account's storage needs that account. */
export function keptBytes(text: string | null | undefined, param: string) {
  return text && storage.test(text) ? keptAt(param) : undefined;
}

/**
 * The region in which an answer is to be computed: any but `global` costs more. It is refused, not
 * left out, so that no client believes that it was followed.
 */
export function regionNeed(body: Readonly<Fields>): OwnAccountNeed | undefined {
  const { inference_geo: region } = body;
  if (typeof region !== 'string' || region === 'global') return undefined;
  return { param: 'inference_geo', why: 'has a price of its own: leave it out' };
}

/**
 * Programs that OpenAI opens only to accounts it has checked, such as research into attacks: an
 * operator cannot lend that permission to tenants.
 */
export function programNeed({ access_programs: programs }: Readonly<Fields>) {
  const chosen = isObject(programs) ? Object.values(programs) : [];
  if (chosen.every((program) => (program ?? 'standard') === 'standard')) return undefined;
  return { param: 'access_programs', why: 'is allowed to one account only: leave it out' };
}
