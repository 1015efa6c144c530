import { readDataUrlImageSize } from '../core/media/images.ts';
import { type ChatRequest, type Message, readChatRequest } from './chat-request.ts';
import {
  jsonReply,
  pause,
  type Reply,
  type ReplyStream,
  readJsonBody,
  streamReply,
} from './http.ts';
import { sampleSchema } from './schema-sample.ts';
import { excerpt, TokenBudget } from './tokens.ts';
import { callTool, pickTools, type ToolCall } from './tool-calls.ts';

// POST /v1/chat/completions: a complete response or a stream of chunks.

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

/** Returns the index of each requested choice. All choices have the same answer. */
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
  // Like OpenAI, send a null usage in every chunk but the last if usage was requested.
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
  for (const reasoning_content of fragments(answer.reasoning ?? '')) yield { reasoning_content };
  for (const content of fragments(answer.text ?? '')) yield { content };
  for (const [index, call] of answer.toolCalls.entries()) {
    const { id, name } = call;
    yield { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] };
    for (const fragment of fragments(call.arguments)) {
      yield { tool_calls: [{ index, function: { arguments: fragment } }] };
    }
  }
}

/** Splits text after each word, and splits long words. The joined fragments equal the text. */
function fragments(text: string): readonly string[] {
  return text.match(/^\s+|\S{1,24}\s*/gu) ?? [];
}

/** The demo's answer repeats the request, to show that it arrived. */
interface ChatAnswer {
  readonly reasoning: string | null;
  /** Null if there are only tool calls. */
  readonly text: string | null;
  readonly toolCalls: readonly ToolCall[];
  readonly finishReason: 'stop' | 'length' | 'tool_calls';
  readonly reasoningTokens: number;
  readonly completionTokens: number;
}

/** The maximum number of images that are described individually. Any others are only counted. */
const imagesDescribedMax = 8;

/**
 * Answers a request. `seed` determines the IDs of tool calls. Identical requests have the same
 * seed.
 */
function answerChat(request: ChatRequest, seed: string): ChatAnswer {
  const budget = new TokenBudget(request.tokensMax);
  const reasoning = request.effort === null ? null : budget.take(reasoningText(request));
  const reasoningTokens = budget.used;
  const toolCalls = withinBudget(callTools(request, seed), budget);
  const text =
    toolCalls === null ? budget.take(cutAtStop(answerText(request), request.stops)) : null;
  const finished = toolCalls === null ? 'stop' : 'tool_calls';
  return {
    reasoning,
    text,
    toolCalls: toolCalls ?? [],
    finishReason: budget.exceeded ? 'length' : finished,
    reasoningTokens,
    completionTokens: budget.used,
  };
}

function callTools(request: ChatRequest, seed: string): ToolCall[] {
  const last = request.messages.at(-1);
  const picked = pickTools({
    tools: request.tools,
    choice: request.toolChoice,
    isParallel: request.isParallel,
    userText: last?.role === 'user' ? last.text : null,
    called: request.messages.flatMap((message) => message.called),
  });
  return picked.map((tool, index) => callTool(tool, seed, index));
}

/** As with a real model, the arguments of a call end early if the tokens run out. */
function withinBudget(calls: readonly ToolCall[], budget: TokenBudget): ToolCall[] | null {
  if (calls.length === 0) return null;
  return calls.flatMap((call) => {
    if (budget.take(call.name) !== call.name) return [];
    return [{ ...call, arguments: budget.take(call.arguments) }];
  });
}

function reasoningText({ effort, messages }: ChatRequest): string {
  const count = messages.length === 1 ? 'one message' : `${messages.length} messages`;
  return `This is demo reasoning at effort "${effort}". I got ${count} and will repeat the last.`;
}

function answerText(request: ChatRequest): string {
  if (request.format === 'json_schema')
    return JSON.stringify(sampleSchema(request.schema), null, 2);
  if (request.format === 'json_object') {
    return JSON.stringify(
      {
        demo: true,
        message: 'No language model runs here.',
        question: quoteQuestion(request),
      },
      null,
      2,
    );
  }
  const results = toolResults(request.messages);
  if (results.length > 0) {
    const quotes = results.map((result) => `“${excerpt(result.text)}”`);
    return `This is the Tollgate demo. The tool answered ${quotes.join(' and ')}.`;
  }
  return [
    'Hello from the Tollgate demo!',
    'No language model runs here; this answer shows that your request made the round trip.',
    `You asked: “${quoteQuestion(request)}”`,
    ...describeImages(lastOfUser(request)?.imageUrls ?? []),
  ].join(' ');
}

function lastOfUser({ messages }: ChatRequest): Message | undefined {
  return messages.findLast((message) => message.role === 'user');
}

function quoteQuestion(request: ChatRequest): string {
  return excerpt(lastOfUser(request)?.text ?? '');
}

/** Returns the tool results at the end of the prompt. Each parallel call has its own message. */
function toolResults(messages: readonly Message[]): readonly Message[] {
  return messages.slice(messages.findLastIndex((message) => message.role !== 'tool') + 1);
}

function describeImages(urls: readonly string[]): string[] {
  if (urls.length === 0) return [];
  const sizes = urls.slice(0, imagesDescribedMax).map((url) => {
    const size = readDataUrlImageSize(url);
    if (size !== undefined) return `${size.kind} of ${size.width}×${size.height} pixels`;
    return url.startsWith('data:') ? 'unreadable' : 'a URL, not fetched';
  });
  const count = urls.length === 1 ? 'one image' : `${urls.length} images`;
  return [`I received ${count}: ${sizes.join('; ')}.`];
}

function cutAtStop(text: string, stops: readonly string[]): string {
  const found = stops.map((stop) => text.indexOf(stop)).filter((at) => at !== -1);
  return found.length === 0 ? text : text.slice(0, Math.min(...found));
}
