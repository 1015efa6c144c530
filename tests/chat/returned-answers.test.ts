/**
 * Answers that a client sends back with its tool results. The upstream that produced the answer
 * must receive it in its own format, with all the reasoning and signatures that the client kept.
 */
import { describe, expect, test } from 'bun:test';
import type { DialectName } from '../../src/config/provider-schema.ts';
import { noUsage } from '../../src/core/usage.ts';
import { readMessagesRequest } from '../../src/dialects/anthropic/client/request.ts';
import { anthropicClientRequest } from '../../src/dialects/anthropic/client-request.ts';
import type { ClientRequest } from '../../src/dialects/dialect.ts';
import { readChatRequest } from '../../src/dialects/openai-chat/client/request.ts';
import { openAiClientRequest } from '../../src/dialects/openai-chat/client-request.ts';
import { readResponsesRequest } from '../../src/dialects/responses/client/request.ts';
import { responsesClientRequest } from '../../src/dialects/responses/client-request.ts';
import { ChatOperation } from '../../src/operations/chat/chat-operation.ts';
import { makeTarget } from '../support/prompts.ts';
import { readFixture } from '../support/upstream-conformance.ts';

const model = 'acme/chat-large';
const identity = { id: 'chatcmpl-feedface', model, provider: 'acme', created: 1_800_000_000 };
const imageData = 'iVBORw0KGgo=';

const source = (body: object) => {
  const text = JSON.stringify(body);
  return { text, bytes: new TextEncoder().encode(text) };
};

interface Client {
  open(turns: readonly object[]): ClientRequest;
  /** Returns a complete answer and its tool results as this client sends them back. */
  sendBack(answer: string): readonly object[];
}

interface Completion {
  readonly choices: readonly [{ readonly message: Record<string, unknown> }];
}
interface Call {
  readonly id: string;
  readonly type: string;
  readonly call_id: string;
}

/** `keeps` returns the fields of a message that this client sends back with its text. */
function chatClient(keeps: (message: Record<string, unknown>) => object): Client {
  return {
    open(messages) {
      const body = { model, messages, tools: names.map((name) => tool(name).chat) };
      return openAiClientRequest(readChatRequest(body, source(body)));
    },
    sendBack(answer) {
      const [{ message }] = (JSON.parse(answer) as Completion).choices;
      const { content, tool_calls: calls = [] } = message as {
        content: string;
        tool_calls: Call[];
      };
      const results = calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'done' }));
      return [{ role: 'assistant', content, ...keeps(message) }, ...results];
    },
  };
}

const names = ['get_weather', 'now', 'weather'];
const tool = (name: string) => {
  const schema = { type: 'object', properties: {} };
  return {
    chat: { type: 'function', function: { name, parameters: schema } },
    messages: { name, input_schema: schema },
    responses: { type: 'function', name, parameters: schema },
  };
};

const standardFields = ({ tool_calls: calls }: Record<string, unknown>) => ({
  tool_calls: (calls as Record<string, unknown>[]).map(({ extra_content: _, ...call }) => call),
});
const clients = {
  'a chat client that keeps all fields': chatClient((message) => message),
  'a chat client that keeps only the calls': chatClient(({ tool_calls }) => ({ tool_calls })),
  'a chat client that keeps only standard call fields': chatClient(standardFields),
  'an Anthropic client': {
    open(messages) {
      const tools = names.map((name) => tool(name).messages);
      const body = { model, messages, max_tokens: 100, tools };
      return anthropicClientRequest(readMessagesRequest(body, source(body)), new Headers());
    },
    sendBack(answer) {
      const { content } = JSON.parse(answer) as { content: Call[] };
      const image = { type: 'base64', media_type: 'image/png', data: imageData };
      const resultContent = [
        { type: 'text', text: 'done' },
        { type: 'image', source: image },
      ];
      const results = content
        .filter(({ type }) => type === 'tool_use')
        .map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: resultContent }));
      return [
        { role: 'assistant', content },
        { role: 'user', content: results },
      ];
    },
  },
  'a Responses client': {
    open(input) {
      const body = { model, input, tools: names.map((name) => tool(name).responses) };
      return responsesClientRequest(readResponsesRequest(body, source(body)));
    },
    sendBack(answer) {
      const { output } = JSON.parse(answer) as { output: Call[] };
      const results = output
        .filter(({ type }) => type === 'function_call')
        .map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'done' }));
      return [...output, ...results];
    },
  },
} satisfies Record<string, Client>;

/** Returns the messages after the question that the upstream receives with its own answer. */
function sentBack(dialect: DialectName, path: string, client: Client): readonly unknown[] {
  const question = { role: 'user', content: 'Hello!' };
  const text = readFixture(path);
  const recording = {
    dialect,
    form: 'stream' as const,
    text,
    model,
    provider: 'acme',
  };
  const relay = new ChatOperation(client.open([question])).replay(recording, identity);
  const answer = relay?.write({ usage: noUsage, costCredits: 0 }) ?? '';
  const adapter = client.open([question, ...client.sendBack(answer)]).adapterFor(dialect);
  const body = JSON.parse(String(adapter?.write(makeTarget()).body)) as Record<string, unknown[]>;
  return (body.messages ?? body.contents ?? body.input ?? []).slice(1);
}

type Name = keyof typeof clients;
const returnsImages: ReadonlySet<Name> = new Set(['an Anthropic client']);
const dropsReasoning: ReadonlySet<Name> = new Set([
  'a chat client that keeps only the calls',
  'a chat client that keeps only standard call fields',
]);
const clientNames = Object.keys(clients) as Name[];

