import { type NanoUsd, parseUsd } from './money.ts';

/** What an endpoint charges, parsed once at start. An absent price is zero. */
export interface Prices {
  /** Per million tokens. */
  readonly prompt: NanoUsd;
  readonly audio: NanoUsd;
  readonly completion: NanoUsd;
  readonly cacheRead: NanoUsd;
  readonly cacheWrite: NanoUsd;
  readonly cacheWrite1h: NanoUsd;
  /** Each. */
  readonly request: NanoUsd;
  readonly image: NanoUsd;
  readonly outputImage: NanoUsd;
  readonly minute: NanoUsd;
  /** Per million. */
  readonly characters: NanoUsd;
  readonly bytes: NanoUsd;
}

/**
 * Cached input and sounds cost what plain input costs unless the endpoint says otherwise, and
 * keeping input for an hour what keeping it costs.
 */
export function readPrices(texts: Readonly<Record<string, string | undefined>>): Prices {
  const price = (name: string, instead = name, last = instead): NanoUsd =>
    parseUsd(texts[name] ?? texts[instead] ?? texts[last] ?? '0') ?? 0n;
  return {
    prompt: price('prompt'),
    audio: price('audio', 'prompt'),
    completion: price('completion'),
    cacheRead: price('cache_read', 'prompt'),
    cacheWrite: price('cache_write', 'prompt'),
    cacheWrite1h: price('cache_write_1h', 'cache_write', 'prompt'),
    request: price('request'),
    image: price('image'),
    outputImage: price('output_image'),
    minute: price('minute'),
    characters: price('characters'),
    bytes: price('bytes'),
  };
}

/** Dollars per token, as `pricing` in the model list quotes them: `"0.50"` per million is 5e-7. */
export function perToken(perMillion: NanoUsd): string {
  const digits = perMillion.toString().padStart(16, '0');
  return `${digits.slice(0, -15)}.${digits.slice(-15)}`.replace(/\.?0+$/, '');
}
