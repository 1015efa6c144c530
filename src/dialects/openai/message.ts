/** What a delta of a stream and the message of a whole reply have in common, and how to mend it. */
import { isObject } from '../../core/json.ts';

/** The words other servers use, in OpenAI's. A word not listed stays as it is: never invent. */
const finishReasons: ReadonlyMap<string, string> = new Map([
  // Some shout them.
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['content_filter', 'content_filter'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['pause_turn', 'stop'],
  ['complete', 'stop'],
  ['model_length', 'length'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['function_call', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['tool_call', 'tool_calls'],
  ['refusal', 'content_filter'],
  ['safety', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['content_filtered', 'content_filter'],
  ['guardrail_intervened', 'content_filter'],
]);

/**
 * The finish reason a client sees; null while there is none. Local servers say `stop` although
 * they delivered tool calls, and then clients would never run the tools.
 */
export function readFinishReason(raw: unknown, hasToolCalls: boolean): string | null {
  if (typeof raw !== 'string' || raw === '') return null;
  const reason = finishReasons.get(raw.toLowerCase()) ?? raw;
  return reason === 'stop' && hasToolCalls ? 'tool_calls' : reason;
}

/** A thinking part has its text as a string or as a list of text parts. */
function textOf(part: unknown): string {
  if (typeof part === 'string') return part;
  if (Array.isArray(part)) return part.map(textOf).join('');
  if (!isObject(part)) return '';
  return typeof part.text === 'string' ? part.text : '';
}

/** Reasoning under the names that servers give it; the first that has text wins. */
function reasoningElsewhere(holder: Record<string, unknown>): string {
  const { reasoning_content: content, reasoning_details: details } = holder;
  if (typeof content === 'string' && content !== '') return content;
  if (!Array.isArray(details)) return '';
  const texts = details.filter(isObject).map(({ text, summary }) => textOf(text ?? summary));
  return texts.join('');
}

/** Mistral sends content as a list of parts once a model thinks. */
function splitParts(holder: Record<string, unknown>): void {
  const parts = Array.isArray(holder.content) ? holder.content : [holder.content];
  const isThinking = (part: unknown) => isObject(part) && part.type === 'thinking';
  const thoughts = parts.filter(isThinking).map((part) => textOf(part.thinking));
  const texts = parts.filter((part) => !isThinking(part)).map(textOf);
  holder.content = texts.join('');
  const reasoning = thoughts.join('');
  if (reasoning !== '') holder.reasoning = reasoning;
}

/** Makes `content` a text and offers reasoning as `reasoning`; true if anything had to change. */
export function repairText(holder: Record<string, unknown>): boolean {
  const { content } = holder;
  const isParts = typeof content !== 'string' && content !== null && content !== undefined;
  if (isParts) splitParts(holder);
  if (typeof holder.reasoning === 'string' && holder.reasoning !== '') return isParts;
  const reasoning = reasoningElsewhere(holder);
  if (reasoning === '') return isParts;
  holder.reasoning = reasoning;
  return true;
}

/** Takes out what a client does not want to see of thoughts; true if there was any. */
export function hideReasoning(holder: Record<string, unknown>): boolean {
  const { reasoning, reasoning_content: content, reasoning_details: details } = holder;
  if (reasoning === undefined && content === undefined && details === undefined) return false;
  holder.reasoning = undefined;
  holder.reasoning_content = undefined;
  holder.reasoning_details = undefined;
  return true;
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' ? value.length : 0;
}

/** Characters a client receives, counted on a mended message or delta. */
export function charactersIn(holder: Record<string, unknown>): number {
  let characters = lengthOf(holder.content) + lengthOf(holder.reasoning) + lengthOf(holder.refusal);
  if (!Array.isArray(holder.tool_calls)) return characters;
  for (const call of holder.tool_calls) {
    const body: unknown = isObject(call) ? (call.function ?? call.custom) : undefined;
    if (!isObject(body)) continue;
    characters += lengthOf(body.name) + lengthOf(body.arguments) + lengthOf(body.input);
  }
  return characters;
}
