/** POST /v1/chat/completions: the answer in OpenAI's two forms, one body or a stream of chunks. */
import { answerChat, type ChatAnswer } from './chat-answer.ts';
import { type ChatRequest, readChatRequest } from './chat-request.ts';
import { jsonReply, pause, type Reply, type ReplyStream, streamReply } from './reply.ts';
import { readJsonBody } from './request-fields.ts';

/** The fields that every chunk of a stream repeats. */
interface Envelope {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

export async function answerChatCompletion(request: Request): Promise<Reply> {
  const body = await readJsonBody(request);
  const chat = readChatRequest(body);
  const seed = Bun.hash.xxHash64(JSON.stringify(body)).toString(36);
  const answer = answerChat(chat, seed);
  const envelope: Envelope = {
    id: `chatcmpl-demo-${seed}`,
    created: Math.floor(Date.now() / 1_000),
    model: chat.model,
    system_fingerprint: 'demo',
  };
  if (chat.isStream) return streamReply('text/event-stream', events(envelope, chat, answer));
  await pause(chat.delayMs);
  return jsonReply(completion(envelope, chat, answer));
}

function completion(envelope: Envelope, chat: ChatRequest, answer: ChatAnswer) {
  const { reasoning, toolCalls } = answer;
  const calls = toolCalls.map(({ id, ...called }) => ({ id, type: 'function', function: called }));
  const message = {
    role: 'assistant',
    content: answer.text,
    refusal: null,
    ...(reasoning === null ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return {
    ...envelope,
    object: 'chat.completion',
    choices: indexes(chat).map((index) => ({
      index,
      message,
      logprobs: null,
      finish_reason: answer.finishReason,
    })),
    usage: usageOf(chat, answer),
  };
}

/** The index of each requested choice; the demo gives every choice the same answer. */
function indexes({ choices }: ChatRequest): readonly number[] {
  return Array.from({ length: choices }, (_, index) => index);
}

function usageOf({ promptTokens, choices }: ChatRequest, answer: ChatAnswer) {
  const completionTokens = answer.completionTokens * choices;
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: answer.reasoningTokens * choices },
  };
}

async function* events(envelope: Envelope, chat: ChatRequest, answer: ChatAnswer): ReplyStream {
  for (const chunk of chunks(envelope, chat, answer)) {
    await pause(chat.delayMs);
    yield `data: ${JSON.stringify(chunk)}\n\n`;
  }
  yield 'data: [DONE]\n\n';
}

function* chunks(envelope: Envelope, chat: ChatRequest, answer: ChatAnswer) {
  const object = 'chat.completion.chunk';
  // OpenAI promises a null usage in every chunk but the last once usage was asked for.
  const noUsage = chat.includeUsage ? { usage: null } : {};
  for (const { delta, finish_reason } of steps(answer)) {
    for (const index of indexes(chat)) {
      const choice = { index, delta, logprobs: null, finish_reason };
      yield { ...envelope, object, choices: [choice], ...noUsage };
    }
  }
  if (chat.includeUsage) yield { ...envelope, object, choices: [], usage: usageOf(chat, answer) };
}

function* steps(answer: ChatAnswer) {
  for (const delta of deltas(answer)) yield { delta, finish_reason: null };
  yield { delta: {}, finish_reason: answer.finishReason };
}

function* deltas(answer: ChatAnswer) {
  yield { role: 'assistant', content: answer.text === null ? null : '', refusal: null };
  for (const reasoning_content of pieces(answer.reasoning ?? '')) yield { reasoning_content };
  for (const content of pieces(answer.text ?? '')) yield { content };
  for (const [index, call] of answer.toolCalls.entries()) {
    const { id, name } = call;
    yield { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] };
    for (const fragment of pieces(call.arguments)) {
      yield { tool_calls: [{ index, function: { arguments: fragment } }] };
    }
  }
}

/** Splits a text at words, and long words into parts; joined again, the pieces are the text. */
function pieces(text: string): readonly string[] {
  return text.match(/^\s+|\S{1,24}\s*/gu) ?? [];
}
