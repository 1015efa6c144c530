/** Failed searches, hostile pages, disconnects, and exhausted credits. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { dataOf, makeByokTenant } from '../support/byok.ts';
import {
  callTools,
  chatAnswer,
  cutMidStream,
  gated,
  hangMidStream,
  rawUsage,
  replay,
  startFakeUpstream,
  status500,
  withoutUsage,
} from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';
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
import { injection, type SearchFault } from '../support/search-server.ts';
import { SlowReader } from '../support/sse-client.ts';
import { waitUntil } from '../support/wait-until.ts';

const rig = await startSearchGateway();
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

/** The charge of 2 rounds without a charged search. */
const noSearch = { model: 460, byok: 0, tool: 0, searches: 0 };

describe('a failing search engine', () => {
  // search-engines.test.ts tests the message of each fault.
  test.each<[SearchFault]>([[500], ['redirect'], ['endless']])(
    'is reported to the model and free if it returns %p',
    async (fault) => {
      rig.engine.failWith(fault);
      rig.upstream.script('chat', [searchRound('q'), answerRound('I could not search.')]);
      const reply = await rig.gateway.post(chat());
      expect([reply.status, contentOf(reply)]).toEqual([200, 'I could not search.']);
      expect(rig.lastPrompt()).toContain('The search failed.');
      expect(rig.lastPrompt()).not.toContain('tvly-secret');
      expect(await rig.bill(reply)).toEqual(noSearch);
    },
  );

  test('is not charged if the engines behind it are blocked', async () => {
    const blocked = [
      ['google', 'Suspended: CAPTCHA'],
      ['duckduckgo', 'timeout'],
    ];
    rig.engine.answerRaw(JSON.stringify({ results: [], unresponsive_engines: blocked }));
    rig.upstream.script('chat', [searchRound('q'), answerRound('I could not search.')]);
    const reply = await rig.gateway.post(chat());
    expect(rig.lastPrompt()).toContain(
      'The search failed. None of the engines behind SearXNG responded.',
    );
    expect(await rig.bill(reply)).toEqual(noSearch);
  });

  test('is logged once when it fails and once when it recovers', async () => {
    const searchOnce = async () => {
      rig.upstream.script('chat', [searchRound('q'), answerRound('Done.')]);
      expect((await rig.gateway.post(chat())).status).toBe(200);
    };
    await searchOnce();
    const before = rig.gateway.logLines.length;
    const logged = () =>
      rig.gateway.logLines
        .slice(before)
        .map((line) => JSON.parse(line) as Record<string, unknown>)
        .filter(({ event }) => String(event).startsWith('search_'))
        .map(({ event, reason }) => [event, reason]);
    rig.engine.failWith(403);
    await searchOnce();
    await searchOnce();
    const reason = 'The search engine denied access.';
    const failed = ['search_failed', reason];
    expect(logged()).toEqual([failed]);
    rig.engine.reset();
    await searchOnce();
    expect(logged()).toEqual([failed, ['search_recovered', undefined]]);
  });

  test('is charged if it finds nothing', async () => {
    rig.engine.answer([]);
    rig.upstream.script('chat', [searchRound('q'), answerRound('Nothing.')]);
    const reply = await rig.gateway.post(chat());
    expect(rig.lastPrompt()).toContain('The search found no pages.');
    expect(await rig.bill(reply)).toMatchObject({ tool: 5_000, searches: 1 });
  });

  test('marks pages with instructions as untrusted', async () => {
    rig.engine.answer([injection]);
    rig.upstream.script('chat', [searchRound('q'), answerRound('No.')]);
    await rig.gateway.post(chat());
    const { messages } = rig.sentIn(1) as { messages: { role: string; content: string }[] };
    const text = messages.find(({ role }) => role === 'tool')?.content ?? '';
    expect(text).toContain('untrusted text from strangers');
    expect(text.split('<<<end of web search results>>>')).toHaveLength(2);
    expect(text).toEndWith('<<<end of web search results>>>');
    expect(text.match(/^\[\d+\]/gm)).toEqual(['[1]']);
    for (const sign of ['\u202e', '\u0000', '\u200b', '\udb40']) expect(text).not.toContain(sign);
  });

  test('is not called for invalid arguments', async () => {
    const callWith = (json: string) =>
      callTools([{ name: 'web_search', arguments: json, id: 'call_odd_1' }], tokens(100, 10));
    for (const json of ['{"query":', '[]', '{"query":7}', '{"query":"  "}', '']) {
      rig.reset();
      rig.upstream.script('chat', [callWith(json), answerRound('Sorry.')]);
      const reply = await rig.gateway.post(chat());
      expect([contentOf(reply), rig.engine.searches.length]).toEqual(['Sorry.', 0]);
      expect(rig.lastPrompt()).toContain('must be a JSON object with a query');
      expect(await rig.bill(reply)).toEqual(noSearch);
    }
  });
});

