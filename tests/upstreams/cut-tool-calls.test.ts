/**
 * Tool calls that the output limit cut off while the provider reported them as finished. Every
 * client learns that the answer was cut off, so it doesn't run a tool with half of its input.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  type ClientAnswer,
  readAnthropicAnswer,
  readForwardedResponse,
  readOpenAiAnswer,
  readResponsesAnswer,
} from '../support/client-answers.ts';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
const dialects = ['openai', 'anthropic', 'openai-responses', 'gemini'] as const;
type Dialect = (typeof dialects)[number];

beforeAll(async () => {
  const provider = { base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 1_000_000 },
    providers: Object.fromEntries(dialects.map((dialect) => [dialect, { dialect, ...provider }])),
    models: dialects.map((name) => chatModel(`test/${name}`, [{ provider: name, model: 'cut' }])),
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const cut = '{"summary":"The cache warmer raced';
const sse = (...events: object[]) =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

const chatCall = (json: string) => ({
  ...{ index: 0, id: 'call_report', type: 'function' },
  function: { name: 'report', arguments: json },
});
const chatUsage = { prompt_tokens: 108, completion_tokens: 16, total_tokens: 124 };
const chatChunk = (delta: object, rest: object = {}) => ({
  ...{ id: 'x', object: 'chat.completion.chunk' },
  choices: [{ index: 0, delta, finish_reason: null, ...rest }],
});
const chatStream = (json: string, finish: object) =>
  sse(
    chatChunk({ role: 'assistant', tool_calls: [chatCall('')] }),
    chatChunk({ tool_calls: [{ index: 0, function: { arguments: json.slice(0, 9) } }] }),
    chatChunk({ tool_calls: [{ index: 0, function: { arguments: json.slice(9) } }] }),
    chatChunk({}, finish),
    { choices: [], usage: chatUsage },
  );
const chatReply = (json: string, finish: object) => ({
  choices: [{ index: 0, message: { content: null, tool_calls: [chatCall(json)] }, ...finish }],
  usage: chatUsage,
});
const toolCalls = { finish_reason: 'tool_calls' };

const anthropicUsage = { input_tokens: 108, output_tokens: 16 };
const anthropicMessage = {
  ...{ id: 'm', type: 'message', role: 'assistant', model: 'cut', content: [] },
  ...{ stop_reason: null, usage: anthropicUsage },
};
const anthropicEvents = (...pieces: readonly string[]) =>
  [
    { type: 'message_start', message: anthropicMessage },
    {
      ...{ type: 'content_block_start', index: 0 },
      content_block: { type: 'tool_use', id: 'toolu_report', name: 'report', input: {} },
    },
    ...pieces.map((partial_json) => ({
      ...{ type: 'content_block_delta', index: 0 },
      delta: { type: 'input_json_delta', partial_json },
    })),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: anthropicUsage },
    { type: 'message_stop' },
  ]
    .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('');

const callItem = (json: string, status = 'completed') => ({
  ...{ id: 'fc_1', type: 'function_call', call_id: 'call_report', name: 'report' },
  ...{ arguments: json, status },
});
const response = {
  ...{ id: 'r', object: 'response', status: 'completed', incomplete_details: null },
  ...{ model: 'cut', output: [callItem(cut)] },
  usage: { input_tokens: 108, output_tokens: 16, total_tokens: 124 },
};
const at = { output_index: 0, item_id: 'fc_1' };
const responseStream = [
  { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
  { type: 'response.output_item.added', output_index: 0, item: callItem('', 'in_progress') },
  { type: 'response.function_call_arguments.delta', ...at, delta: cut },
  { type: 'response.function_call_arguments.done', ...at, arguments: cut },
  { type: 'response.output_item.done', output_index: 0, item: callItem(cut) },
  { type: 'response.completed', response },
]
  .map((event, sequence_number) => `data: ${JSON.stringify({ ...event, sequence_number })}\n\n`)
  .join('');

const partOf = (functionCall: object) => ({ content: { parts: [{ functionCall }] } });
const partialCall = {
  ...{ name: 'report', willContinue: true },
  partialArgs: [{ jsonPath: '$.summary', stringValue: 'The cache', willContinue: true }],
};
const geminiUsage = { promptTokenCount: 108, candidatesTokenCount: 16, totalTokenCount: 124 };
const geminiStream = sse(
  { candidates: [partOf(partialCall)] },
  { candidates: [{ finishReason: 'STOP' }], usageMetadata: geminiUsage },
);

/** Answers of providers that report a cut call as finished, streamed or not. */
const answers: Record<string, readonly [Dialect, string | object]> = {
  'a chat stream with a native reason': [
    'openai',
    chatStream(cut, { ...toolCalls, native_finish_reason: 'length' }),
  ],
  'a chat stream whose call never began its arguments': [
    'openai',
    chatStream('', { ...toolCalls, native_finish_reason: 'max_output_tokens' }),
  ],
  'a chat stream with broken arguments': ['openai', chatStream(cut, toolCalls)],
  'a chat stream that stops after the first brace': ['openai', chatStream('{', toolCalls)],
  'a chat stream with broken arguments and stop': [
    'openai',
    chatStream(cut, { finish_reason: 'stop' }),
  ],
  'a chat stream that ends with a complete call': [
    'openai',
    sse(
      chatChunk({ role: 'assistant', tool_calls: [chatCall(cut)] }),
      chatChunk({ tool_calls: [{ ...chatCall('{}'), index: 1, id: 'call_2' }] }),
      chatChunk({}, toolCalls),
      { choices: [], usage: chatUsage },
    ),
  ],
  'a chat completion with a native reason': [
    'openai',
    chatReply(cut, { ...toolCalls, native_finish_reason: 'max_output_tokens' }),
  ],
  'a chat completion with broken arguments': ['openai', chatReply(cut, toolCalls)],
  'a message stream': ['anthropic', anthropicEvents(cut.slice(0, 9), cut.slice(9))],
  'a response stream': ['openai-responses', responseStream],
  'a response': ['openai-responses', response],
  'a Gemini stream': ['gemini', geminiStream],
};

