/** Addresses that upstreams fetch, in the parts of a request that only they know. */
import type { AddressInput } from '../../../core/ask.ts';
import { addressesMax } from '../../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../../core/errors.ts';
import { isObject } from '../../../core/json.ts';

/**
 * Under such a name a text may be fetched: `file_url`, `server_url`, `videoUri`, `input_image`. Of
 * `documents` alone the words are meant, which a model is to answer from.
 */
const fetched = 'image|audio|video|file|mask|media|server|document(?=s?_?ur)';
const fetchedName = new RegExp(`(?:^|_)(?:${fetched})s?(?:_?ur[il]|_data|_id)?s?$`, 'i');

/** What a source has its address in; some servers take one in place of a sound's bytes. */
const sourceName = /^(?:ur[il]|data)$/i;

/** Labels are kept, and nobody follows them: `metadata`, `client_metadata`. */
export const labelsName = /(?:^|_)metadata$/;

/**
 * What leads into a network or a machine; programs skip what cannot be seen before it. Words that
 * begin with "File: " lead nowhere.
 */
const address = /^[^!-~]*(?:https?|ftps?|file|gopher):(?! )/i;

export function tooManyAddresses(param: string): GatewayError {
  const message = `${param} is one address too many: at most ${addressesMax} are taken.`;
  return invalidRequest(message, param);
}

/** `value` stands at `path`; `isFetched` says whether a text under its name there is fetched. */
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
        // Lists of a million numbers are common: token ids, vectors.
        if (typeof inner[at] !== 'number') walk(inner[at], { name: at, outer: step }, isMeant);
      }
    } else if (isObject(inner)) {
      // Anthropic's way: `{"type": "url", "url": …}`.
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

/** One step of the way to a value. Most lead to no address: only for those it is written. */
interface Step {
  readonly name: string | number;
  readonly outer: Step | undefined;
}

function written(step: Step | undefined): string {
  if (step === undefined) return '';
  const { name, outer } = step;
  return written(outer) + (typeof name === 'number' ? `[${name}]` : `.${name}`);
}