test('a search runs even if the upstream connection stays open after its call', async () => {
  rig.upstream.script('chat', [searchRound('q'), answerRound('Rain.')]);
  await rig.gateway.stream(chat());
  const allEvents = rig.upstream.requests[0]?.eventsSent ?? 0;
  rig.reset();
  rig.upstream.script('chat', [hangMidStream(allEvents, searchRound('q')), answerRound('Rain.')]);
  const reading = await rig.gateway.stream(chat());
  expect([reading.content, reading.finishReasons, reading.doneCount]).toEqual([
    'Rain.',
    ['stop'],
    1,
  ]);
  // 100 + 2 × 10 and 300 + 2 × 20 credits, and 5,000 for the search.
  expect(await rig.bill(reading)).toEqual({ model: 460, byok: 0, tool: 5_000, searches: 1 });
  await rig.upstream.until((requests) => requests[0]?.outcome === 'client-disconnected');
});

describe('web search without an engine', () => {
  const upstream = startFakeUpstream();
  let gateway: InProcessGateway;
  beforeAll(async () => {
    const base = { base_url: `${upstream.url}/v1`, api_key: 'sk-upstream-012345' };
    gateway = await InProcessGateway.start({
      providers: {
        first: { ...base, dialect: 'openai' },
        claude: { ...base, dialect: 'anthropic' },
      },
      models: [
        chatModel('test/chat', [{ provider: 'first', model: 'chat' }]),
        chatModel('test/claude', [{ provider: 'claude', model: 'chat' }]),
      ],
    });
  });
  afterAll(async () => {
    await gateway.stop();
    upstream.stop();
  });

  test.each([
    [{}, 'tools[0]'],
    [{ tools: undefined, plugins: [{ id: 'web' }] }, 'plugins[0]'],
    [{ tools: undefined, model: 'test/chat:online' }, 'model'],
  ])('returns 400 with the field that requests it: %j', async (fields, param) => {
    const reply = await gateway.post(chat(fields));
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(reply.error.message).toContain('tools.web_search');
    expect(upstream.requests).toHaveLength(0);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });

  test("drops a vendor's own search tool, which is not priced", async () => {
    // Options of the gateway's search don't apply to the vendor's tool.
    const blocked_domains = Array(101).fill(`${'far.'.repeat(80)}example`);
    const tools = [{ type: 'web_search_20250305', name: 'web_search', blocked_domains }];
    const body = { model: 'test/claude', max_tokens: 100, messages: weather, tools };
    const reply = await gateway.post(body, { path: '/v1/messages' });
    expect(reply.status).toBe(200);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('tools[0]');
    expect(upstream.requests).toHaveLength(1);
    expect(upstream.requests[0]?.json).not.toHaveProperty('tools');
  });
});

