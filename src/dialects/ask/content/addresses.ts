/** Finds addresses that upstreams fetch, in parts of a request that only upstreams know. */
import type { AddressInput } from '../../../core/ask.ts';
import { addressesMax } from '../../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../../core/errors.ts';
import { isObject } from '../../../core/json.ts';

/**
 * Names of fields whose text may be fetched: `file_url`, `server_url`, `videoUri`, `input_image`.
 * A field `documents` is none of them: it holds the words that a model is to answer from.
 */
const fetched = 'image|audio|video|file|mask|media|server|document(?=s?_?ur)';
const fetchedName = new RegExp(`(?:^|_)(?:${fetched})s?(?:_?ur[il]|_data|_id)?s?$`, 'i');

/** The field of a source that has its address; some servers also take one in `data` of a sound. */
const sourceName = /^(?:ur[il]|data)$/i;

/** Names of fields with labels, which are only stored: `metadata`, `client_metadata`. */
export const labelsName = /(?:^|_)metadata$/;

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
  const walk = (inner: unknown, step: Step | undefined, isMeant: boolean): void => {
    if (typeof inner === 'string') {
      if (!isMeant || !address.test(inner)) return;
      const param = (path + written(step)).replace(/^\./, '');
      if (found.length === addressesMax) throw tooManyAddresses(param);
      found.push({ param, url: inner });
    } else if (Array.isArray(inner)) {
      for (let at = 0; at < inner.length; at += 1) {
        // Numbers are skipped at once: lists of a million token ids or vectors are common.
        if (typeof inner[at] !== 'number') walk(inner[at], { name: at, outer: step }, isMeant);
      }
    } else if (isObject(inner)) {
      // Anthropic writes a source as `{"type": "url", "url": …}`.
      const isSource = isMeant || inner.type === 'url';
      for (const name of Object.keys(inner)) {
        if (labelsName.test(name)) continue;
        const isNamed = fetchedName.test(name) || (isSource && sourceName.test(name));
        walk(inner[name], { name, outer: step }, isNamed);
      }
    }
  };
  walk(value, undefined, isFetched);
  return found;
}

/** One step of the path to a value. The path is written out only if it leads to an address. */
interface Step {
  readonly name: string | number;
  readonly outer: Step | undefined;
}

function written(step: Step | undefined): string {
  if (step === undefined) return '';
  const { name, outer } = step;
  return written(outer) + (typeof name === 'number' ? `[${name}]` : `.${name}`);
}
