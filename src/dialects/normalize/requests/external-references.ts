import { Type } from 'typebox';
import { requestUrlsMax } from '../../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../../core/errors.ts';
import { fieldsOf, isNonEmptyString, isObject, type JsonObject } from '../../../core/json.ts';
import type { OwnAccountRequirement, UrlInput } from '../../../core/request-info.ts';

// URLs in requests. Schemes may be uppercase, and JSON Schema patterns have no flag to ignore case.

const web = '[Hh][Tt][Tt][Pp][Ss]?://';

export const webUrl = Type.String({ pattern: `^${web}`, expected: 'an http(s) URL' });

export const imageUrl = Type.String({
  pattern: `^(${web}|[Dd][Aa][Tt][Aa]:)`,
  expected: 'an http(s) URL or a base64 data: URL',
});

// Finds URLs that an upstream may fetch, in fields that the gateway doesn't know.

/**
 * Names of fields whose strings may be fetched: `file_url`, `server_url`, `videoUri`,
 * `input_image`. `documents` isn't included, because it contains the text that a model answers
 * from.
 */
const fetched = 'image|audio|video|file|mask|media|server|document(?=s?_?ur)';
const fetchedName = new RegExp(`(?:^|_)(?:${fetched})s?(?:_?ur[il]|_data|_id)?s?$`, 'i');

/**
 * The name of a source's URL field. Some servers also accept a URL in the `data` field of audio.
 */
const sourceName = /^(?:ur[il]|data)$/i;

/**
 * Names of fields with the client's labels, which vendors only store: `metadata`,
 * `client_metadata`.
 */
const labelsName = /(?:^|_)metadata$/;

/**
 * The start of a URL that a server may fetch, possibly after spaces or invisible characters, which
 * programs skip. A string that starts with "File: " isn't a URL.
 */
const fetchableUrl = /^[^!-~]*(?:https?|ftps?|file|gopher):(?! )/i;

export function tooManyUrls(param: string): GatewayError {
  const problem = `The request has more than ${requestUrlsMax} URLs.`;
  const message = `${problem} The first one over the limit is ${param}.`;
  return invalidRequest(message, param);
}

/**
 * Finds the URLs in `value`, which is at `path`. `isFetched`: a string at `path` itself may be
 * fetched.
 */