describe('a client that disconnects', () => {
  test.each([true, false])('cancels a search in progress (stream: %p)', async (stream) => {
    rig.engine.failWith('slow');
    rig.upstream.script('chat', searchRound('q'));
    const client = new AbortController();
    const reply = rig.gateway
      .fetch(chat({ stream, user: `canceled-${stream}` }), { signal: client.signal })
      .then((response) => response.text())
      .catch(() => 'aborted');
    await waitUntil(() => rig.engine.searches.length === 1);
    client.abort();
    await waitUntil(() => rig.engine.abortedCalls() === 1);
    expect(await reply).toBe('aborted');
    const row = await rowOf(`canceled-${stream}`);
    expect(rig.upstream.requests).toHaveLength(1);
    // The model has completed its first round.
    const expected = { cost_breakdown: { model_charge: 120, managed_tool_fee: 0 } };
    expect(row).toMatchObject({ status: 'success', ...expected });
  });

  test('stops the provider and is charged for the output until then', async () => {
    const long = chatAnswer('one two three four five six', tokens(300, 20));
    rig.upstream.script('chat', [searchRound('q'), gated('never', 3, long)]);
    const client = new AbortController();
    const options = { signal: client.signal };
    const response = await rig.gateway.fetch(chat({ stream: true, user: 'late' }), options);
    await new SlowReader(response).readUntil('two');
    client.abort();
    await rig.upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const row = await rowOf('late');
    expect(row.cost_breakdown).toMatchObject({ managed_tool_fee: 5_000 });
    // The first round reported its usage. The usage of the second round is estimated.
    expect(Number(row.cost_breakdown.model_charge)).toBeGreaterThan(120);
    expect(row.billing_note).toContain('estimate');
  });

  interface Row {
    readonly request_id: string;
    readonly status: string;
    readonly cost_breakdown: Record<string, unknown>;
    readonly billing_note: string | null;
  }

  /** Returns the newest row, once this user's request has ended. */
  function rowOf(user: string): Promise<Row> {
    return waitUntil(async () => {
      const { json } = await rig.gateway.get('/v1/customer/logs?limit=5');
      for (const row of json.logs as Row[]) {
        const record = await rig.gateway.record(row.request_id);
        if (record.endUser === user) return row;
      }
      return undefined;
    });
  }
});

