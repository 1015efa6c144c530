/** Web search: the model requests searches, the gateway runs them, and the answer is streamed. */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { makeByokTenant } from '../support/byok.ts';
import {
  callTools,
  chatAnswer,
  cutMidStream,
  rawUsage,
  withoutUsage,
  words,
} from '../support/fake-upstream.ts';
import { contentOf } from '../support/in-process.ts';
import {
  answerRound,
  chat,
  choiceOf,
  news,
  searchRound,
  startSearchGateway,
  tokens,
  weather,
} from '../support/search-gateway.ts';
import { checkAnthropicStream } from '../support/stream-checks.ts';

const rig = await startSearchGateway();
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

const queries = () => rig.engine.searches.map(({ params }) => params.q);
/** The rounds cost 100 + 2 × 10 and 300 + 2 × 20, and there is one search. */
const oneSearch = { model: 460, byok: 0, tool: 5_000, searches: 1 };

describe.each(['test/chat', 'test/claude'])('chat with a web search at %s', (model) => {
  test('searches, answers, and charges the search and the answer', async () => {
    rig.upstream.script('chat', [searchRound('weather today'), answerRound('It rained [1].')]);
    const reply = await rig.gateway.post(chat({ model }));
    expect(contentOf(reply)).toBe('It rained [1].');
    expect(choiceOf(reply).finish_reason).toBe('stop');
    expect(queries()).toEqual(['weather today']);
    expect(await rig.bill(reply)).toEqual(oneSearch);
    expect(reply.json.usage).toMatchObject({ prompt_tokens: 400, completion_tokens: 30 });
    expect(reply.json.usage).toMatchObject({ cost: 5_460 });
    const { url, title, snippet: content } = news;
    const url_citation = { url, title, content, start_index: 10, end_index: 13 };
    expect(choiceOf(reply).message.annotations).toEqual([
      { type: 'url_citation', url_citation } as never,
    ]);
    expect(rig.lastPrompt()).toContain('It rained.');
    expect(reply.text).not.toContain('web_search');
  });

  test('streams the answer at the same charge', async () => {
    rig.upstream.script('chat', [searchRound('weather today'), answerRound('It rained [1].')]);
    const reading = await rig.gateway.stream(
      chat({ model, stream_options: { include_usage: true } }),
    );
    expect(reading.content).toBe('It rained [1].');
    expect([reading.finishReasons, reading.doneCount]).toEqual([['stop'], 1]);
    expect(JSON.stringify(reading.chunks)).toContain('"start_index":10,"end_index":13');
    expect(await rig.bill(reading)).toEqual(oneSearch);
    expect(isObject(reading.usage) && reading.usage.cost).toBe(5_460);
  });

  test('returns and charges one choice, whatever n is', async () => {
    rig.upstream.script('chat', [searchRound('weather today'), answerRound('It rained [1].')]);
    const reply = await rig.gateway.post(chat({ model, n: 3 }));
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('n');
    for (const { json } of rig.upstream.requests) expect(json).not.toHaveProperty('n');
    expect(reply.json.choices).toHaveLength(1);
    expect(await rig.bill(reply)).toEqual(oneSearch);
  });

  test('streams several rounds as one answer', async () => {
    const first = callTools([{ name: 'web_search', arguments: { query: 'one' }, id: 'call_one' }], {
      text: 'Let me look.',
      ...tokens(100, 10),
    });
    rig.upstream.script('chat', [
      first,
      searchRound('two'),
      answerRound('Rain [1], and rain [2].'),
    ]);
    const reading = await rig.gateway.stream(chat({ model }));
    expect(reading.content).toBe('Let me look.\n\nRain [1], and rain [2].');
    expect([reading.finishReasons, reading.doneCount]).toEqual([['stop'], 1]);
    expect(queries()).toEqual(['one', 'two']);
    // 2 × (100 + 2 × 10), then 300 + 2 × 20, and two searches.
    expect(await rig.bill(reading)).toEqual({ model: 580, byok: 0, tool: 10_000, searches: 2 });
    // Only the client receives the separator. The model receives its own text unchanged.
    expect(rig.lastPrompt()).toContain('Let me look.');
    expect(rig.lastPrompt()).not.toContain('Let me look.\\n');
  });

  test.each([false, true])(
    'returns only JSON if the client requested JSON (streaming: %p)',
    async (stream) => {
      const first = callTools(
        [{ name: 'web_search', arguments: { query: 'one' }, id: 'call_one' }],
        {
          text: 'Let me look.',
          ...tokens(100, 10),
        },
      );
      rig.upstream.script('chat', [first, answerRound('{"rain": "yes [1]"}')]);
      const body = chat({ model, response_format: { type: 'json_object' } });
      const reply = stream ? await rig.gateway.stream(body) : await rig.gateway.post(body);
      const content = 'chunks' in reply ? reply.content : contentOf(reply);
      expect(content).toBe('{"rain": "yes [1]"}');
      expect(rig.lastPrompt()).toContain('Let me look.');
      expect(await rig.bill(reply)).toEqual(oneSearch);
    },
  );

  test.each([false, true])('is replayed with its reasoning (streaming: %p)', async (stream) => {
    const answer = chatAnswer('It rained [1].', { reasoning: 'Outside.', ...tokens(300, 20) });
    const send = async () => {
      rig.upstream.script('chat', [searchRound('weather'), answer]);
      const headers = { 'idempotency-key': `reasoning-${model}-${stream}` };
      const reply = await rig.gateway.post(chat({ model, stream }), { headers });
      expect(reply.text).toContain('Outside.');
      return [reply.headers.get('idempotent-replayed'), await rig.bill(reply)];
    };
    const balance = await rig.gateway.balance();
    // Both link to the receipt of the charged request.
    expect([await send(), await send()]).toEqual([
      [null, oneSearch],
      ['true', oneSearch],
    ]);
    expect(balance - (await rig.gateway.balance())).toBe(5_460);
    expect(queries()).toEqual(['weather']);
  });

  test('serves Anthropic clients with and without streaming', async () => {
    const path = '/v1/messages';
    const tools = [{ type: 'web_search_20250305', name: 'web_search', max_uses: 5 }];
    const body = { model, max_tokens: 200, messages: weather, tools };
    for (const stream of [false, true]) {
      rig.reset();
      rig.upstream.script('chat', [searchRound('weather today'), answerRound('It rained [1].')]);
      const reply = await rig.gateway.post({ ...body, stream }, { path });
      const summary = stream ? checkAnthropicStream(reply.text) : undefined;
      if (summary) {
        expect(summary).toMatchObject({
          ended: 'complete',
          text: 'It rained [1].',
          blocks: ['server_tool_use', 'web_search_tool_result', 'text'],
        });
        expect(summary.citations).toMatchObject([{ url: news.url, title: news.title }]);
        expect(summary.stopReason).toBe('end_turn');
        expect(summary.usage).toMatchObject({ input_tokens: 400, output_tokens: 30 });
      } else {
        expect(reply.json).toMatchObject({ stop_reason: 'end_turn', model });
        const citation = { url: news.url, title: news.title };
        expect(reply.json.content).toMatchObject([
          { type: 'server_tool_use' },
          { type: 'web_search_tool_result' },
          { type: 'text', text: 'It rained [1].', citations: [citation] },
        ]);
        expect(reply.json.usage).toMatchObject({ input_tokens: 400, output_tokens: 30 });
      }
      expect(queries()).toEqual(['weather today']);
      expect(await rig.bill(reply)).toEqual(oneSearch);
    }
  });
});

