import { randomText } from '../../../core/ids.ts';
import { isNonEmptyString } from '../../../core/json.ts';

// Creates IDs for answers, for their items, and for calls that have no upstream ID.

/**
 * Returns `msg_…` for `chatcmpl-…`. The part after the prefix stays the same, so that the request
 * can be found by any of its IDs.
 */
export function answerId(kind: string, completionId: string): string {
  return `${kind}_${completionId.replace(/^chatcmpl-/, '')}`;
}

/** Creates a call ID. Clients refer to a tool call by its ID, and not every upstream sends one. */
export function newCallId(kind: 'call' | 'toolu' = 'call'): string {
  return `${kind}_${randomText(24)}`;
}

/** Replaces the upstream's model name with the alias wherever it is a value in a JSON text. */
export function renameModel(json: string, upstreamModel: unknown, alias: string): string {
  if (!isNonEmptyString(upstreamModel)) return json;
  return json.replaceAll(JSON.stringify(upstreamModel), JSON.stringify(alias));
}
