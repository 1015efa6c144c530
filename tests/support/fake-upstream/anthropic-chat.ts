/** Writes messages as Anthropic sends them: text, thinking, and tool calls. */

import type { ChatAnswer } from './behavior.ts';
import {
  answerText,
  argumentPieces,
  argumentsOf,
  finishOf,
  type TokenCounts,
  textPieces,
  tokenCounts,
} from './chat-tokens.ts';
import type { ParsedRequest } from './parsed-request.ts';
import type { SseEvent } from './sse.ts';

const signature = 'ZmFrZS1zaWduYXR1cmU=';

const stopReasons: Readonly<Record<string, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

function stopReason(answer: ChatAnswer): string {
  const finish = finishOf(answer);
  return stopReasons[finish] ?? finish;
}

/** Unlike OpenAI's prompt tokens, `input_tokens` excludes cached tokens. */
function usageOf(answer: ChatAnswer, counts: TokenCounts): unknown {
  if (answer.usageSent === 'none') return undefined;
  if (answer.usageSent !== undefined) return answer.usageSent;
  return {
    input_tokens: counts.prompt - counts.cached,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: counts.cached,
    output_tokens: counts.completion,
  };
}

function messageOf(request: ParsedRequest, id: number) {
  const model = request.model;
  return { id: `msg_fake_${id}`, type: 'message', role: 'assistant', model };
}

function toolUse(tool: { readonly name: string; readonly id?: string }, index: number) {
  return { type: 'tool_use', id: tool.id ?? `toolu_fake_${index}`, name: tool.name };
}

function inputOf(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}

export function anthropicReply(answer: ChatAnswer, request: ParsedRequest, id: number): SseEvent {
  const text = answerText(answer, request);
  const usage = usageOf(answer, tokenCounts(answer, request, text));
  const tools = answer.tools ?? [];
  const thinking = answer.reasoning;
  const content = [
    ...(thinking === undefined ? [] : [{ type: 'thinking', thinking, signature }]),
    ...(text === '' ? [] : [{ type: 'text', text }]),
    ...tools.map((tool, n) => ({ ...toolUse(tool, n), input: inputOf(argumentsOf(tool)) })),
  ];
  const body = {
    ...messageOf(request, id),
    content,
    stop_reason: stopReason(answer),
    stop_sequence: null,
    ...(usage !== undefined && { usage }),
  };
  const toolText = tools.map((tool) => ` ${tool.name} ${argumentsOf(tool)}`).join('');
  const counted = `${thinking ?? ''} ${text}${toolText}`;
  return { data: JSON.stringify(body), text, counted, ...(usage !== undefined && { usage }) };
}

type EventNotes = Omit<SseEvent, 'name' | 'data'>;

function event(
  data: { readonly type: string; readonly [key: string]: unknown },
  notes: EventNotes = {},
) {
  return { name: data.type, data: JSON.stringify(data), ...notes };
}

interface Block {
  readonly start: object;
  readonly deltas: Iterable<{ readonly delta: object; readonly notes?: EventNotes }>;
  readonly notes?: EventNotes;
}

function* blocks(answer: ChatAnswer, text: string): Generator<Block> {
  if (answer.reasoning !== undefined) {
    const pieces = [...textPieces(answer.reasoning, undefined)];
    const thoughts = pieces.map((thinking) => ({
      delta: { type: 'thinking_delta', thinking },
      notes: { counted: thinking },
    }));
    const signed = { delta: { type: 'signature_delta', signature } };
    const start = { type: 'thinking', thinking: '', signature: '' };
    yield { start, deltas: [...thoughts, signed] };
  }
  if (text !== '') yield { start: { type: 'text', text: '' }, deltas: textDeltas(answer, text) };
  for (const [index, tool] of (answer.tools ?? []).entries()) {
    // A tool block begins with an empty fragment, even without arguments.
    const fragments = ['', ...argumentPieces(argumentsOf(tool))].map((partial_json) => ({
      delta: { type: 'input_json_delta', partial_json },
      notes: { counted: partial_json },
    }));
    const start = { ...toolUse(tool, index), input: {} };
    yield { start, deltas: fragments, notes: { counted: ` ${tool.name} ` } };
  }
}

/** A generator, so that a million tiny events are never in memory at once. */
function* textDeltas(answer: ChatAnswer, text: string) {
  // Separates the last word of the reasoning from the first of the text in the token count.
  let gap = ' ';
  for (const piece of textPieces(text, answer.chunks)) {
    const notes = { text: piece, counted: gap + piece };
    yield { delta: { type: 'text_delta', text: piece }, notes };
    gap = '';
  }
}

export function* anthropicEvents(
  answer: ChatAnswer,
  request: ParsedRequest,
  id: number,
): Generator<SseEvent> {
  const text = answerText(answer, request);
  const counts = tokenCounts(answer, request, text);
  const usage = usageOf(answer, counts);
  const opening = usageOf(answer, { ...counts, completion: 1 });
  const message = {
    ...messageOf(request, id),
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...(opening !== undefined && { usage: opening }),
  };
  yield event({ type: 'message_start', message });
  yield event({ type: 'ping' });
  let index = 0;
  for (const block of blocks(answer, text)) {
    yield event({ type: 'content_block_start', index, content_block: block.start }, block.notes);
    for (const { delta, notes } of block.deltas) {
      yield event({ type: 'content_block_delta', index, delta }, notes);
    }
    yield event({ type: 'content_block_stop', index });
    index += 1;
  }
  const delta = { stop_reason: stopReason(answer), stop_sequence: null };
  yield event(
    { type: 'message_delta', delta, ...(usage !== undefined && { usage }) },
    usage === undefined ? {} : { usage },
  );
  if (answer.ending === 'no-done') return;
  yield event({ type: 'message_stop' });
  if (answer.ending === 'done-twice') yield event({ type: 'message_stop' });
  if (answer.ending === 'data-after-done') {
    const late = { type: 'text_delta', text: 'too late' };
    yield event({ type: 'content_block_delta', index: 0, delta: late });
  }
}

export function anthropicError(status: number, message: string): object {
  const types: Readonly<Record<number, string>> = {
    401: 'authentication_error',
    403: 'permission_error',
    404: 'not_found_error',
    413: 'request_too_large',
    429: 'rate_limit_error',
    529: 'overloaded_error',
  };
  const type = types[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  return { type: 'error', error: { type, message }, request_id: 'req_fake' };
}
