/** A web search by the gateway, as clients of the Messages and Responses APIs see it. */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test';
import { callTools, chatAnswer } from '../support/fake-upstream.ts';
import {
  answerRound,
  news,
  searchRound,
  startSearchGateway,
  tokens,
  weather,
} from '../support/search-gateway.ts';
import { checkAnthropicStream, checkResponsesStream } from '../support/stream-checks.ts';

const rig = await startSearchGateway({ calls_max: 1 });
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

const queries = ['weather today', 'too many'];
const look = callTools(
  queries.map((query, index) => ({
    name: 'web_search',
    arguments: { query },
    id: `call_${index}`,
  })),
  { text: 'Let me look.', ...tokens(100, 10) },
);

const messagesPath = '/v1/messages';
const search = { type: 'web_search_20250305', name: 'web_search' };
const messagesBody = (more: object = {}) => ({
  ...{ model: 'test/chat', max_tokens: 200, messages: weather, tools: [search], ...more },
});
const { url, title } = news;
const page = { type: 'web_search_result', url, title, encrypted_content: '', page_age: null };
const citation = {
  ...{ type: 'web_search_result_location', url, title, encrypted_index: '' },
  cited_text: news.snippet,
};
const [firstId, secondId] = [0, 1].map((index) =>
  expect.stringMatching(new RegExp(`^srvtoolu_\\w+${index}$`)),
);
const uses = queries.map((query, index) => ({
  ...{ type: 'server_tool_use', name: 'web_search', input: { query } },
  id: [firstId, secondId][index],
}));
const failure = { type: 'web_search_tool_result_error', error_code: 'max_uses_exceeded' };
const shownBlocks = [
  { type: 'text', text: 'Let me look.' },
  uses[0],
  { type: 'web_search_tool_result', tool_use_id: firstId, content: [page] },
  uses[1],
  { type: 'web_search_tool_result', tool_use_id: secondId, content: failure },
  { type: 'text', text: '\n\nIt rained [1].', citations: [citation] },
];
const counted = { server_tool_use: { web_search_requests: 1, web_fetch_requests: 0 } };

interface Reply {
  readonly json: Record<string, unknown>;
}

const contentOf = ({ json }: Reply) => json.content as { type: string; id?: string }[];
const outputOf = ({ json }: Reply) => json.output as object[];

describe.each(['test/chat', 'test/claude'])(
  'a search shown to a Messages client of %s',
  (model) => {
    test('is a use of a server tool with its result, and is counted in the usage', async () => {
      rig.upstream.script('chat', [look, answerRound('It rained [1].')]);
      const reply = await rig.gateway.post(messagesBody({ model }), { path: messagesPath });
      expect(contentOf(reply)).toEqual(shownBlocks as never);
      const [, use, result] = contentOf(reply);
      expect(use?.id).toBe((result as { tool_use_id?: string }).tool_use_id ?? '');
      expect(reply.json.usage).toMatchObject(counted);
    });

    test('is streamed the same way, and replayed', async () => {
      const send = async () => {
        rig.upstream.script('chat', [look, answerRound('It rained [1].')]);
        const headers = { 'idempotency-key': `shown-${model}` };
        const body = messagesBody({ model, stream: true });
        return rig.gateway.post(body, { path: messagesPath, headers });
      };
      for (const replayed of [null, 'true']) {
        const reply = await send();
        expect(reply.headers.get('idempotent-replayed')).toBe(replayed);
        const seen = checkAnthropicStream(reply.text);
        expect(seen).toMatchObject({ ended: 'complete', stopReason: 'end_turn', tools: [] });
        expect(seen.blocks).toEqual(shownBlocks.map((block) => block?.type ?? ''));
        expect(seen.citations).toEqual([citation]);
        expect(seen.usage).toMatchObject(counted);
        expect(reply.text).toContain(
          '"delta":{"type":"input_json_delta","partial_json":"{\\"query\\":\\"weather today\\"}"}',
        );
      }
    });
  },
);

test("a Messages client's next request may contain the search, and no provider gets it", async () => {
  rig.upstream.script('chat', [look, answerRound('It rained [1].')]);
  const first = await rig.gateway.post(messagesBody(), { path: messagesPath });
  const messages = [
    ...weather,
    { role: 'assistant', content: contentOf(first) },
    { role: 'user', content: 'Thanks.' },
  ];
  for (const model of ['test/chat', 'test/claude']) {
    for (const tools of [undefined, [search]]) {
      rig.upstream.script('chat', chatAnswer('Bye.'));
      const body = messagesBody({ model, messages, tools });
      const reply = await rig.gateway.post(body, { path: messagesPath });
      expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, null]);
      expect(rig.lastPrompt()).toContain('Let me look.');
      expect(rig.lastPrompt()).not.toMatch(/server_tool_use|web_search_tool_result|encrypted/);
    }
  }
});

