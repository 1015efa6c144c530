/** What the gateway adds to a response: web search, and skills. */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test';
import { say } from '../support/fake-upstream.ts';
import { answerIt, news, searchFor, startSearchRig } from '../support/search-rig.ts';
import { checkResponsesStream } from '../support/stream-checks.ts';

const rig = await startSearchRig();
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

const path = '/v1/responses';
const ask = (more: object = {}) => ({
  model: 'test/chat',
  input: 'What is the weather?',
  tools: [{ type: 'web_search' }],
  ...more,
});
const { url, title } = news;
const annotation = { type: 'url_citation', url, title, start_index: 10, end_index: 13 };
/** 100 + 2 × 10, then 300 + 2 × 20; one search. */
const oneSearch = { model: 460, byok: 0, tool: 5_000, searches: 1 };

describe.each(['test/chat', 'test/claude'])('a search for a Responses client, by %s', (model) => {
  beforeEach(() => {
    rig.upstream.script('chat', [searchFor('weather today'), answerIt('It rained [1].')]);
  });

  test('is done here, cited and billed', async () => {
    const reply = await rig.gateway.post(ask({ model }), { path });
    expect(reply.json.output).toMatchObject([
      { content: [{ text: 'It rained [1].', annotations: [annotation] }] },
    ]);
    expect(reply.json.usage).toMatchObject({ input_tokens: 400, output_tokens: 30, cost: 5_460 });
    expect(await rig.bill(reply)).toEqual(oneSearch);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBeNull();
  });

  test('is the same in a stream', async () => {
    const response = await rig.gateway.fetch(ask({ model, stream: true }), { path });
    const seen = checkResponsesStream(await response.text());
    expect(seen).toMatchObject({ ended: 'whole', text: 'It rained [1].', tools: [] });
    expect(seen.annotations).toEqual([annotation]);
    const requestId = response.headers.get('x-request-id') ?? '';
    expect(await rig.bill({ requestId })).toEqual(oneSearch);
  });
});

test('a client that forbids the open web gets no search, and is told', async () => {
  rig.upstream.script('chat', say('No idea.'));
  const tools = [{ type: 'web_search', external_web_access: false }];
  const reply = await rig.gateway.post(ask({ tools }), { path });
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe('tools[0]');
  expect(rig.engine.asked).toHaveLength(0);
  expect(rig.sentIn(0).tools).toBeUndefined();
});

test('skills stand behind the instructions, and are not repeated to the client', async () => {
  const { gateway } = rig;
  const made = await fetch(`${gateway.url}/v1/customer/skills/pirate`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${gateway.keys.management}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ description: 'Speaks.', instructions: 'Speak like a pirate.' }),
  });
  expect(made.ok).toBe(true);
  rig.upstream.script('chat', say('Arr.'));
  const asked = ask({ tools: [], skills: ['pirate'], instructions: 'Be brief.' });
  const reply = await gateway.post(asked, { path });
  expect(reply.json.instructions).toBe('Be brief.');
  const [system] = rig.sentIn(0).messages as { role: string; content: string }[];
  expect(system?.role).toBe('system');
  expect(system?.content).toStartWith('Be brief.');
  expect(system?.content).toContain('Speak like a pirate.');
});