interface Client {
  readonly path: string;
  readonly body: object;
  readonly read: (output: string, isStream: boolean, isForwarded: boolean) => ClientAnswer;
  readonly finish: string;
}

const messages = [{ role: 'user', content: 'Hello' }];
const schema = { type: 'object' };
const clients: Record<string, Client> = {
  chat: {
    path: '/v1/chat/completions',
    body: {
      messages,
      tools: [{ type: 'function', function: { name: 'report', parameters: schema } }],
    },
    read: readOpenAiAnswer,
    finish: 'length',
  },
  Messages: {
    path: '/v1/messages',
    body: { messages, max_tokens: 16, tools: [{ name: 'report', input_schema: schema }] },
    read: readAnthropicAnswer,
    finish: 'max_tokens',
  },
  Responses: {
    path: '/v1/responses',
    body: { input: 'Hi', tools: [{ type: 'function', name: 'report', parameters: schema }] },
    read: (output, isStream, isForwarded) =>
      isStream && isForwarded
        ? readForwardedResponse(output)
        : readResponsesAnswer(output, isStream),
    finish: 'length',
  },
};

async function send(client: Client, [dialect, answer]: readonly [Dialect, string | object]) {
  const stream = typeof answer === 'string';
  const end = dialect === 'openai' ? 'data: [DONE]\n\n' : '';
  const contentType = stream ? 'text/event-stream' : 'application/json';
  upstream.script('cut', replay(stream ? answer + end : JSON.stringify(answer), { contentType }));
  const body = { model: `test/${dialect}`, stream, ...client.body };
  const reply = await gateway.post(body, { path: client.path });
  expect([reply.status, reply.text]).toEqual([200, reply.text]);
  const isForwarded = dialect === 'openai-responses';
  return { reply, seen: client.read(reply.text, stream, isForwarded) };
}

describe.each(Object.entries(answers))('a cut tool call in %s', (_, answer) => {
  test.each(Object.entries(clients))('is cut off for a %s client', async (_name, client) => {
    const { reply, seen } = await send(client, answer);
    expect([seen.finish, seen.calls[0]?.name]).toEqual([client.finish, 'report']);
    expect(reply.text).not.toMatch(/"(?:finish_reason|stop_reason)": ?"tool_(?:calls|use)"/);
    const { status, finishReason, usage } = await gateway.record(reply.requestId);
    expect([status, finishReason, usage.inputTokens, usage.outputTokens]).toEqual([
      'success',
      'length',
      108,
      16,
    ]);
  });
});
