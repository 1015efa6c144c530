/** What the demo says: an answer that repeats what arrived, so that people see it got through. */

import { readDataUrlImageSize } from '../core/media/image-size.ts';
import type { ChatRequest, Message } from './chat-request.ts';
import { sampleSchema } from './schema-sample.ts';
import { excerpt, TokenBudget } from './tokens.ts';
import { callTool, pickTools, type ToolCall } from './tool-calls.ts';

export interface ChatAnswer {
  readonly reasoning: string | null;
  /** `null` when there are only tool calls. */
  readonly text: string | null;
  readonly toolCalls: readonly ToolCall[];
  readonly finishReason: 'stop' | 'length' | 'tool_calls';
  readonly reasoningTokens: number;
  readonly completionTokens: number;
}

/** The most images that are described one by one; beyond that they are only counted. */
const imagesDescribedMax = 8;

/** `seed` makes the ids of tool calls; equal requests have equal seeds. */
export function answerChat(request: ChatRequest, seed: string): ChatAnswer {
  const budget = new TokenBudget(request.tokensMax);
  const reasoning = request.effort === null ? null : budget.take(think(request));
  const reasoningTokens = budget.used;
  const toolCalls = affordable(callTools(request, seed), budget);
  const text = toolCalls === null ? budget.take(cutAtStop(say(request), request.stops)) : null;
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
    said: last?.role === 'user' ? last.text : null,
    called: request.messages.flatMap((message) => message.called),
  });
  return picked.map((tool, index) => callTool(tool, seed, index));
}

/** Like a real model, it may run out of tokens inside a call, whose arguments then break off. */
function affordable(calls: readonly ToolCall[], budget: TokenBudget): ToolCall[] | null {
  if (calls.length === 0) return null;
  return calls.flatMap((call) => {
    if (budget.take(call.name) !== call.name) return [];
    return [{ ...call, arguments: budget.take(call.arguments) }];
  });
}

function think({ effort, messages }: ChatRequest): string {
  const count = messages.length === 1 ? 'one message' : `${messages.length} messages`;
  return `This is demo reasoning at effort "${effort}". I got ${count} and will repeat the last.`;
}

function say(request: ChatRequest): string {
  if (request.format === 'json_schema')
    return JSON.stringify(sampleSchema(request.schema), null, 2);
  if (request.format === 'json_object') {
    return JSON.stringify(
      { demo: true, message: 'No language model runs here.', you_asked: asked(request) },
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
    'No language model runs here; this answer shows that your request made the whole trip.',
    `You asked: “${asked(request)}”`,
    ...describeImages(lastOfUser(request)?.imageUrls ?? []),
  ].join(' ');
}

function lastOfUser({ messages }: ChatRequest): Message | undefined {
  return messages.findLast((message) => message.role === 'user');
}

function asked(request: ChatRequest): string {
  return excerpt(lastOfUser(request)?.text ?? '');
}

/**
 * The tool results at the end of the conversation: those of parallel calls are several messages.
 */
function toolResults(messages: readonly Message[]): readonly Message[] {
  return messages.slice(messages.findLastIndex((message) => message.role !== 'tool') + 1);
}

function describeImages(urls: readonly string[]): string[] {
  if (urls.length === 0) return [];
  const sizes = urls.slice(0, imagesDescribedMax).map((url) => {
    const size = readDataUrlImageSize(url);
    if (size !== undefined) return `${size.kind} of ${size.width}×${size.height} pixels`;
    return url.startsWith('data:') ? 'unreadable' : 'an address, not fetched';
  });
  const count = urls.length === 1 ? 'one image' : `${urls.length} images`;
  return [`I received ${count}: ${sizes.join('; ')}.`];
}

function cutAtStop(text: string, stops: readonly string[]): string {
  const found = stops.map((stop) => text.indexOf(stop)).filter((at) => at !== -1);
  return found.length === 0 ? text : text.slice(0, Math.min(...found));
}
