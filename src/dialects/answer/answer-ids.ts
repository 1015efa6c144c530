/** The ids in an answer: ours for it and its items, and those of calls that came without one. */
import { randomText } from '../../core/ids.ts';

/** `msg_…` for `chatcmpl-…`: with the same rest, so that the request is found by any of them. */
export function answerId(kind: string, completionId: string): string {
  return `${kind}_${completionId.replace(/^chatcmpl-/, '')}`;
}

/** Clients answer a tool call by its id, and not every upstream gives it one. */
export function newCallId(kind: 'call' | 'toolu' = 'call'): string {
  return `${kind}_${randomText(24)}`;
}
