import { randomText } from '../../../core/ids.ts';
import { isText } from '../../../core/json.ts';

/** Ids that the gateway makes: for answers and their items, and for calls that came without one. */

/** `msg_…` for `chatcmpl-…`: the rest stays the same, so that each of the ids finds the request. */
export function answerId(kind: string, completionId: string): string {
  return `${kind}_${completionId.replace(/^chatcmpl-/, '')}`;
}

/** Clients refer to a tool call by its id, and not every upstream sends one. */
export function newCallId(kind: 'call' | 'toolu' = 'call'): string {
  return `${kind}_${randomText(24)}`;
}

/** Puts the alias wherever a JSON text has the upstream's name of the model as a value. */
export function renameModel(json: string, upstreamModel: unknown, alias: string): string {
  if (!isText(upstreamModel)) return json;
  return json.replaceAll(JSON.stringify(upstreamModel), JSON.stringify(alias));
}
