/** Streams that search before their first words: nobody has heard anything of those rounds. */
import { afterAll, beforeEach, expect, test } from 'bun:test';
import { dataOf, makeByokTenant } from '../support/byok.ts';
import {
  callTools,
  gated,
  hangMidStream,
  replay,
  say,
  status500,
} from '../support/fake-upstream.ts';
import { answerIt, chat, searchFor, startSearchRig, tokens } from '../support/search-rig.ts';
import { SlowReader } from '../support/sse-client.ts';

const rig = await startSearchRig();
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
const either = chat({ models: ['test/claude'] });

test('a round without a finish is not searched for: it is the next one’s turn', async () => {
  // The last event has no empty line behind it: it is told together with the end.
  const broken = chunk(searchCall('{"query":"q"}')).trimEnd();
  rig.upstream.script('chat', [replay(broken, events), answerIt('It rained.')]);
  const reading = await rig.gateway.stream(either);
  expect([reading.content, reading.dones]).toEqual(['It rained.', 1]);
  expect(rig.engine.asked).toHaveLength(0);
  const { attempts } = await rig.gateway.record(reading.requestId);
  expect(attempts.map(({ outcome }) => outcome)).toEqual(['malformed', 'answered']);
});

test('an error that comes with a call counts at once, whatever its connection does', async () => {
  const failing = chunk(searchCall('{"query":"q"}')) + eventOf({ error: { message: 'Busy.' } });
  rig.upstream.script('chat', [hangMidStream(1, replay(failing, events)), answerIt('It rained.')]);
  const reading = await rig.gateway.stream(either);
  expect([reading.content, reading.dones]).toEqual(['It rained.', 1]);
  await rig.upstream.until((book) => book[0]?.outcome === 'client-left');
});

test('a refusal is told as it comes', async () => {
  const said = ['I cannot ', 'help.'].map((refusal) => chunk({ refusal })).join('');
  const refusing = replay(said + chunk({}, 'stop'), { ...events, piece: 'event by event' });
  rig.upstream.script('chat', gated('rest', 1, refusing));
  const reader = new SlowReader(await rig.gateway.fetch(chat({ stream: true })));
  await reader.readUntil('I cannot ');
  rig.upstream.open('rest');
  await reader.readUntil('help.');
});

test('a call without an end is paid for as it grows, and ends with the credits', async () => {
  // Some 300 of prompt and 4,096 × 2 of output are set aside, for some 12,000 characters.
  const poor = await makeByokTenant(rig.gateway, 'unheard', 9_000);
  const call = { name: 'web_search', arguments: { query: 'x'.repeat(60_000) }, id: 'call_0' };
  // Each event has five characters of it.
  rig.upstream.script('chat', hangMidStream(10_000, callTools([call], tokens(100, 10))));
  const reply = await poor.chat(chat({ stream: true }));
  expect(reply.text.slice(-400)).toContain('The credits ran out in the middle of this answer.');
  expect(rig.engine.asked).toHaveLength(0);
});

test('what is set aside for the rounds does not pay for a longer answer', async () => {
  // For each of two rounds 30,000 of prompt and 4,096 × 2 of output, for the search 13,000.
  const poor = await makeByokTenant(rig.gateway, 'wordy', 92_000);
  const messages = [{ role: 'user', content: 'x'.repeat(90_000) }];
  const query = { name: 'web_search', arguments: { query: 'q' }, id: 'call_0' };
  rig.upstream.script('chat', [
    callTools([query], tokens(30_000, 10)),
    // All of it would be 30,020 + 5,000 + 30,000 + 32,000 credits.
    say('word '.repeat(16_000), tokens(30_000, 16_000)),
  ]);
  const reply = await poor.chat(chat({ stream: true, messages }));
  expect(reply.text.slice(-400)).toContain('The credits ran out in the middle of this answer.');
  const credits = await poor.manage('GET', '/api/v1/credits');
  expect(Number(dataOf(credits).total_usage)).toBeLessThan(92_000);
});

test('what was set aside at a provider that failed is there for the next one', async () => {
  // Some 600 for each of two rounds and 13,000 for the search: enough for one provider at a time.
  const poor = await makeByokTenant(rig.gateway, 'second', 20_000);
  const failing = [searchFor('q'), status500()];
  rig.upstream.script('chat', [...failing, searchFor('q'), answerIt('Rain.')]);
  const reply = await poor.chat({ ...either, stream: true, max_tokens: 100 });
  expect(reply.text).toContain('Rain.');
  expect(rig.engine.asked).toHaveLength(2);
  // 120 and 340 for the rounds of the second provider, 5,000 for its search.
  const credits = await poor.manage('GET', '/api/v1/credits');
  expect(dataOf(credits)).toEqual({ total_credits: 20_000, total_usage: 5_460 });
});
