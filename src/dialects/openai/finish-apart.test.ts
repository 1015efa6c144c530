import { expect, test } from 'bun:test';
import { OpenAiPassThrough } from './pass-through.ts';

interface Told {
  readonly choices: readonly { readonly delta: object; readonly finish_reason: string | null }[];
}

/** What a client hears of these deltas, each of which says that it is the last. */
function heard(...deltas: object[]) {
  const identity = { id: 'gen-1', model: 'acme/x', provider: 'acme', created: 1_800_000_000 };
  const toolNames = ['get_weather', 'get_wind'];
  const relay = new OpenAiPassThrough(identity, { includeUsage: false, toolNames });
  const chunk = (delta: object, finish_reason: string | null) =>
    JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] });
  const chunks = deltas.map((delta) => chunk(delta, 'tool_calls'));
  const all = [chunk({ role: 'assistant' }, null), ...chunks, '[DONE]'];
  const told = all.map((data) => relay.push({ event: null, data })).join('');
  const lines = told.split('\n').filter((line) => line.startsWith('data: {'));
  return lines.map((line) => (JSON.parse(line.slice(6)) as Told).choices[0]);
}

const piece = (name: string, json?: string) => ({
  tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name, arguments: json } }],
});

test('a call that waits for its name is told before the end', () => {
  const [, ...said] = heard(piece('get_'), piece('weather', '{"a":1}'));
  expect(said.map((choice) => choice?.finish_reason)).toEqual([null, 'tool_calls']);
  expect(said[0]).toMatchObject({ delta: piece('get_weather', '{"a":1}') });
});

test('a call whose name never goes on is told, too', () => {
  const [, ...said] = heard(piece('get_'));
  expect(said.map((choice) => choice?.finish_reason)).toEqual([null, 'tool_calls']);
  expect(said[0]).toMatchObject({ delta: piece('get_', '{}') });
});

test('an end beside a piece that says nothing still has all that its call lacks before it', () => {
  const nothing = { tool_calls: [{ index: 0 }] };
  const announced = { tool_calls: [{ index: 1, id: 'b', type: 'function' }] };
  for (const empty of [nothing, announced]) {
    const [, ...said] = heard(piece('get_wind', ''), empty);
    expect(said.map((choice) => choice?.finish_reason)).toEqual([null, null, 'tool_calls']);
    expect(said[1]).toMatchObject({
      delta: { tool_calls: [{ index: 0, function: { arguments: '{}' } }] },
    });
  }
});
