import { Type } from 'typebox';
import { addressesMax } from '../../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../../core/errors.ts';
import { type Fields, fieldsOf, isObject, isText } from '../../../core/json.ts';
import type { AddressInput, OwnAccountNeed } from '../../../core/request-info.ts';

/** Addresses in requests. Schemes may have capitals, and JSON Schema patterns have no such flag. */

const web = '[Hh][Tt][Tt][Pp][Ss]?://';

export const webAddress = Type.String({ pattern: `^${web}`, expected: 'an http(s) address' });

export const imageAddress = Type.String({
  pattern: `^(${web}|[Dd][Aa][Tt][Aa]:)`,
  expected: 'an http(s) address or a base64 data: URL',
});

/** Finds addresses that upstreams fetch, in parts of a request that only upstreams know. */

/**
 * Names of fields whose text may be fetched: `file_url`, `server_url`, `videoUri`, `input_image`.
 * A field `documents` is none of them: it holds the words that a model is to answer from.
 */
const fetched = 'image|audio|video|file|mask|media|server|document(?=s?_?ur)';
const fetchedName = new RegExp(`(?:^|_)(?:${fetched})s?(?:_?ur[il]|_data|_id)?s?$`, 'i');

/** The field of a source that has its address; some servers also take one in `data` of a sound. */
const sourceName = /^(?:ur[il]|data)$/i;

/** Names of fields with labels, which are only stored: `metadata`, `client_metadata`. */
const labelsName = /(?:^|_)metadata$/;

/**
 * An address in a network or on a machine. Programs skip invisible characters before it, so the
 * pattern does, too. A text that begins with "File: " is not an address.
 */
const address = /^[^!-~]*(?:https?|ftps?|file|gopher):(?! )/i;

export function tooManyAddresses(param: string): GatewayError {
  const message = `${param} is one address too many: at most ${addressesMax} are taken.`;
  return invalidRequest(message, param);
}

/** `value` stands at `path`; `isFetched` says whether it would be fetched if it is a text. */
export function addressesIn(
  value: unknown,
  path: string,
  isFetched = false,
): readonly AddressInput[] {
  const found: AddressInput[] = [];
  const walk = (inner: unknown, step: Step | undefined, isCandidate: boolean): void => {
    if (typeof inner === 'string') {
      if (!isCandidate || !address.test(inner)) return;
      const param = (path + pathOf(step)).replace(/^\./, '');
      if (found.length === addressesMax) throw tooManyAddresses(param);
      found.push({ param, url: inner });
    } else if (Array.isArray(inner)) {
      for (let at = 0; at < inner.length; at += 1) {
        // Numbers are skipped at once: lists of a million token ids or vectors are common.
        if (typeof inner[at] !== 'number') walk(inner[at], { name: at, parent: step }, isCandidate);
      }
    } else if (isObject(inner)) {
      // Anthropic writes a source as `{"type": "url", "url": …}`.
      const isSource = isCandidate || inner.type === 'url';
      for (const name of Object.keys(inner)) {
        if (labelsName.test(name)) continue;
        const isNamed = fetchedName.test(name) || (isSource && sourceName.test(name));
        walk(inner[name], { name, parent: step }, isNamed);
      }
    }
  };
  walk(value, undefined, isFetched);
  return found;
}

/** One step of the path to a value. The path is written out only if it leads to an address. */
interface Step {
  readonly name: string | number;
  readonly parent: Step | undefined;
}

function pathOf(step: Step | undefined): string {
  if (step === undefined) return '';
  const { name, parent } = step;
  return pathOf(parent) + (typeof name === 'number' ? `[${name}]` : `.${name}`);
}

/**
 * Finds what reaches into the account that pays the vendor: ids of files, stores and containers
 * there, and tunnels into the network of its owner. Tenants share the operator's accounts, so an
 * id may well be another tenant's.
 */

const storedIdName =
  /^(?:(?:file|vector_?store|collection|container|tunnel)_?ids?|cached_?content)$/i;
/** The field for sources that Azure searches with the rights of the account. */
const sourcesName = /^data_?sources$/i;
/**
 * Fields that are only words for the model, in which no vendor looks up ids: samples in a JSON
 * schema, words for a template, texts to answer from.
 */
const freeFieldName =
  /^(?:default|const|enum|examples?|dependentRequired|chat_template_kwargs|documents)$/;

const storedContentProblem = 'refers to what a provider keeps in its account';

/** Where the first id of such a thing stands in `value`, which itself stands at `path`. */
export function storedContentIn(value: object, path: string): OwnAccountNeed | undefined {
  const container = containerAt(fieldsOf(value).container);
  if (container === undefined) return storedContentOutsideContainer(value, path);
  return { param: paramAt(path, container), why: `${storedContentProblem}: leave it out` };
}

/** Like `keptIn`, but without `container`, which outside of chats is the format of a file. */
export function storedContentOutsideContainer(
  value: object,
  path: string,
): OwnAccountNeed | undefined {
  const idPath = storedIdPath(value);
  return idPath === undefined ? undefined : storedContentAt(paramAt(path, idPath));
}

function paramAt(path: string, idPath: string): string {
  return (path + idPath).replace(/^\./, '');
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
function storedIdPath(value: object): string | undefined {
  if (Array.isArray(value)) return storedIdPathInList(value);
  for (const [name, inner] of Object.entries(value)) {
    if (labelsName.test(name) || freeFieldName.test(name)) continue;
    const idPath = isIdAt(name, inner) ? '' : storedIdPathInAny(inner);
    if (idPath !== undefined) return `.${name}${idPath}`;
  }
  return undefined;
}

function storedIdPathInList(list: readonly unknown[]): string | undefined {
  for (let at = 0; at < list.length; at += 1) {
    const idPath = storedIdPathInAny(list[at]);
    if (idPath !== undefined) return `[${at}]${idPath}`;
  }
  return undefined;
}

function storedIdPathInAny(value: unknown): string | undefined {
  return typeof value === 'object' && value !== null ? storedIdPath(value) : undefined;
}

function isIdAt(name: string, value: unknown): boolean {
  if (sourcesName.test(name)) return Array.isArray(value) && value.length > 0;
  return storedIdName.test(name) && (isText(value) || (Array.isArray(value) && value.some(isText)));
}

/** The need of the first one in the list that has any. */
export function firstNeed<Item>(
  list: readonly Item[],
  needOf: (item: Item, at: number) => OwnAccountNeed | undefined,
): OwnAccountNeed | undefined {
  const needs = list.values().map(needOf);
  return needs.find((need) => need !== undefined);
}

export function storedContentAt(param: string): OwnAccountNeed {
  return { param, why: `${storedContentProblem}: send the content itself` };
}

/** Addresses by which vendors reach a storage of the account: `gs:`, `s3:`, `ms:`. */
const storageAddress = /^[^!-~]*(?!https?:|data:)[a-z][a-z\d+.-]{1,30}:/i;

/** For a field with bytes or their address: one in an account's storage needs that account. */
export function storedBytes(text: string | null | undefined, param: string) {
  return text && storageAddress.test(text) ? storedContentAt(param) : undefined;
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