describe('exhausted credits', () => {
  test.each([false, true])('end the answer before the next round (stream: %p)', async (stream) => {
    // Enough for one round: about 300 for the prompt and 4,096 × 2 for output. Most of it is used.
    const poor = await makeByokTenant(rig.gateway, `poor-${stream}`, 9_000);
    const search = { name: 'web_search', arguments: { query: 'q' }, id: 'call_0' };
    rig.upstream.script('chat', callTools([search], tokens(100, 4_000)));
    const reply = await poor.chat(chat({ stream }));
    expect(reply.status).toBe(200);
    expect(reply.text).toContain('The credits ran out before there was an answer.');
    expect(reply.text).toContain('"finish_reason":"length"');
    expect([rig.upstream.requests.length, rig.engine.searches.length]).toEqual([1, 0]);
    const credits = await poor.manage('GET', '/api/v1/credits');
    expect(dataOf(credits)).toEqual({ total_credits: 9_000, total_usage: 8_100 });
  });

  test('are reported to the model, which answers without the search', async () => {
    // Enough for 2 rounds of about 600, but not for the fee of 5,000 and 8,000 result tokens.
    const poor = await makeByokTenant(rig.gateway, 'poorer', 9_000);
    rig.upstream.script('chat', [searchRound('q'), answerRound('Without.')]);
    const reply = await poor.chat(chat({ max_tokens: 100 }));
    expect(contentOf(reply)).toBe('Without.');
    expect(rig.lastPrompt()).toContain('There are not enough credits for this search.');
    expect(rig.engine.searches).toHaveLength(0);
    const credits = await poor.manage('GET', '/api/v1/credits');
    expect(dataOf(credits)).toEqual({ total_credits: 9_000, total_usage: 460 });
  });

  test.each([false, true])("skip a search next to a client's call (stream: %p)", async (stream) => {
    // About 30,300 for the prompt and 4,096 × 2 for output are held, and most of it is used.
    const poor = await makeByokTenant(rig.gateway, `beside-${stream}`, 41_000);
    const calls = ['web_search', 'lookup'].map((name) => ({
      name,
      arguments: { query: 'q' },
      id: `call_${name}_${stream}`,
    }));
    rig.upstream.script('chat', callTools(calls, tokens(30_000, 4_000)));
    const lookup = { type: 'function', function: { name: 'lookup', parameters: {} } };
    const messages = [{ role: 'user', content: 'x'.repeat(90_000) }];
    const tools = [{ type: 'web_search' }, lookup];
    const reply = await poor.chat(chat({ stream, messages, tools }));
    expect(reply.text).toContain(`call_lookup_${stream}`);
    expect(rig.engine.searches).toHaveLength(0);
    const credits = await poor.manage('GET', '/api/v1/credits');
    expect(dataOf(credits)).toEqual({ total_credits: 41_000, total_usage: 38_000 });
  });

  test('end the answer before a round with very long results', async () => {
    const poor = await makeByokTenant(rig.gateway, 'far-away', 20_000);
    // The results have 24,000 characters of 3 bytes each, and 8,000 tokens are held for them.
    const snippet = '\u96e8'.repeat(2_000);
    rig.engine.answer(
      Array.from({ length: 12 }, (_, index) => ({ ...news, url: `${news.url}/${index}`, snippet })),
    );
    rig.upstream.script('chat', [searchRound('q'), chatAnswer('Rain.', tokens(22_000, 20))]);
    const tools = [{ type: 'web_search', max_results: 12 }];
    const reply = await poor.chat(chat({ tools, max_tokens: 100 }));
    expect(contentOf(reply)).toBe('The credits ran out before there was an answer.');
    expect([rig.upstream.requests.length, rig.engine.searches.length]).toEqual([1, 1]);
    const credits = await poor.manage('GET', '/api/v1/credits');
    expect(dataOf(credits)).toEqual({ total_credits: 20_000, total_usage: 5_120 });
  });

  test('never fall below 0, whatever usage is reported', async () => {
    const poor = await makeByokTenant(rig.gateway, 'poorest', 40_000);
    // Reasoning may exceed the cap of 4,096 tokens, and so the hold.
    const usage = {
      prompt_tokens: 300,
      completion_tokens: 20_000,
      completion_tokens_details: { reasoning_tokens: 16_000 },
    };
    rig.upstream.script('chat', [searchRound('q'), rawUsage(usage, chatAnswer('Dear.'))]);
    await poor.chat(chat());
    const credits = await poor.manage('GET', '/api/v1/credits');
    expect(dataOf(credits)).toEqual({ total_credits: 40_000, total_usage: 40_000 });
  });
});

