/** Web search and skills in Responses requests. */
import { afterAll, beforeEach, describe, expect, test } from 'bun:test';
import { chatAnswer } from '../support/fake-upstream.ts';
import { answerRound, news, searchRound, startSearchGateway } from '../support/search-gateway.ts';
import { checkResponsesStream } from '../support/stream-checks.ts';

const rig = await startSearchGateway();
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

const path = '/v1/responses';
const requestWith = (more: object = {}) => ({
  model: 'test/chat',
  input: 'What is the weather?',
  tools: [{ type: 'web_search' }],
  ...more,
});
const { url, title } = news;
const annotation = { type: 'url_citation', url, title, start_index: 10, end_index: 13 };
/** The rounds cost 100 + 2 × 10 and 300 + 2 × 20 credits, and there is one search. */
const oneSearch = { model: 460, byok: 0, tool: 5_000, searches: 1 };

describe.each(['test/chat', 'test/claude'])(
  'a web search in a Responses request with %s',
  (model) => {
    beforeEach(() => {
      rig.upstream.script('chat', [searchRound('weather today'), answerRound('It rained [1].')]);
    });

    test('is run by the gateway, cited, and billed', async () => {
      const reply = await rig.gateway.post(requestWith({ model }), { path });
      expect(reply.json.output).toMatchObject([
        { type: 'web_search_call', status: 'completed' },
        { content: [{ text: 'It rained [1].', annotations: [annotation] }] },
      ]);
      expect(reply.json.usage).toMatchObject({ input_tokens: 400, output_tokens: 30, cost: 5_460 });
      expect(await rig.bill(reply)).toEqual(oneSearch);
      expect(reply.headers.get('x-tollgate-dropped-params')).toBeNull();
    });

    test('is streamed with the same citations and charges', async () => {
      const response = await rig.gateway.fetch(requestWith({ model, stream: true }), { path });
      const seen = checkResponsesStream(await response.text());
      expect(seen).toMatchObject({ ended: 'complete', text: 'It rained [1].', tools: [] });
      expect(seen.annotations).toEqual([annotation]);
      const requestId = response.headers.get('x-request-id') ?? '';
      expect(await rig.bill({ requestId })).toEqual(oneSearch);
    });
  },
);

test('drops a search tool without external web access and reports it', async () => {
  rig.upstream.script('chat', chatAnswer('No idea.'));
  const tools = [{ type: 'web_search', external_web_access: false }];
  const reply = await rig.gateway.post(requestWith({ tools }), { path });
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe('tools[0]');
  expect(rig.engine.searches).toHaveLength(0);
  expect(rig.sentIn(0).tools).toBeUndefined();
});

test('appends skills to the instructions of the request, but not to those in the response', async () => {
  const { gateway } = rig;
  const created = await fetch(`${gateway.url}/v1/customer/skills/pirate`, {
    method: 'PUT',
    headers: {
      authorization: `Bearer ${gateway.keys.management}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({
      description: 'Speaks like a pirate.',
      instructions: 'Speak like a pirate.',
    }),
  });
  expect(created.ok).toBe(true);
  rig.upstream.script('chat', chatAnswer('Arr.'));
  const request = requestWith({ tools: [], skills: ['pirate'], instructions: 'Be brief.' });
  const reply = await gateway.post(request, { path });
  expect(reply.json.instructions).toBe('Be brief.');
  const [system] = rig.sentIn(0).messages as { role: string; content: string }[];
  expect(system?.role).toBe('system');
  expect(system?.content).toStartWith('Be brief.');
  expect(system?.content).toContain('Speak like a pirate.');
});
