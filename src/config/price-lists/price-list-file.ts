import { invalidRequest } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import type { ListEntry } from './entry.ts';
import { parseExactJson } from './exact-price.ts';
import { isLiteLlmList, readLiteLlmList } from './litellm.ts';
import { isModelsDevList, readModelsDevList } from './models-dev.ts';

/** The lists had 2 to 4 MB in 2026. */
export const priceListBytesMax = 32 * 1024 * 1024;

export type PriceListFormat = 'litellm' | 'models_dev';

export const formatNames: Readonly<Record<PriceListFormat, string>> = {
  litellm: 'LiteLLM',
  models_dev: 'models.dev',
};

export interface PublicPriceList {
  readonly format: PriceListFormat;
  readonly entries: readonly ListEntry[];
}

/** Recognizes a list by its content. Throws 400 if it's neither. */
export function readPriceListFile(text: string): PublicPriceList {
  const data = parsed(text);
  if (isObject(data)) {
    if (isLiteLlmList(data)) return { format: 'litellm', entries: readLiteLlmList(data) };
    if (isModelsDevList(data)) return { format: 'models_dev', entries: readModelsDevList(data) };
  }
  throw invalidRequest(
    "It isn't a price list that Tollgate knows: LiteLLM's model_prices_and_context_window.json " +
      "or models.dev's api.json.",
  );
}

function parsed(text: string): unknown {
  if (/^\s*</.test(text)) {
    throw invalidRequest("It is a web page, not JSON. Use the address of the list's raw file.");
  }
  try {
    return parseExactJson(text);
  } catch {
    throw invalidRequest("It isn't valid JSON.");
  }
}
