/** The choices of an answer, and the mending of those in a whole reply. */
import { type Fields, isObject } from '../../core/json.ts';
import { callAsTool, charactersIn, mendText, readFinishReason } from './message.ts';
import { completeToolCalls, mendToolCalls } from './tool-calls.ts';

/** The failure of a whole answer that says nothing. */
export const noOutput = 'The upstream answered without any output and without a finish reason.';

/** Whether `value` can be a choice's number; absurd ones would make holes in clients' arrays. */
export function isChoiceIndex(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 1024;
}

function mendMessage(raw: unknown, hearsTools: boolean): Fields {
  // Azure leaves the message out of a choice that its filter took.
  if (!isObject(raw)) return { role: 'assistant', content: '' };
  mendText(raw);
  if (hearsTools) callAsTool(raw);
  raw.role = 'assistant';
  if (raw.content === undefined) raw.content = null;
  if (raw.tool_calls === undefined) return raw;
  const calls = mendToolCalls([raw.tool_calls].flat());
  raw.tool_calls = calls.length > 0 ? calls : undefined;
  return raw;
}

export interface MendedChoice {
  readonly message: Fields;
  readonly index: number;
  readonly characters: number;
  readonly finishReason: string | null;
}

/** Mends a choice in place. If the client `hearsTools`, a `function_call` becomes a tool call. */
export function mendChoice(choice: Fields, position: number, hearsTools = false): MendedChoice {
  // Some servers answer with a single chunk of a stream, although no stream was asked for.
  const message = mendMessage(choice.message ?? choice.delta, hearsTools);
  const index = isChoiceIndex(choice.index) ? choice.index : position;
  const { tool_calls: calls } = message;
  const finishReason = readFinishReason(choice.finish_reason, calls !== undefined);
  if (finishReason === 'tool_calls' && Array.isArray(calls)) completeToolCalls(calls);
  choice.index = index;
  choice.message = message;
  if (choice.delta !== undefined) choice.delta = undefined;
  choice.finish_reason = finishReason;
  return { message, index, characters: charactersIn(message), finishReason };
}
