/** Plain-text reasoning of Responses providers, from their answer to the client's next request. */
import { describe, expect, test } from 'bun:test';
import { source } from '../../../tests/support/chat-clients.ts';
import { makeTarget } from '../../../tests/support/prompts.ts';
import { identity } from '../../../tests/support/reply-identity.ts';
import { streamOf } from '../../../tests/support/response-events.ts';
import { fieldsOf, parseJson } from '../../core/json.ts';
import { noUsage } from '../../core/usage.ts';
import { readMessagesRequest } from '../anthropic/client/request.ts';
import { anthropicClientRequest } from '../anthropic/client-request.ts';
import type { ClientRequest } from '../dialect.ts';
import { EventStreamReader } from '../event-stream.ts';
import { readChatRequest } from '../openai-chat/client/request.ts';
import { openAiClientRequest } from '../openai-chat/client-request.ts';
import { readResponsesRequest } from './client/request.ts';
import { responsesClientRequest } from './client-request.ts';

const textItem = {
  id: 'rs_1',
  type: 'reasoning',
  summary: [],
  content: [{ type: 'reasoning_text', text: 'Hm.' }],
};
const summaryItem = {
  id: 'rs_1',
  type: 'reasoning',
  summary: [{ type: 'summary_text', text: 'Hm.' }],
};
const answerItem = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'Yes.', annotations: [] }],
};
const question = { role: 'user' as const, content: 'Why?' };

const openAi = (messages: readonly object[]) => {
  const body = { model: 'acme/large', messages } as never;
  return openAiClientRequest(readChatRequest(body, source(body)));
};
const anthropic = (messages: readonly object[]) => {
  const body = { model: 'acme/large', max_tokens: 9, messages } as never;
  return anthropicClientRequest(readMessagesRequest(body, source(body)), new Headers());
};
const responses = (input: readonly object[]) => {
  const body = { model: 'acme/large', input } as never;
  return responsesClientRequest(readResponsesRequest(body, source(body)));
};

function adapterOf(request: ClientRequest) {
  const adapter = request.adapterFor('openai-responses');
  if (!adapter) throw new Error('There is no adapter.');
  return adapter;
}

/** Returns what the client gets for an answer with this reasoning. */
function answerFor(request: ClientRequest, reasoning: object): Record<string, unknown> {
  const output = [reasoning, answerItem];
  const text = JSON.stringify({ id: 'resp_1', object: 'response', status: 'completed', output });
  const reply = adapterOf(request).transformReply(text, identity);
  if (!reply.ok) throw new Error(reply.failure.message);
  return fieldsOf(parseJson(reply.value.write({ usage: noUsage, costCredits: 0 })));
}

/** Returns the reasoning that a provider gets with the next request. */
function reasoningSent(request: ClientRequest, provider: string): unknown[] {
  const { body } = adapterOf(request).write(makeTarget({ provider, thinking: 'effort' }));
  const { input } = JSON.parse(String(body)) as { input: { type?: string }[] };
  return input.filter(({ type }) => type === 'reasoning');
}

function listIn(value: unknown, name: string): Record<string, unknown>[] {
  return (value as Record<string, Record<string, unknown>[]>)[name] ?? [];
}

describe.each([
  ['text', textItem],
  ['a summary', summaryItem],
])('plain reasoning with %s', (_, item) => {
  test('goes back only to its provider from a Responses client', () => {
    const output = listIn(answerFor(responses([question]), item), 'output');
    const next = responses([question, ...output, question]);
    expect(reasoningSent(next, 'acme')).toEqual([{ ...item, encrypted_content: null }]);
    expect(reasoningSent(next, 'openai')).toEqual([]);
  });

  test('goes back only to its provider from a chat client', () => {
    const [choice] = listIn(answerFor(openAi([question]), item), 'choices');
    const next = openAi([question, choice?.message as object, question]);
    expect(reasoningSent(next, 'acme')).toEqual([item]);
    expect(reasoningSent(next, 'openai')).toEqual([]);
  });

  test('goes back only to its provider from a Messages client', () => {
    const content = listIn(answerFor(anthropic([question]), item), 'content');
    const next = anthropic([question, { role: 'assistant', content }, question]);
    expect(reasoningSent(next, 'acme')).toEqual([item]);
    expect(reasoningSent(next, 'openai')).toEqual([]);
  });
});

test('a streamed plain reasoning item goes back only to its provider', () => {
  const stream = adapterOf(responses([question])).transformStream(identity);
  const events = new EventStreamReader();
  const text = streamOf({ status: 'completed', output: [textItem, answerItem] });
  let written = '';
  for (const message of [...events.push(text), ...events.end()]) written += stream.push(message);
  written += stream.close({ usage: noUsage, costCredits: 0 });
  const sent = [...written.matchAll(/^data: (.*)$/gm)].map(([, data]) =>
    fieldsOf(parseJson(data ?? '')),
  );
  const done = sent.find((event) => event.type === 'response.output_item.done')?.item as object;
  const completed = sent.at(-1)?.response;
  for (const item of [done, listIn(completed, 'output')[0] ?? {}]) {
    const next = responses([question, item, question]);
    expect(reasoningSent(next, 'acme')).toEqual([{ ...textItem, encrypted_content: null }]);
    expect(reasoningSent(next, 'openai')).toEqual([]);
  }
});

test('plain reasoning whose client drops its ID goes back to its provider', () => {
  const output = listIn(answerFor(responses([question]), textItem), 'output');
  const { id: _, ...withoutId } = output[0] ?? {};
  const { id: __, ...expected } = textItem;
  const next = responses([question, withoutId, question]);
  expect(reasoningSent(next, 'acme')).toEqual([{ ...expected, encrypted_content: null }]);
});
