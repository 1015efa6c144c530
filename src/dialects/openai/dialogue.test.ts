import { describe, expect, test } from 'bun:test';
import { markSignature } from '../signature.ts';
import type { ChatMessage } from './chat-schema.ts';
import { readDialogue } from './dialogue.ts';
import { writeBody } from './write.ts';

const [first, last] = ['A', 'B'].map((proof) => markSignature('gemini', proof));

function signedCall(proof: string) {
  return {
    ...{ id: 'a', type: 'function', function: { name: 'look', arguments: '{}' } },
    extra_content: { google: { thought_signature: proof } },
  };
}

/** What a client sends back of an answer that Gemini signed twice: its call, and its end. */
function partsOf(fields: object) {
  const message = {
    role: 'assistant',
    content: null,
    tool_calls: [signedCall('A')],
    reasoning_details: [
      { type: 'reasoning.text', index: 0, signature: first },
      { type: 'reasoning.text', index: 1, signature: last },
    ],
    ...fields,
  } as ChatMessage;
  return readDialogue({ body: { model: 'a/b', messages: [message] }, source: null }).turns[0]
    ?.parts;
}

const call = { kind: 'tool_call', id: 'a', name: 'look' };
const proof = (signature: string | undefined) => ({ kind: 'reasoning', text: '', signature });

test.each<[string | string[], string[]]>([
  ['', []],
  [['', 'END'], ['END']],
  ['END', ['END']],
])('of the stops %j, those that say something are kept', (stop, kept) => {
  const body = { model: 'a/b', messages: [{ role: 'user' as const, content: 'Hi' }], stop };
  expect(readDialogue({ body, source: null }).stop).toEqual(kept);
});

test('pictures that a model made are told as left out', () => {
  const image_url = { url: 'data:image/png;base64,aGk=' };
  const foreignIn = (images: object[]) => {
    const message = { role: 'assistant', content: 'Here.', images } as ChatMessage;
    return readDialogue({ body: { model: 'a/b', messages: [message] }, source: null }).foreign;
  };
  expect(foreignIn([{ type: 'image_url', image_url }])).toEqual(['messages.images']);
  expect(foreignIn([])).toEqual([]);
});

describe('proofs of thoughts', () => {
  test('stand before their call and after it, where they came', () => {
    expect(partsOf({})).toMatchObject([proof(first), call, proof(last)]);
  });

  test('that belong to words stay in front of them', () => {
    const said = { kind: 'text', text: 'Hm.' };
    const parts = partsOf({ content: 'Hm.' });
    expect(parts).toMatchObject([proof(last), said, proof(first), call]);
  });

  test('of a thought that many calls claim bring it once', () => {
    const thought = { type: 'reasoning.text', index: 0, text: 'Hm.', signature: first };
    const tool_calls = [signedCall('A'), signedCall('A'), signedCall('A')];
    expect(partsOf({ tool_calls, reasoning_details: [thought] })).toMatchObject([
      ...[{ kind: 'reasoning', text: 'Hm.', signature: first }, call],
      ...[proof(first), call],
      ...[proof(first), call],
    ]);
  });

  // Passed on, it would keep the writer from saying that the real one is lost.
  test('that are empty are none', () => {
    const parts = partsOf({ tool_calls: [signedCall('')], reasoning_details: [] });
    expect(parts).toMatchObject([call]);
  });
});

test('the description of a schema goes along to whoever knows one', () => {
  const json_schema = { name: 'n', description: 'A city.', schema: { type: 'object' } };
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const format = { type: 'json_schema' as const, json_schema };
  const body = { model: 'a/b', messages, response_format: format };
  const dialogue = readDialogue({ body, source: null });
  expect(dialogue.json).toMatchObject(json_schema);
  expect(writeBody(dialogue).body.response_format).toEqual(format);
});

