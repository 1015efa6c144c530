/** Writes Converse answers as Bedrock sends them: text, reasoning, and tool calls. */

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
  content_filter: 'content_filtered',
};

function stopReasonOf(answer: ChatAnswer): string {
  const finish = finishOf(answer);
  return stopReasons[finish] ?? finish;
}

/** Unlike OpenAI's prompt tokens, `inputTokens` excludes cached tokens. */
function usageOf(answer: ChatAnswer, { prompt, cached, completion }: TokenCounts): unknown {
  if (answer.usageSent === 'none') return undefined;
  if (answer.usageSent !== undefined) return answer.usageSent;
  return {
    inputTokens: prompt - cached,
    cacheReadInputTokens: cached,
    cacheWriteInputTokens: 0,
    outputTokens: completion,
    totalTokens: prompt + completion,
  };
}

function callOf(tool: { readonly name: string; readonly id?: string }, index: number) {
  return { toolUseId: tool.id ?? `tooluse_fake_${index}`, name: tool.name };
}

function inputOf(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}

export function bedrockReply(answer: ChatAnswer, request: ParsedRequest): SseEvent {
  const text = answerText(answer, request);
  const usage = usageOf(answer, tokenCounts(answer, request, text));
  const tools = answer.tools ?? [];
  const thought = answer.reasoning;
  const reasoningText = { text: thought, signature };
  const content = [
    ...(thought === undefined ? [] : [{ reasoningContent: { reasoningText } }]),
    ...(text === '' ? [] : [{ text }]),
    ...tools.map((tool, n) => ({
      toolUse: { ...callOf(tool, n), input: inputOf(argumentsOf(tool)) },
    })),
  ];
  const body = {
    output: { message: { role: 'assistant', content } },
    stopReason: stopReasonOf(answer),
    metrics: { latencyMs: 1 },
    ...(usage !== undefined && { usage }),
  };
  const toolText = tools.map((tool) => ` ${tool.name} ${argumentsOf(tool)}`).join('');
  const counted = `${thought ?? ''} ${text}${toolText}`;
  return { data: JSON.stringify(body), text, counted, ...(usage !== undefined && { usage }) };
}

type EventNotes = Omit<SseEvent, 'name' | 'data'>;

function event(name: string, data: object, notes: EventNotes = {}): SseEvent {
  return { name, data: JSON.stringify({ ...data, p: 'abcdefgh' }), ...notes };
}

function delta(contentBlockIndex: number, piece: object, notes: EventNotes = {}): SseEvent {
  return event('contentBlockDelta', { contentBlockIndex, delta: piece }, notes);
}

/** A generator, so that a million tiny events are never in memory at once. */
export function* bedrockEvents(answer: ChatAnswer, request: ParsedRequest): Generator<SseEvent> {
  const text = answerText(answer, request);
  const usage = usageOf(answer, tokenCounts(answer, request, text));
  yield event('messageStart', { role: 'assistant' });
  let index = 0;
  if (answer.reasoning !== undefined) {
    for (const piece of textPieces(answer.reasoning, undefined)) {
      yield delta(index, { reasoningContent: { text: piece } }, { counted: piece });
    }
    yield delta(index, { reasoningContent: { signature } });
    yield event('contentBlockStop', { contentBlockIndex: index });
    index += 1;
  }
  // Separates the last word of the reasoning from the first of the text in the token count.
  let gap = ' ';
  for (const piece of textPieces(text, answer.chunks)) {
    yield delta(index, { text: piece }, { text: piece, counted: gap + piece });
    gap = '';
  }
  if (text !== '') {
    yield event('contentBlockStop', { contentBlockIndex: index });
    index += 1;
  }
  for (const [n, tool] of (answer.tools ?? []).entries()) {
    const start = { toolUse: callOf(tool, n) };
    const notes = { counted: ` ${tool.name} ` };
    yield event('contentBlockStart', { contentBlockIndex: index, start }, notes);
    for (const input of argumentPieces(argumentsOf(tool))) {
      yield delta(index, { toolUse: { input } }, { counted: input });
    }
    yield event('contentBlockStop', { contentBlockIndex: index });
    index += 1;
  }
  yield event('messageStop', { stopReason: stopReasonOf(answer) });
  if (answer.ending === 'no-done') return;
  yield event(
    'metadata',
    { metrics: { latencyMs: 1 }, ...(usage !== undefined && { usage }) },
    usage === undefined ? {} : { usage },
  );
}

export function bedrockError(_status: number, message: string): object {
  return { message };
}