const responsesPath = '/v1/responses';
const responsesBody = (more: object = {}) => ({
  ...{
    model: 'test/chat',
    input: 'What is the weather?',
    tools: [{ type: 'web_search' }],
    ...more,
  },
});
const include = ['web_search_call.action.sources'];
const itemOf = (index: number, sources?: readonly object[]) => {
  const query = queries[index];
  const action = { type: 'search', query, queries: [query], ...(sources ? { sources } : {}) };
  return {
    ...{ id: expect.stringMatching(/^ws_\w+$/), type: 'web_search_call', action },
    status: index === 0 ? 'completed' : 'failed',
  };
};
const shownItems = (sources?: readonly object[]) => [
  expect.objectContaining({ type: 'message' }),
  itemOf(0, sources),
  itemOf(1, sources && []),
  expect.objectContaining({ type: 'message' }),
];

describe('a search shown to a Responses client', () => {
  test.each([
    ['without sources', {}, undefined],
    ['with the sources that the client includes', { include }, [{ type: 'url', url }]],
  ])('is an item %s', async (_, fields, sources) => {
    rig.upstream.script('chat', [look, answerRound('It rained [1].')]);
    const reply = await rig.gateway.post(responsesBody(fields), { path: responsesPath });
    expect(outputOf(reply)).toEqual(shownItems(sources));
    expect(reply.headers.get('x-tollgate-dropped-params')).toBeNull();
  });

  test('is streamed with its events, and replayed', async () => {
    for (const replayed of [null, 'true']) {
      rig.upstream.script('chat', [look, answerRound('It rained [1].')]);
      const headers = { 'idempotency-key': 'shown-responses' };
      const body = responsesBody({ include, stream: true });
      const reply = await rig.gateway.post(body, { path: responsesPath, headers });
      expect(reply.headers.get('idempotent-replayed')).toBe(replayed);
      const seen = checkResponsesStream(reply.text);
      expect(seen.items).toEqual(shownItems([{ type: 'url', url }]));
      const steps = [...reply.text.matchAll(/"type":"response\.web_search_call\.(\w+)/g)];
      const begun = ['in_progress', 'searching'];
      expect(steps.map(([, step]) => step)).toEqual([...begun, 'completed', ...begun]);
      expect(seen.annotations).toMatchObject([{ url, start_index: 12, end_index: 15 }]);
    }
  });

  test('may be in the next request, and no provider gets it', async () => {
    rig.upstream.script('chat', [look, answerRound('It rained [1].')]);
    const first = await rig.gateway.post(responsesBody({ include }), { path: responsesPath });
    const input = [
      { role: 'user', content: 'What is the weather?' },
      ...outputOf(first),
      { role: 'user', content: 'Thanks.' },
    ];
    for (const tools of [undefined, [{ type: 'web_search' }]]) {
      rig.upstream.script('chat', chatAnswer('Bye.'));
      const reply = await rig.gateway.post(responsesBody({ input, tools }), {
        path: responsesPath,
      });
      expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, null]);
      expect(rig.lastPrompt()).not.toContain('queries');
    }
  });
});

test("searches next to a client's own call are shown, too", async () => {
  const own = { name: 'lookup', input_schema: { type: 'object' } };
  const both = callTools(
    [
      { name: 'lookup', arguments: {}, id: 'call_own' },
      { name: 'web_search', arguments: { query: 'weather' }, id: 'call_search' },
    ],
    tokens(100, 10),
  );
  for (const stream of [false, true]) {
    rig.upstream.script('chat', [both]);
    const body = messagesBody({ tools: [search, own], stream });
    const reply = await rig.gateway.post(body, { path: messagesPath });
    const blocks = stream
      ? checkAnthropicStream(reply.text).blocks
      : contentOf(reply).map(({ type }) => type);
    expect(blocks).toEqual(['tool_use', 'server_tool_use', 'web_search_tool_result']);
    expect(reply.text).toContain('"stop_reason":"tool_use"');
  }
});

test('a chat client sees only citations', async () => {
  rig.upstream.script('chat', [searchRound('weather today'), answerRound('It rained [1].')]);
  const body = { model: 'test/chat', messages: weather, tools: [{ type: 'web_search' }] };
  const reply = await rig.gateway.post(body);
  expect(reply.text).not.toContain('server_tool_use');
  expect(reply.text).toContain('url_citation');
});