describe('web searches', () => {
  test.each([
    ['a tool', { tools: [{ type: 'web_search' }] }],
    ['a plugin', { tools: undefined, plugins: [{ id: 'web' }] }],
    ['a suffix', { tools: undefined, model: 'test/chat:online' }],
    ['a suffix in the chain', { tools: undefined, model: undefined, models: ['test/chat:online'] }],
  ])('are requested by %s', async (_, fields) => {
    rig.upstream.script('chat', [searchRound('q'), answerRound('Yes.')]);
    const reply = await rig.gateway.post(chat(fields));
    expect([reply.status, reply.json.model, queries()]).toEqual([200, 'test/chat', ['q']]);
    expect(rig.upstream.requests.map(({ json }) => isObject(json) && json.model)).toEqual([
      'chat',
      'chat',
    ]);
    for (const word of ['plugins', ':online']) expect(rig.lastPrompt()).not.toContain(word);
  });

  test('follow the domain filters', async () => {
    rig.engine.answer([
      news,
      { title: 'Docs', url: 'https://docs.good.example/a', snippet: 'Fine.' },
      { title: 'Bad', url: 'https://bad.good.example/b', snippet: 'Not fine.' },
    ]);
    rig.upstream.script('chat', [searchRound('q'), answerRound('Yes.')]);
    const filters = { allowed_domains: ['good.example'], excluded_domains: ['bad.good.example'] };
    await rig.gateway.post(chat({ tools: [{ type: 'web_search', ...filters }] }));
    expect(queries()).toEqual(['q site:good.example -site:bad.good.example']);
    expect(rig.lastPrompt()).toContain('docs.good.example/a');
    for (const word of ['news.example', 'Not fine']) expect(rig.lastPrompt()).not.toContain(word);
  });

  test("follow the filters of OpenAI's tool, and unsupported filters are reported", async () => {
    rig.upstream.script('chat', [searchRound('q'), answerRound('Yes.')]);
    const filters = { allowed_domains: ['good.example'], languages: ['en'] };
    const unsupported = { user_location: { type: 'approximate' }, search_context_size: 'low' };
    const tool = { type: 'web_search', name: 'web_search', max_uses: 2, filters, ...unsupported };
    const reply = await rig.gateway.post(chat({ tools: [tool] }));
    expect(queries()).toEqual(['q site:good.example']);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe(
      'tools[0].user_location, tools[0].search_context_size, tools[0].filters.languages',
    );
  });

  test("follow the blocked domains of OpenAI's tool, and duplicates are reported", async () => {
    rig.upstream.script('chat', [searchRound('q'), answerRound('Yes.')]);
    const filters = { allowed_domains: ['good.example'], blocked_domains: ['bad.example'] };
    const duplicates = { allowed_domains: ['a.example'], excluded_domains: [] };
    const tool = { type: 'web_search', filters, ...duplicates, blocked_domains: ['b.example'] };
    const reply = await rig.gateway.post(chat({ tools: [tool] }));
    expect(queries()).toEqual(['q site:good.example -site:bad.example']);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe(
      'tools[0].allowed_domains, tools[0].blocked_domains',
    );
  });

  test.each([
    ['/v1/chat/completions', {}],
    ['/v1/messages', { max_tokens: 200 }],
  ])('are not made if the client forbids web access: %s', async (path, more) => {
    for (const model of ['test/chat', 'test/claude']) {
      rig.reset();
      const tools = [{ type: 'web_search', external_web_access: false }];
      const reply = await rig.gateway.post(chat({ model, tools, ...more }), { path });
      expect([reply.status, queries()]).toEqual([200, []]);
      expect(reply.headers.get('x-tollgate-dropped-params')).toBe('tools[0]');
      expect(rig.sentIn(0).tools).toBeUndefined();
    }
  });

  test.each([
    [
      { tools: [{ type: 'web_search', allowed_domains: ['ok.example', 'no domain'] }] },
      'tools[0].allowed_domains[1]',
    ],
    [
      { tools: [{ type: 'web_search', blocked_domains: ['no domain'] }] },
      'tools[0].blocked_domains[0]',
    ],
    [
      { tools: [{ type: 'web_search', filters: { allowed_domains: ['no domain'] } }] },
      'tools[0].filters.allowed_domains[0]',
    ],
    [
      { tools: [{ type: 'web_search', filters: { blocked_domains: ['no domain'] } }] },
      'tools[0].filters.blocked_domains[0]',
    ],
    [
      { tools: [{ type: 'web_search', allowed_domains: Array(101).fill('ok.example') }] },
      'tools[0].allowed_domains',
    ],
    [
      { tools: [{ type: 'web_search', blocked_domains: ['a'.repeat(301)] }] },
      'tools[0].blocked_domains[0]',
    ],
    [{ tools: undefined, plugins: [{ id: 'web', max_uses: 0 }] }, 'plugins[0].max_uses'],
    [{ tools: undefined, plugins: [{ id: 'web', max_results: 101 }] }, 'plugins[0].max_results'],
    [{ tools: undefined, plugins: [{ id: 'other' }] }, 'plugins[0].id'],
  ])('return 400 for invalid options: %j', async (fields, param) => {
    const reply = await rig.gateway.post(chat(fields));
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(rig.upstream.requests).toHaveLength(0);
  });

  test.each([
    [{ allowed_domains: 'a.example' }, 'tools[0].allowed_domains must be a list'],
    [{ blocked_domains: [7] }, 'tools[0].blocked_domains[0] must be a string'],
    [{ max_uses: 'five' }, 'tools[0].max_uses must be a whole number'],
  ])('validate options of Anthropic clients: %j', async (fields, message) => {
    const tools = [{ type: 'web_search_20250305', name: 'web_search', ...fields }];
    const body = { model: 'test/chat', max_tokens: 9, messages: weather, tools };
    const reply = await rig.gateway.post(body, { path: '/v1/messages' });
    expect(reply.status).toBe(400);
    expect(reply.error.message).toStartWith(message);
  });

  test("accept a vendor's tool that allows more searches than the limit", async () => {
    rig.upstream.script('chat', [searchRound('q'), answerRound('Yes.')]);
    const tools = [{ type: 'web_search_20250305', name: 'web_search', max_uses: 1_000 }];
    const body = { model: 'test/chat', max_tokens: 9, messages: weather, tools };
    expect((await rig.gateway.post(body, { path: '/v1/messages' })).status).toBe(200);
    expect(queries()).toEqual(['q']);
  });

  test('are limited by max_uses and max_results', async () => {
    rig.engine.answer([news, { ...news, url: 'https://second.example/', title: 'Second' }]);
    rig.upstream.script('chat', [searchRound('a', 'b'), answerRound('Enough.')]);
    const tools = [{ type: 'web_search', max_uses: 1, max_results: 1 }];
    const reply = await rig.gateway.post(chat({ tools }));
    expect(queries()).toEqual(['a']);
    expect(rig.lastPrompt()).toContain('No more searches are possible');
    expect(rig.lastPrompt()).not.toContain('second.example');
    expect(rig.upstream.requests.at(-1)?.json).toMatchObject({ tool_choice: 'none' });
    expect(await rig.bill(reply)).toEqual(oneSearch);
  });

  test('end with an answer when they reach the limit', async () => {
    rig.upstream.script('chat', searchRound('again'));
    for (const stream of [false, true]) {
      rig.reset();
      rig.upstream.script('chat', searchRound('again'));
      const reply = await rig.gateway.post(chat({ stream }));
      expect(reply.status).toBe(200);
      expect([rig.engine.searches.length, rig.upstream.requests.length]).toEqual([3, 4]);
      expect(reply.text).toContain('web search limit');
      expect(reply.text).toContain('"finish_reason":"stop"');
      // 4 rounds of 120.
      expect(await rig.bill(reply)).toEqual({ model: 480, byok: 0, tool: 15_000, searches: 3 });
    }
  });

  test('run concurrently with continuous numbers and are all charged', async () => {
    rig.upstream.script('chat', [
      searchRound('a', 'b'),
      answerRound('Rain [1] and rain [2], not [3].'),
    ]);
    const reply = await rig.gateway.post(chat());
    expect(queries().sort()).toEqual(['a', 'b']);
    const cited = choiceOf(reply).message.annotations ?? [];
    expect(cited.map(({ url_citation: { start_index: at } }) => at)).toEqual([5, 18]);
    expect(await rig.bill(reply)).toEqual({ model: 460, byok: 0, tool: 10_000, searches: 2 });
    const { messages } = rig.sentIn(1) as { messages: Record<string, unknown>[] };
    const results = messages.filter(({ role }) => role === 'tool');
    expect(results.map(({ tool_call_id: id }) => id)).toEqual(['call_ws_0', 'call_ws_1']);
  });

  test("cost both the BYOK fee and the search fee with the tenant's own provider key", async () => {
    const tenant = await makeByokTenant(rig.gateway, 'searcher');
    await tenant.setProviderKey('first', { api_key: 'sk-their-own-0123456789' });
    rig.upstream.script('chat', [searchRound('q'), answerRound('It rained [1].')]);
    const reply = await tenant.chat(chat());
    expect(rig.upstream.requests[1]?.headers.authorization).toBe('Bearer sk-their-own-0123456789');
    await rig.gateway.get(`/v1/generation?id=${reply.requestId}`, { key: tenant.key });
    const { charges, trafficMode } = await rig.gateway.record(reply.requestId, tenant.id);
    // 10% of 460, and one search.
    expect(charges).toMatchObject({ modelCharge: 0, byokPlatformFee: 46, managedToolFee: 5_000 });
    expect(trafficMode).toBe('byok');
  });

  test.each([false, true])(
    'end with an answer if a round reports implausible usage (streaming: %s)',
    async (stream) => {
      const usage = { prompt_tokens: 200_000, completion_tokens: 5 };
      rig.upstream.script('chat', [searchRound('a'), rawUsage(usage, chatAnswer('Rain.'))]);
      const reply = await rig.gateway.post(chat({ stream }));
      expect(reply.text).toContain('Rain.');
      const bill = await rig.bill(reply);
      expect(bill).toMatchObject({ tool: 5_000, searches: 1 });
      expect(bill.model).toBeLessThan(1_000);
    },
  );

  test('are charged an estimate if the provider is interrupted before it reports its output', async () => {
    const counted = { usage: { prompt: 70, completion: 24 } };
    const broken = cutMidStream(42, 'end-of-body', chatAnswer(words(50), counted));
    rig.upstream.script('chat', [searchRound('a'), broken]);
    const reply = await rig.gateway.post(chat({ model: 'test/claude', stream: true }));
    // The first round searches. The second has 39 words: 146 characters are 36 tokens.
    expect(await rig.bill(reply)).toMatchObject({ model: 120 + 70 + 36 * 2, searches: 1 });
    expect(await rig.gateway.record(reply.requestId)).toMatchObject({ usageEstimated: true });
  });

  test('do not raise the charge of estimated usage', async () => {
    const free = await startSearchGateway({ usd_per_search: '0' });
    try {
      const bills = [];
      for (const { upstream, engine, gateway, bill } of [rig, free]) {
        engine.answer([news]);
        upstream.script('chat', [searchRound('a'), withoutUsage(chatAnswer('y'.repeat(400_000)))]);
        bills.push(await bill(await gateway.post(chat({ max_tokens: 1 }))));
      }
      // Both are charged the credits held for the model. The first also pays the search fee.
      expect(bills[0]).toEqual({ model: bills[1]?.model ?? 0, byok: 0, tool: 5_000, searches: 1 });
    } finally {
      await free.stop();
    }
  });

  test('are cached only if the request has cache: always', async () => {
    const send = async (key: string) => {
      rig.upstream.script('chat', [searchRound('q'), answerRound('It rained [1].')]);
      const reply = await rig.gateway.post(chat({ temperature: 0 }), { key });
      return [reply.headers.get('x-cache'), contentOf(reply), await rig.bill(reply)];
    };
    const defaultKey = await rig.gateway.makeKey({});
    const alwaysKey = await rig.gateway.makeKey({ cache: 'always' });
    const computed = ['MISS', 'It rained [1].', oneSearch];
    const cached = ['HIT', 'It rained [1].', { model: 0, byok: 0, tool: 0, searches: 0 }];
    expect([await send(defaultKey), await send(defaultKey)]).toEqual([computed, computed]);
    expect([await send(alwaysKey), await send(alwaysKey)]).toEqual([computed, cached]);
    expect(rig.engine.searches).toHaveLength(3);
  });

  test('in a Responses request are cached with and without streaming', async () => {
    const key = await rig.gateway.makeKey({ cache: 'always' });
    const body = { model: 'test/chat', input: 'Weather?', tools: [{ type: 'web_search' }] };
    rig.upstream.script('chat', [searchRound('q'), answerRound('It rained [1].')]);
    const options = { key, path: '/v1/responses' };
    const full = await rig.gateway.post(body, options);
    const streamed = await rig.gateway.post({ ...body, stream: true }, options);
    const heads = [full, streamed].map(({ headers }) => headers.get('x-cache'));
    expect(heads).toEqual(['MISS', 'HIT']);
    expect(streamed.text).toContain('"text":"It rained [1]."');
    expect(rig.engine.searches).toHaveLength(1);
  });

  test('are in the request log and in analytics', async () => {
    const tenant = await makeByokTenant(rig.gateway, 'analyst');
    rig.upstream.script('chat', [searchRound('a', 'b'), answerRound('Rain.')]);
    await tenant.chat(chat());
    await tenant.chat(chat({ tools: [] }));
    const logs = await rig.gateway.get('/v1/customer/logs', { key: tenant.key });
    const rows = logs.json.logs as { cost_breakdown: Record<string, unknown> }[];
    const fees = rows.map(({ cost_breakdown: fee }) => fee.managed_tool_fee);
    expect(fees).toEqual([0, 10_000]);
    expect(rows[1]?.cost_breakdown).toMatchObject({ model_charge: 460, total_charge: 10_460 });
    const analytics = await rig.gateway.get('/v1/customer/analytics', { key: tenant.key });
    const data = isObject(analytics.json.data) ? analytics.json.data : analytics.json;
    expect(data.summary).toMatchObject({ search_requests: 2, managed_tool_fees: 10_000 });
  });
});