describe('a search round', () => {
  test.each([false, true])('is estimated if it reports no usage (stream: %p)', async (stream) => {
    rig.upstream.script('chat', [searchRound('q'), withoutUsage(chatAnswer('x'.repeat(400)))]);
    const reply = await rig.gateway.post(chat({ stream }));
    const record = await rig.gateway.record(reply.requestId);
    expect([record.usageEstimated, record.note]).toEqual([
      true,
      'The provider reported no billable usage. The tokens are an estimate.',
    ]);
    // 10 tokens were reported; 400 characters are 100 tokens.
    expect(record.usage.outputTokens).toBe(110);
    expect(record.usage.inputTokens).toBeGreaterThan(200);
    expect(record.usage.inputTokens).toBeLessThan(2_000);
    expect(record.charges.managedToolFee).toBe(5_000);
  });

  test.each([false, true])(
    'is charged for its output even if it reports only its prompt tokens (stream: %p)',
    async (stream) => {
      const uncounted = rawUsage({ prompt_tokens: 70 }, chatAnswer('x'.repeat(400)));
      rig.upstream.script('chat', [searchRound('q'), uncounted]);
      const reply = await rig.gateway.post(chat({ stream }));
      const { usage, usageEstimated } = await rig.gateway.record(reply.requestId);
      expect(usageEstimated).toBe(true);
      // The first round has 100 tokens in and 10 out; 400 characters are 100 tokens.
      expect([usage.inputTokens, usage.outputTokens]).toEqual([170, 110]);
    },
  );

  test.each([false, true])(
    'returns an error free of charge if it fails after a search without output (stream: %p)',
    async (stream) => {
      rig.upstream.script('chat', [searchRound('q'), status500()]);
      const reply = await rig.gateway.post(chat({ stream }));
      expect([reply.status, reply.error.type]).toEqual([502, 'upstream_error']);
      expect(await rig.bill(reply)).toEqual({ model: 0, byok: 0, tool: 0, searches: 0 });
    },
  );

  test('falls back to the next provider if it fails before any output', async () => {
    rig.upstream.script('chat', [searchRound('q'), status500(), answerRound('It rained.')]);
    const reading = await rig.gateway.stream(chat({ models: ['test/claude'] }));
    expect([reading.content, reading.doneCount]).toEqual(['It rained.', 1]);
    // 300 + 2 × 20: the work of the first provider is not charged.
    expect(await rig.bill(reading)).toEqual({ model: 340, byok: 0, tool: 0, searches: 0 });
  });

  test('ends the stream with an error and is charged if it fails after output', async () => {
    const call = { name: 'web_search', arguments: { query: 'q' }, id: 'call_ws_0' };
    const spoken = callTools([call], { text: 'Let me look.', ...tokens(100, 10) });
    rig.upstream.script('chat', [spoken, status500()]);
    const reading = await rig.gateway.stream(chat({ models: ['test/claude'] }));
    expect(reading.error).toMatchObject({ type: 'upstream_error' });
    expect([reading.content, reading.doneCount]).toEqual(['Let me look.', 0]);
    expect(await rig.bill(reading)).toEqual({ model: 120, byok: 0, tool: 5_000, searches: 1 });
    expect((await rig.gateway.record(reading.requestId)).status).toBe('error');
  });

  test('ends the stream with an error if it is interrupted', async () => {
    rig.upstream.script('chat', [searchRound('q'), cutMidStream(3)]);
    const reading = await rig.gateway.stream(chat());
    expect([reading.error?.type, reading.doneCount]).toEqual(['upstream_error', 0]);
    expect(await rig.bill(reading)).toMatchObject({ tool: 5_000, searches: 1 });
  });

  test('is charged for the output after its last token count if it is interrupted', async () => {
    const words = (content: string) => ({ choices: [{ index: 0, delta: { content } }] });
    const usage = { prompt_tokens: 300, completion_tokens: 1 };
    const events = [{ ...words('It'), usage }, words('x'.repeat(400))];
    const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    const broken = replay(text, { contentType: 'text/event-stream' });
    rig.upstream.script('chat', [searchRound('q'), broken]);
    const reading = await rig.gateway.stream(chat());
    expect(reading.error?.type).toBe('upstream_error');
    // 120 for the first round, 300 for input, and 101 output tokens: 1 was reported, and 400
    // characters are 100.
    expect(await rig.bill(reading)).toMatchObject({ model: 120 + 300 + 2 * 101, searches: 1 });
  });

  test('ends the answer with the finish reason length if it reaches the output limit', async () => {
    rig.upstream.script('chat', [
      searchRound('q'),
      chatAnswer('It rai', { ...tokens(300, 20), finish: 'length' }),
    ]);
    expect(choiceOf(await rig.gateway.post(chat())).finish_reason).toBe('length');
  });
});

test('fractional search fees are rounded once for all searches', async () => {
  const cheap = await startSearchGateway({ usd_per_search: '0.0000004' });
  cheap.reset();
  cheap.upstream.script('chat', [searchRound('a', 'b', 'c'), answerRound('Cheap.')]);
  const reply = await cheap.gateway.post(chat());
  // 3 × 0.4 = 1.2.
  expect(await cheap.bill(reply)).toMatchObject({ tool: 2, searches: 3 });
  await cheap.stop();
});
