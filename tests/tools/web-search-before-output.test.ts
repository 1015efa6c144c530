/** Streams whose first rounds only search, so that the client has received no output yet. */
import { afterAll, beforeEach, expect, test } from 'bun:test';
import { dataOf, makeByokTenant } from '../support/byok.ts';
import {
  callTools,
  chatAnswer,
  gated,
  hangMidStream,
  replay,
  status500,
} from '../support/fake-upstream.ts';
import {
  answerRound,
  chat,
  searchRound,
  startSearchGateway,
  tokens,
} from '../support/search-gateway.ts';
import { SlowReader } from '../support/sse-client.ts';

const rig = await startSearchGateway();
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

const eventOf = (data: object) => `data: ${JSON.stringify(data)}\n\n`;

function chunk(delta: object, finish_reason: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason }];
  return eventOf({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices });
}

function searchCall(json: string) {
  const call = { name: 'web_search', arguments: json };
  return { tool_calls: [{ index: 0, id: 'call_ws_0', type: 'function', function: call }] };
}

const events = { contentType: 'text/event-stream' };
const withFallback = chat({ models: ['test/claude'] });

test('a round that ends without a finish reason falls back to the next provider', async () => {
  // No empty line follows the last event, so it is read at the end of the stream.
  const broken = chunk(searchCall('{"query":"q"}')).trimEnd();
  rig.upstream.script('chat', [replay(broken, events), answerRound('It rained.')]);
  const reading = await rig.gateway.stream(withFallback);
  expect([reading.content, reading.doneCount]).toEqual(['It rained.', 1]);
  expect(rig.engine.searches).toHaveLength(0);
  const { attempts } = await rig.gateway.record(reading.requestId);
  expect(attempts.map(({ outcome }) => outcome)).toEqual(['malformed', 'answered']);
});

test('an error after a call falls back at once even if the connection stays open', async () => {
  const failing = chunk(searchCall('{"query":"q"}')) + eventOf({ error: { message: 'Busy.' } });
  rig.upstream.script('chat', [
    hangMidStream(1, replay(failing, events)),
    answerRound('It rained.'),
  ]);
  const reading = await rig.gateway.stream(withFallback);
  expect([reading.content, reading.doneCount]).toEqual(['It rained.', 1]);
  await rig.upstream.until((requests) => requests[0]?.outcome === 'client-disconnected');
});

test('a refusal is streamed', async () => {
  const chunks = ['I cannot ', 'help.'].map((refusal) => chunk({ refusal })).join('');
  const refusing = replay(chunks + chunk({}, 'stop'), { ...events, piece: 'event by event' });
  rig.upstream.script('chat', gated('rest', 1, refusing));
  const reader = new SlowReader(await rig.gateway.fetch(chat({ stream: true })));
  await reader.readUntil('I cannot ');
  rig.upstream.open('rest');
  await reader.readUntil('help.');
});

test('an endless call is charged as it grows and ends when the credits run out', async () => {
  // About 300 for the prompt and 4,096 × 2 for output are held, which pays for 12,000 characters.
  const poor = await makeByokTenant(rig.gateway, 'endless', 9_000);
  const call = { name: 'web_search', arguments: { query: 'x'.repeat(60_000) }, id: 'call_0' };
  // Each event has 5 characters.
  rig.upstream.script('chat', hangMidStream(10_000, callTools([call], tokens(100, 10))));
  const reply = await poor.chat(chat({ stream: true }));
  expect(reply.text.slice(-400)).toContain('The credits ran out in the middle of this response.');
  expect(rig.engine.searches).toHaveLength(0);
});

test('credits held for rounds are not spent on a longer answer', async () => {
  // 30,000 for the prompt and 4,096 × 2 for output in each of 2 rounds, and 13,000 for the search.
  const poor = await makeByokTenant(rig.gateway, 'wordy', 92_000);
  const messages = [{ role: 'user', content: 'x'.repeat(90_000) }];
  const query = { name: 'web_search', arguments: { query: 'q' }, id: 'call_0' };
  rig.upstream.script('chat', [
    callTools([query], tokens(30_000, 10)),
    // The full answer would cost 30,020 + 5,000 + 30,000 + 32,000 credits.
    chatAnswer('word '.repeat(16_000), tokens(30_000, 16_000)),
  ]);
  const reply = await poor.chat(chat({ stream: true, messages }));
  expect(reply.text.slice(-400)).toContain('The credits ran out in the middle of this response.');
  const credits = await poor.manage('GET', '/api/v1/credits');
  expect(Number(dataOf(credits).total_usage)).toBeLessThan(92_000);
});

test('credits held at a failed provider are available to the next one', async () => {
  // About 600 for each of 2 rounds, and 13,000 for the search: enough for one provider.
  const poor = await makeByokTenant(rig.gateway, 'second', 20_000);
  const failing = [searchRound('q'), status500()];
  rig.upstream.script('chat', [...failing, searchRound('q'), answerRound('Rain.')]);
  const reply = await poor.chat({ ...withFallback, stream: true, max_tokens: 100 });
  expect(reply.text).toContain('Rain.');
  expect(rig.engine.searches).toHaveLength(2);
  // 120 and 340 for the rounds of the second provider, 5,000 for its search.
  const credits = await poor.manage('GET', '/api/v1/credits');
  expect(dataOf(credits)).toEqual({ total_credits: 20_000, total_usage: 5_460 });
});
