import { send } from './api.ts';
import type { ChatBody, ToolCall } from './snippets.ts';

/** One answer, complete or still growing. */
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
  usage: Usage | null;
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cost?: number;
}

interface Chunk {
  readonly choices?: readonly {
    readonly delta?: {
      readonly content?: string | null;
      readonly reasoning?: string | null;
      readonly tool_calls?: readonly {
        readonly index?: number;
        readonly id?: string;
        readonly function?: { readonly name?: string; readonly arguments?: string };
      }[];
    };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: Usage | null;
  readonly error?: { readonly message?: string };
}

interface ChatOptions {
  readonly key: string;
  readonly body: ChatBody;
  readonly signal: AbortSignal;
  /** Called with the answer as it grows. */
  readonly onUpdate: (answer: Answer) => void;
}

/** Streams one chat completion. A stream that breaks off rejects with the gateway's sentence. */
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
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) throw new Error(chunk.error.message ?? 'The answer broke off.');
    partial.firstTokenMs ??= performance.now() - startedAt;
    appendChunk(partial, chunk);
    onUpdate(snapshot());
  }
  throw new Error('The answer broke off before its end.');
}

function appendChunk(answer: PartialAnswer, { choices, usage }: Chunk): void {
  if (usage) answer.usage = usage;
  const [choice] = choices ?? [];
  if (!choice) return;
  answer.finishReason = choice.finish_reason ?? answer.finishReason;
  answer.text += choice.delta?.content ?? '';
  answer.reasoning += choice.delta?.reasoning ?? '';
  for (const { index = 0, id, function: called } of choice.delta?.tool_calls ?? []) {
    const before = answer.toolCalls[index];
    answer.toolCalls[index] = {
      id: id || before?.id || '',
      type: 'function',
      function: {
        name: called?.name || before?.function.name || '',
        arguments: (before?.function.arguments ?? '') + (called?.arguments ?? ''),
      },
    };
  }
}

async function* eventsOf(response: Response): AsyncGenerator<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const step = await reader?.read();
    if (!step || step.done) return;
    rest += step.value;
    const parts = rest.split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) if (part.startsWith('data: ')) yield part.slice('data: '.length);
  }
}
