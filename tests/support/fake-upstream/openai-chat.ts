/** Writes chat completions as OpenAI sends them, with reasoning in DeepSeek's format. */

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

/** Constant, so that two runs of a script send the same bytes. */
const created = 1_700_000_000;

function usageOf(answer: ChatAnswer, counts: TokenCounts): unknown {
  if (answer.usageSent === 'none') return undefined;
  if (answer.usageSent !== undefined) return answer.usageSent;
  return {
    prompt_tokens: counts.prompt,
    completion_tokens: counts.completion,
    total_tokens: counts.prompt + counts.completion,
    prompt_tokens_details: { cached_tokens: counts.cached, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: counts.reasoning, audio_tokens: 0 },
  };
}

function toolCall(tool: { readonly name: string; readonly id?: string }, index: number) {
  return { id: tool.id ?? `call_fake_${index}`, type: 'function', name: tool.name };
}

export function openAiReply(answer: ChatAnswer, request: ParsedRequest, id: number): SseEvent {
  const text = answerText(answer, request);
  const usage = usageOf(answer, tokenCounts(answer, request, text));
  const tools = answer.tools ?? [];
  const calls = tools.map((tool, index) => {
    const { id: callId, type, name } = toolCall(tool, index);
    return { id: callId, type, function: { name, arguments: argumentsOf(tool) } };
  });
  const message = {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    refusal: null,
    ...(answer.reasoning !== undefined && { reasoning_content: answer.reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  const choice = { index: 0, message, logprobs: null, finish_reason: finishOf(answer) };
  const body = {
    id: `chatcmpl-fake-${id}`,
    object: 'chat.completion',
    created,
    model: request.model,
    choices: [choice],
    ...(usage !== undefined && { usage }),
    system_fingerprint: 'fp_fake',
  };
  const toolText = tools.map((tool) => ` ${tool.name} ${argumentsOf(tool)}`).join('');
  const counted = `${answer.reasoning ?? ''} ${text}${toolText}`;
  return { data: JSON.stringify(body), text, counted, ...(usage !== undefined && { usage }) };
}

export function* openAiEvents(
  answer: ChatAnswer,
  request: ParsedRequest,
  id: number,
): Generator<SseEvent> {
  const text = answerText(answer, request);
  const head = {
    id: `chatcmpl-fake-${id}`,
    object: 'chat.completion.chunk',
    created,
    model: request.model,
    system_fingerprint: 'fp_fake',
  };
  // OpenAI sends `usage: null` in all other chunks if usage was requested.
  const nullUsage = request.includeUsage ? { usage: null } : {};
  const chunk = (delta: object, finish: string | null = null): string => {
    const choices = [{ index: 0, delta, logprobs: null, finish_reason: finish }];
    return JSON.stringify({ ...head, choices, ...nullUsage });
  };

  yield { data: chunk({ role: 'assistant', content: '', refusal: null }) };
  for (const piece of textPieces(answer.reasoning ?? '', undefined)) {
    yield { data: chunk({ reasoning_content: piece }), counted: piece };
  }
  // Separates the last word of the reasoning from the first of the text in the token count.
  let gap = ' ';
  for (const piece of textPieces(text, answer.chunks)) {
    yield { data: chunk({ content: piece }), text: piece, counted: gap + piece };
    gap = '';
  }
  for (const [index, tool] of (answer.tools ?? []).entries()) {
    const { id: callId, type, name } = toolCall(tool, index);
    const opening = { index, id: callId, type, function: { name, arguments: '' } };
    yield { data: chunk({ tool_calls: [opening] }), counted: ` ${name} ` };
    for (const piece of argumentPieces(argumentsOf(tool))) {
      const delta = { tool_calls: [{ index, function: { arguments: piece } }] };
      yield { data: chunk(delta), counted: piece };
    }
  }
  yield { data: chunk({}, finishOf(answer)) };
  const usage = usageOf(answer, tokenCounts(answer, request, text));
  if (request.includeUsage && usage !== undefined) {
    yield { data: JSON.stringify({ ...head, choices: [], usage }), usage };
  }
  if (answer.ending === 'no-done') return;
  yield { data: '[DONE]' };
  if (answer.ending === 'done-twice') yield { data: '[DONE]' };
  if (answer.ending === 'data-after-done') yield { data: chunk({ content: 'too late' }) };
}

export function openAiError(status: number, message: string): object {
  const types: Readonly<Record<number, string>> = {
    401: 'authentication_error',
    403: 'permission_error',
    404: 'not_found_error',
    429: 'rate_limit_error',
  };
  const type = types[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error');
  return { error: { message, type, param: null, code: null } };
}