describe('an Anthropic answer with thinking before 2 calls', () => {
  const path = 'anthropic/thinking-tool-parallel-stream.sse';
  const [, signature] = /"signature_delta","signature":"([^"]+)"/.exec(readFixture(path)) ?? [];
  const thinking = 'The user wants the weather in Paris and Tōkyō 🗼.';
  const call = (id: string, city: string) => ({
    type: 'tool_use',
    id: `toolu_01A09q90qw90lq917835lq9${id}`,
    name: 'get_weather',
    input: { city, unit: 'c' },
  });

  test.each(clientNames)('is converted back to the Anthropic format for %s', (name) => {
    const thought = dropsReasoning.has(name) ? [] : [{ type: 'thinking', thinking, signature }];
    const image = { type: 'base64', media_type: 'image/png', data: imageData };
    const images = returnsImages.has(name) ? [{ type: 'image', source: image }] : [];
    const result = (id: string) => ({
      type: 'tool_result',
      tool_use_id: `toolu_01A09q90qw90lq917835lq9${id}`,
      content: [{ type: 'text', text: 'done' }, ...images],
    });
    expect(sentBack('anthropic', path, clients[name])).toEqual([
      {
        role: 'assistant',
        content: [
          ...thought,
          { type: 'text', text: "I'll check\u00a0both cities." },
          call('a', 'Paris'),
          call('b', 'Tōkyō'),
        ],
      },
      { role: 'user', content: [result('a'), result('b')] },
    ]);
  });
});

describe('a Gemini answer with signatures on its first call and after its last call', () => {
  const path = 'gemini/calls-ids-stream.sse';
  const [first = '', last = ''] = [
    ...readFixture(path).matchAll(/"thoughtSignature":"([^"]+)"/g),
  ].map((match) => match[1] ?? '');

  test.each(clientNames)('is converted back to the Gemini format for %s', (name) => {
    expect([first, last, first === last]).toEqual([first, last, false]);
    const hasOnlyStandardFields = name === 'a chat client that keeps only standard call fields';
    const thoughtSignature = hasOnlyStandardFields ? 'skip_thought_signature_validator' : first;
    const inlineData = { mimeType: 'image/png', data: imageData };
    const images = returnsImages.has(name) ? { parts: [{ inlineData }] } : {};
    const calls = [
      { id: '9x1k2m3n', name: 'get_weather', args: { city: 'Paris' } },
      { id: '8y2l3n4o', name: 'get_weather', args: { city: 'Köln' } },
      { id: '7z3m4o5p', name: 'now', args: {} },
    ];
    const results = calls.map((call) => ({
      functionResponse: { id: call.id, name: call.name, response: { output: 'done' }, ...images },
    }));
    const parts = [
      ...calls.map((functionCall, index) =>
        index === 0 ? { functionCall, thoughtSignature } : { functionCall },
      ),
      ...(dropsReasoning.has(name) ? [] : [{ text: '', thoughtSignature: last }]),
    ];
    expect(sentBack('gemini', path, clients[name])).toEqual([
      { role: 'model', parts },
      { role: 'user', parts: results },
    ]);
  });
});

describe('a Gemini answer with a visible thought whose signature is on the first call', () => {
  const path = 'gemini/tool-stream-no-args.sse';
  const [, signature = ''] = /"thoughtSignature":"([^"]+)"/.exec(readFixture(path)) ?? [];

  test.each(clientNames)('keeps the signature only on that call for %s', (name) => {
    const hasOnlyStandardFields = name === 'a chat client that keeps only standard call fields';
    const skip = 'skip_thought_signature_validator';
    const thoughtSignature = hasOnlyStandardFields ? skip : signature;
    const thought = { text: expect.stringContaining('Processing User Requests'), thought: true };
    // The gateway made up these IDs, because the recorded calls have none.
    const id = expect.stringMatching(/^call_/);
    const call = (called: string, args: object) => ({ functionCall: { id, name: called, args } });
    expect(sentBack('gemini', path, clients[name])[0]).toEqual({
      role: 'model',
      parts: [
        ...(dropsReasoning.has(name) ? [] : [thought]),
        { ...call('read_theme', {}), thoughtSignature },
        ...['A', 'B', 'C'].map((screen) => call('read_screen', { id: screen })),
      ],
    });
  });
});

describe('a Responses answer with reasoning before 2 calls', () => {
  const path = 'openai/responses-calls-stream.sse';

  test.each(clientNames)('is converted back to Responses items for %s', (name) => {
    const thought = { type: 'reasoning', id: 'rs_68d1c1c0', summary: [] };
    const encrypted_content = 'gAAAAABpHHydEnc';
    const isPassThrough = name === 'a Responses client';
    const call = (at: number, called: string, json: string) => ({
      type: 'function_call',
      call_id: `call_Aaaaaaaaaaaa000${at}`,
      name: called,
      arguments: json,
      // Items of a Responses client pass through unchanged.
      ...(isPassThrough ? { id: `fc_feedface000${at}`, status: 'completed' } : {}),
    });
    const image_url = `data:image/png;base64,${imageData}`;
    const output = returnsImages.has(name)
      ? [
          { type: 'input_text', text: 'done' },
          { type: 'input_image', image_url, detail: 'auto' },
        ]
      : 'done';
    const result = (at: number) => ({
      type: 'function_call_output',
      call_id: `call_Aaaaaaaaaaaa000${at}`,
      output,
    });
    expect(sentBack('openai-responses', path, clients[name])).toEqual([
      ...(dropsReasoning.has(name) ? [] : [{ ...thought, encrypted_content }]),
      call(1, 'weather', '{"city":"Zürich"}'),
      call(2, 'now', '{}'),
      result(1),
      result(2),
    ]);
  });
});
