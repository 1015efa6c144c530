import { send } from './api.ts';
import type { ChatChunk, ChatEvent, ChatUsage, ToolCall } from './shapes.ts';
import type { ChatBody } from './snippets.ts';

/** A chat answer, complete or still streaming. */
export interface Answer extends Readonly<PartialAnswer> {
  readonly requestId: string;
  readonly totalMs: number;
}

interface PartialAnswer {
  text: string;
  reasoning: string;
  toolCalls: ToolCall[];
  finishReason: string | null;
  firstTokenMs: number | null;
  usage: ChatUsage | null;
}

interface ChatOptions {
  readonly key: string;
  readonly body: ChatBody;
  readonly signal: AbortSignal;
  /** Called with the answer so far, after each chunk. */
  readonly onUpdate: (answer: Answer) => void;
}

/** Streams one chat completion. Rejects with the gateway's message if the stream fails. */
export async function chat({ key, body, signal, onUpdate }: ChatOptions): Promise<Answer> {
  const startedAt = performance.now();
  const response = await send('/v1/chat/completions', {
    key,
    method: 'POST',
    body: { ...body, stream: true, stream_options: { include_usage: true } },
    signal,
  });
  const requestId = response.headers.get('x-request-id') ?? '';
  const partial: PartialAnswer = {
    text: '',
    reasoning: '',
    toolCalls: [],
    finishReason: null,
    firstTokenMs: null,
    usage: null,
  };
  const snapshot = (): Answer => ({
    ...partial,
    requestId,
    totalMs: performance.now() - startedAt,
  });
  for await (const data of eventsOf(response)) {
    if (data === '[DONE]') return snapshot();
    const chunk = JSON.parse(data) as ChatEvent;
    if ('error' in chunk) throw new Error(chunk.error.message);
    partial.firstTokenMs ??= performance.now() - startedAt;
    appendChunk(partial, chunk);
    onUpdate(snapshot());
  }
  throw new Error('The stream ended before the answer was complete. Try again.');
}

/** Adds a chunk to the answer. */
function appendChunk(answer: PartialAnswer, { choices, usage }: ChatChunk): void {
  if (usage) answer.usage = usage;
  // Chunks of some providers are forwarded unchanged and may lack fields.
  const [choice] = choices ?? [];
  if (!choice) return;
  answer.finishReason = choice.finish_reason ?? answer.finishReason;
  answer.text += choice.delta?.content ?? '';
  answer.reasoning += choice.delta?.reasoning ?? '';
  for (const { index = 0, id, function: called } of choice.delta?.tool_calls ?? []) {
    const previous = answer.toolCalls[index];
    answer.toolCalls[index] = {
      id: id || previous?.id || '',
      type: 'function',
      function: {
        name: called?.name || previous?.function.name || '',
        arguments: (previous?.function.arguments ?? '') + (called?.arguments ?? ''),
      },
    };
  }
}

/** Yields the `data` of each server-sent event. */
async function* eventsOf(response: Response): AsyncGenerator<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    const step = await reader?.read();
    if (!step || step.done) return;
    buffer += step.value;
    const events = buffer.split('\n\n');
    buffer = events.pop() ?? '';
    for (const event of events) if (event.startsWith('data: ')) yield event.slice('data: '.length);
  }
}
