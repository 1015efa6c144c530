/**
 * An upstream that sends a tool's name in pieces, as Moonshot has done with long names since August
 * 2026. Every client receives one call with the full name.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import {
  readAnthropicAnswer,
  readOpenAiAnswer,
  readResponsesAnswer,
} from '../support/client-answers.ts';
import { replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  gateway = await InProcessGateway.start({
    providers: { other: { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'key' } },
    models: [chatModel('acme/other', [{ provider: 'other', model: 'up' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const names = ['list_issues', 'list_users', 'look'];

interface Piece {
  readonly name?: string;
  readonly json?: string;
  readonly id?: string;
}

/** `finishReason` is repeated in every chunk. */
function script(pieces: readonly Piece[], finishReason: string | null = null): void {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    choices: [{ index: 0, delta, finish_reason }],
  });
  const calls = pieces.map(({ name, json, id }) =>
    chunk({ tool_calls: [{ index: 0, id, function: { name, arguments: json } }] }, finishReason),
  );
  const usage = { prompt_tokens: 3, completion_tokens: 9, total_tokens: 12 };
  const events = [...calls, chunk({}, 'tool_calls'), { choices: [], usage }];
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
  upstream.script('up', replay(`${text}data: [DONE]\n\n`, { contentType: 'text/event-stream' }));
}

const parameters = { type: 'object' };
const messages = [{ role: 'user', content: 'Hello' }];
const request = { model: 'acme/other', stream: true };

const clients = {
  chat: async () => {
    const tools = names.map((name) => ({ type: 'function', function: { name, parameters } }));
    const options = { stream_options: { include_usage: true } };
    const { text } = await gateway.post({ ...request, ...options, messages, tools });
    return readOpenAiAnswer(text, true);
  },
  messages: async () => {
    const tools = names.map((name) => ({ name, input_schema: parameters }));
    const body = { ...request, messages, tools, max_tokens: 50 };
    return readAnthropicAnswer((await gateway.post(body, { path: '/v1/messages' })).text, true);
  },
  responses: async () => {
    const tools = names.map((name) => ({ type: 'function', name, parameters }));
    const body = { ...request, input: 'Hello', tools };
    return readResponsesAnswer((await gateway.post(body, { path: '/v1/responses' })).text, true);
  },
};

async function calls(client: keyof typeof clients) {
  const seen = await clients[client]();
  return seen.calls.map(({ name, arguments: json }) => [name, json]);
}

test.each(Object.keys(clients) as (keyof typeof clients)[])(
  'a %s client receives one call for a tool name in pieces',
  async (client) => {
    const remaining = [{ name: 'ues' }, { json: '{"a":' }, { json: '1}' }];
    const pieces = [{ id: 'a', name: 'list_iss', json: '' }, ...remaining];
    for (const finishReason of [null, 'tool_calls', 'stop']) {
      script(pieces, finishReason);
      expect(await calls(client)).toEqual([['list_issues', '{"a":1}']]);
    }
    // Older Moonshot servers give each piece its own ID.
    script([
      { id: 'a', name: 'li' },
      { id: 'b', name: 'st_' },
      { id: 'c', name: 'users', json: '{}' },
    ]);
    expect(await calls(client)).toEqual([['list_users', '{}']]);
    // A piece that doesn't continue any tool's name is another call.
    script([
      { id: 'a', name: 'list', json: '{"a":1}' },
      { id: 'a', name: 'look' },
    ]);
    expect(await calls(client)).toEqual([
      ['list', '{"a":1}'],
      ['look', '{}'],
    ]);
  },
);
