/** Addresses that upstreams fetch, in the parts of a request that only they know. */
import type { AddressInput } from '../../core/ask.ts';
import { isObject } from '../../core/json.ts';

/** Under such a name a text may be fetched: `file_url`, `server_url`, `videoUri`, `input_image`. */
const fetchedName =
  /(?:^|_)(?:image|audio|video|file|mask|media|document|server)s?(?:_?ur[il]|_data|_id)?s?$/i;

/** What a source has its address in; some servers take one in place of a sound's bytes. */
const sourceName = /^(?:ur[il]|data)$/i;

/** What leads into a network or a machine; programs skip what cannot be seen before it. */
const address = /^[^!-~]*(?:https?|ftps?|file|gopher):/i;

const none: readonly never[] = [];

/** Where `value` stands is `path`; of the name it has there, `isFetched` says what it means. */
export function addressesIn(
  value: unknown,
  path: string,
  isFetched = false,
): readonly AddressInput[] {
  if (typeof value === 'string') {
    return isFetched && address.test(value) ? [{ param: path, url: value }] : none;
  }
  if (Array.isArray(value)) {
    return value.flatMap((item, at) => addressesIn(item, `${path}[${at}]`, isFetched));
  }
  if (!isObject(value)) return none;
  // Anthropic's way: `{"type": "url", "url": …}`.
  const isSource = isFetched || value.type === 'url';
  return Object.entries(value).flatMap(([name, inner]) => {
    const isMeant = fetchedName.test(name) || (isSource && sourceName.test(name));
    return addressesIn(inner, path === '' ? name : `${path}.${name}`, isMeant);
  });
}
