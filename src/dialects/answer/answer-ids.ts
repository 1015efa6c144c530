/** Ids that the gateway makes: for answers and their items, and for calls that came without one. */
import { randomText } from '../../core/ids.ts';

/** `msg_…` for `chatcmpl-…`: the rest stays the same, so that each of the ids finds the request. */
export function answerId(kind: string, completionId: string): string {
  return `${kind}_${completionId.replace(/^chatcmpl-/, '')}`;
}

/** Clients refer to a tool call by its id, and not every upstream sends one. */
export function newCallId(kind: 'call' | 'toolu' = 'call'): string {
  return `${kind}_${randomText(24)}`;
}