test('a wish to cache the whole prompt is no part of it', () => {
  const mark = { type: 'ephemeral', ttl: '1h' };
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const body = { model: 'a/b', messages, cache_control: mark, top_a: 1 };
  const { cacheControl, foreign } = readDialogue({ body, source: null });
  expect([cacheControl, foreign]).toEqual([mark, ['top_a']]);
});

test('a tool is marked beside its function or in it, where a flat one has all it says', () => {
  const named = { name: 'look', parameters: {} };
  const [inner, outer] = [{ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }];
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const markOf = (fields: object, more: object = {}) => {
    const tool = { type: 'function' as const, function: { ...named, ...fields }, ...more };
    const body = { model: 'a/b', messages, tools: [tool] };
    return readDialogue({ body, source: null }).tools[0]?.cacheControl;
  };
  expect(markOf({ cache_control: inner })).toEqual(inner);
  expect(markOf({}, { cache_control: outer })).toEqual(outer);
  expect(markOf({ cache_control: inner }, { cache_control: outer })).toEqual(outer);
});

test.each([
  [
    { type: 'enabled', budget_tokens: 2000 },
    { effort: null, budgetTokens: 2000, isAdaptive: false, visible: true },
  ],
  [
    { type: 'enabled', budget_tokens: -1 },
    { effort: null, budgetTokens: null, isAdaptive: false, visible: true },
  ],
  [{ type: 'adaptive' }, { effort: null, budgetTokens: null, isAdaptive: true, visible: true }],
  [{ type: 'disabled' }, { effort: 'none' as const, budgetTokens: null, visible: true }],
])('thinking in Anthropic’s words is a wish for reasoning: %j', (thinking, wish) => {
  const body = { model: 'a/b', messages: [{ role: 'user' as const, content: 'Hi' }], thinking };
  const { reasoning, foreign } = readDialogue({ body, source: null });
  expect([reasoning, foreign]).toEqual([wish, []]);
  const plain = { ...body, reasoning_effort: 'low' as const };
  expect(readDialogue({ body: plain, source: null }).reasoning?.effort).toBe('low');
});

test('what is called thinking and is not is told as unknown', () => {
  for (const thinking of ['enabled', 3, { type: 'deep' }, {}]) {
    const body = { model: 'a/b', messages: [{ role: 'user' as const, content: 'Hi' }], thinking };
    const { reasoning, foreign } = readDialogue({ body, source: null });
    expect([reasoning, foreign]).toEqual([null, ['thinking']]);
  }
});

test('what is said of reasoning in words of others is named', () => {
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const reasoning = { effort: 'high' as const, mode: 'pro', context: 'auto' };
  const dialogue = readDialogue({ body: { model: 'a/b', messages, reasoning }, source: null });
  expect([dialogue.reasoning?.effort, dialogue.foreign]).toEqual(['high', ['reasoning.mode']]);
});

test('a speaker’s name has no place elsewhere and is named; a tool’s is not needed', () => {
  const foreignIn = (message: object) => {
    const messages = [{ role: 'user', content: 'Hi' }, message] as ChatMessage[];
    return readDialogue({ body: { model: 'a/b', messages }, source: null }).foreign;
  };
  for (const role of ['user', 'assistant', 'system', 'developer']) {
    expect(foreignIn({ role, content: 'Hi', name: 'ann' })).toEqual(['messages.name']);
    expect(foreignIn({ role, content: 'Hi', name: null })).toEqual([]);
  }
  expect(foreignIn({ role: 'tool', tool_call_id: 'a', content: 'b', name: 'look' })).toEqual([]);
});

test('a wish that a model reasons leaves it to the model how much', () => {
  const messages: ChatMessage[] = [{ role: 'user', content: 'Hi' }];
  const wish = (enabled: boolean) =>
    readDialogue({ body: { model: 'a/b', messages, reasoning: { enabled } }, source: null })
      .reasoning;
  expect(wish(true)).toEqual({ effort: null, budgetTokens: null, isAdaptive: true, visible: true });
  expect(wish(false)).toEqual({ effort: 'none', budgetTokens: null, visible: true });
});