describe("a client's own tools", () => {
  const lookup = { type: 'function', function: { name: 'lookup', parameters: {} } };

  test.each([false, true])(
    'can be called next to the search tool (streaming: %p)',
    async (stream) => {
      const both = callTools(
        [
          { name: 'web_search', arguments: { query: 'weather' }, id: 'call_search' },
          { name: 'lookup', arguments: { place: 'here' }, id: `call_lookup_${stream}` },
        ],
        tokens(100, 10),
      );
      rig.upstream.script('chat', [both, chatAnswer('Here it rained.', tokens(10, 5))]);
      const tools = [{ type: 'web_search' }, lookup];
      const first = await rig.gateway.post(chat({ tools, stream }));
      expect(first.text).toContain('"finish_reason":"tool_calls"');
      expect(first.text).toContain(`call_lookup_${stream}`);
      expect(first.text).not.toContain('web_search');
      expect(await rig.bill(first)).toEqual({ model: 120, byok: 0, tool: 5_000, searches: 1 });
      const call = {
        id: `call_lookup_${stream}`,
        type: 'function',
        function: { name: 'lookup', arguments: '{"place":"here"}' },
      };
      const messages = [
        ...weather,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: call.id, content: 'Found.' },
      ];
      await rig.gateway.post(chat({ tools, messages }));
      expect(rig.lastPrompt()).toContain('call_search');
      expect(rig.lastPrompt()).toContain('It rained.');
      // Restored searches are not visible to other tenants.
      const stranger = await rig.gateway.makeTenant({ id: `stranger-${stream}`, name: 'Stranger' });
      await rig.gateway.post(chat({ tools, messages }), { key: stranger });
      expect(rig.lastPrompt()).not.toContain('It rained.');
    },
  );

  const flat = { name: 'lookup', parameters: {} };
  const anthropicTool = { name: 'lookup', input_schema: { type: 'object' } };
  // A Messages client also gets the URL in the search's result. A Responses stream repeats it in an
  // event, a part, an item, and the response.
  test.each<[string, [number, number], object, object]>([
    ['/v1/chat/completions', [1, 1], { messages: weather }, { type: 'function', function: flat }],
    ['/v1/messages', [2, 2], { messages: weather, max_tokens: 200 }, anthropicTool],
    ['/v1/responses', [1, 4], { input: 'What is the weather?' }, { type: 'function', ...flat }],
  ])(
    'receive no citations from the text before them: %s',
    async (path, [inReply, inStream], fields, own) => {
      const tools = [{ type: 'web_search' }, own];
      const cited = callTools([{ name: 'lookup', arguments: {} }], { text: 'It rained [1].' });
      for (const stream of [false, true]) {
        rig.reset();
        rig.upstream.script('chat', [searchRound('weather'), cited]);
        const body = { model: 'test/chat', ...fields, tools, stream };
        const { text } = await rig.gateway.post(body, { path });
        expect(text).toContain('lookup');
        expect(text.split(news.url)).toHaveLength(1 + (stream ? inStream : inReply));
      }
    },
  );

  test('can have the same name as the search tool', async () => {
    const clientTool = { type: 'function', function: { name: 'web_search', parameters: {} } };
    rig.upstream.script('chat', [searchRound('client'), chatAnswer('Done.')]);
    const reply = await rig.gateway.post(chat({ tools: [clientTool], plugins: [{ id: 'web' }] }));
    expect(choiceOf(reply)).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [{ function: { name: 'web_search' } }] },
    });
    expect(rig.engine.searches).toHaveLength(0);
    const { tools } = rig.sentIn(0) as { tools: { function: { name: string } }[] };
    expect(tools.map((tool) => tool.function.name)).toEqual(['web_search', 'gateway_web_search']);
  });
});