export function urlsIn(value: unknown, path: string, isFetched = false): readonly UrlInput[] {
  const found: UrlInput[] = [];
  const walk = (inner: unknown, step: Step | undefined, isCandidate: boolean): void => {
    if (typeof inner === 'string') {
      if (!isCandidate || !fetchableUrl.test(inner)) return;
      const param = (path + pathOf(step)).replace(/^\./, '');
      if (found.length === requestUrlsMax) throw tooManyUrls(param);
      found.push({ param, url: inner });
    } else if (Array.isArray(inner)) {
      for (let index = 0; index < inner.length; index += 1) {
        // Skip numbers early: lists of a million token IDs or vectors are common.
        if (typeof inner[index] !== 'number')
          walk(inner[index], { name: index, parent: step }, isCandidate);
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

/** One step of the path to a value. The path is built only if it leads to a URL. */
interface Step {
  readonly name: string | number;
  readonly parent: Step | undefined;
}

function pathOf(step: Step | undefined): string {
  if (step === undefined) return '';
  const { name, parent } = step;
  return pathOf(parent) + (typeof name === 'number' ? `[${name}]` : `.${name}`);
}

// Finds IDs of content in the vendor account that is billed: files, vector stores, containers, and
// tunnels into the account owner's network. Tenants share the operator's accounts, so an ID may
// belong to another tenant.

const storedIdName =
  /^(?:(?:file|vector_?store|collection|container|tunnel)_?ids?|cached_?content)$/i;
/** Azure's field for data sources. Azure searches them with the account's permissions. */
const sourcesName = /^data_?sources$/i;
/**
 * Fields that contain only text for the model: JSON Schema samples, template values, and documents
 * to answer from. Vendors don't look up IDs in them.
 */
const freeFieldName =
  /^(?:default|const|enum|examples?|dependentRequired|chat_template_kwargs|documents)$/;

const storedContentProblem = "references content in the provider's account";

/**
 * If `value`, which is at `path`, contains an ID of content stored in a vendor account, returns why
 * the request requires the tenant's own account.
 */
export function storedContentIn(value: object, path: string): OwnAccountRequirement | undefined {
  const container = containerAt(fieldsOf(value).container);
  if (container === undefined) return storedContentOutsideContainer(value, path);
  return { param: paramAt(path, container), why: `${storedContentProblem}: leave it out` };
}

/**
 * Works like `storedContentIn`, but ignores `container`, which is a file format in requests other
 * than chat.
 */
export function storedContentOutsideContainer(
  value: object,
  path: string,
): OwnAccountRequirement | undefined {
  const idPath = storedIdPath(value);
  return idPath === undefined ? undefined : storedContentAt(paramAt(path, idPath));
}

function paramAt(path: string, idPath: string): string {
  return (path + idPath).replace(/^\./, '');
}

/**
 * Returns the path of a container's ID. Only the top-level `container` is checked: deeper in a
 * request, a field with this name can mean anything, such as a video format.
 */
function containerAt(value: unknown): string | undefined {
  if (isNonEmptyString(value)) return '.container';
  return isObject(value) && isNonEmptyString(value.id) ? '.container.id' : undefined;
}

/** Returns the path of the first ID in `value`, such as `.file_id` or `[2].source.file_id`. */
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
  for (let index = 0; index < list.length; index += 1) {
    const idPath = storedIdPathInAny(list[index]);
    if (idPath !== undefined) return `[${index}]${idPath}`;
  }
  return undefined;
}

function storedIdPathInAny(value: unknown): string | undefined {
  return typeof value === 'object' && value !== null ? storedIdPath(value) : undefined;
}

function isIdAt(name: string, value: unknown): boolean {
  if (sourcesName.test(name)) return Array.isArray(value) && value.length > 0;
  return (
    storedIdName.test(name) &&
    (isNonEmptyString(value) || (Array.isArray(value) && value.some(isNonEmptyString)))
  );
}

/** Returns the first result of `requirementOf` that isn't undefined. */
export function firstRequirement<Item>(
  list: readonly Item[],
  requirementOf: (item: Item, at: number) => OwnAccountRequirement | undefined,
): OwnAccountRequirement | undefined {
  let at = 0;
  for (const item of list) {
    const requirement = requirementOf(item, at);
    if (requirement !== undefined) return requirement;
    at += 1;
  }
  return undefined;
}

export function storedContentAt(param: string): OwnAccountRequirement {
  return { param, why: `${storedContentProblem}: send the content itself` };
}

/** The start of a URL in an account's storage: `gs:`, `s3:`, `ms:`. */
const storageUrl = /^[^!-~]*(?!https?:|data:)[a-z][a-z\d+.-]{1,30}:/i;

/** Checks a field with base64 or a URL. A URL in an account's storage requires that account. */
export function storedBytes(text: string | null | undefined, param: string) {
  return text && storageUrl.test(text) ? storedContentAt(param) : undefined;
}

/**
 * Rejects regions other than `global`, because they cost more. Dropping the field would let the
 * client believe that the region was used.
 */
export function regionRequirement(body: Readonly<JsonObject>): OwnAccountRequirement | undefined {
  const { inference_geo: region } = body;
  if (typeof region !== 'string' || region === 'global') return undefined;
  return { param: 'inference_geo', why: 'has a separate price: leave it out' };
}

/**
 * Rejects access programs, such as security research, which OpenAI offers only to verified
 * accounts. An operator can't share that access with tenants.
 */
export function programRequirement({ access_programs: programs }: Readonly<JsonObject>) {
  const chosen = isObject(programs) ? Object.values(programs) : [];
  if (chosen.every((program) => (program ?? 'standard') === 'standard')) return undefined;
  return {
    param: 'access_programs',
    why: 'is allowed only for accounts that the provider has verified: leave it out',
  };
}
