import { describe, expect, test } from 'bun:test';
import type { ChatRequest } from '../client/request.ts';
import type { ChatMessage } from '../client/schema.ts';
import { normalizeMessages, withoutCacheBreakpoints } from './messages.ts';

const none: ReadonlyMap<string, string> = new Map();

const call = (id: string) => ({
  id,
  type: 'function' as const,
  function: { name: 'f', arguments: '{}' },
});

describe('normalizeMessages', () => {
  test('returns the same list when nothing changes', () => {
    const messages: ChatMessage[] = [
      { role: 'system', content: 's' },
      { role: 'user', content: 'u' },
      { role: 'assistant', content: 'a' },
    ];
    const quirks = {
      developer_role: 'system',
      system_messages: 'merge',
      message_names: 'drop',
      answer_fields: 'known',
      text_parts: 'join',
      tool_call_ids: 'nine_characters',
      after_tool_results: 'answer',
      empty_answers: 'drop',
    } as const;
    expect(normalizeMessages(messages, quirks, none)).toBe(messages);
  });

  test('drops library fields of answers for vendors that reject unknown fields', () => {
    const question: ChatMessage = { role: 'user', content: 'u' };
    const libraryFields = { refusal: null, annotations: [], audio: null, id: 'msg_1' };
    const messages = [
      question,
      { role: 'assistant', content: 'a', ...libraryFields },
      question,
    ] as ChatMessage[];
    expect(normalizeMessages(messages, {}, none)).toBe(messages);
    expect(normalizeMessages(messages, { answer_fields: 'known' }, none)).toEqual([
      question,
      { role: 'assistant', content: 'a' },
      question,
    ]);
  });

  test('adds empty content to an earlier answer without output', () => {
    const normalize = (...messages: object[]) =>
      normalizeMessages(messages as ChatMessage[], {}, none);
    const empty = { role: 'assistant', content: '' };
    for (const fields of [{ content: null, audio: null }, {}, { content: null, tool_calls: [] }]) {
      expect(normalize({ role: 'assistant', ...fields })).toMatchObject([empty]);
    }
    for (const output of [
      { tool_calls: [call('a')] },
      { refusal: 'No.' },
      { audio: { id: 'a' } },
    ]) {
      expect(normalize({ role: 'assistant', content: null, ...output })[0]?.content).toBeNull();
    }
  });

  test('moves a refusal to the content for vendors without a refusal field', () => {
    const question: ChatMessage = { role: 'user', content: 'u' };
    const answered: ChatMessage[] = [question, { role: 'assistant', content: 'No.' }, question];
    for (const content of [null, '']) {
      const refused: ChatMessage = { role: 'assistant', content, refusal: 'No.' };
      const messages = [question, refused, question];
      expect(normalizeMessages(messages, {}, none)).toBe(messages);
      for (const quirks of [{ answer_fields: 'known' }, { empty_answers: 'drop' }] as const) {
        expect(normalizeMessages(messages, quirks, none)).toEqual(answered);
      }
    }
  });

  test('drops empty answers for vendors that reject them', () => {
    const question: ChatMessage = { role: 'user', content: 'u' };
    const answers: ChatMessage[] = [
      { role: 'assistant', content: '' },
      { role: 'assistant', content: null, tool_calls: [] },
      { role: 'assistant', content: [{ type: 'text', text: '' }] },
    ];
    const nonEmpty: ChatMessage[] = [
      { role: 'assistant', content: null, tool_calls: [call('a')] },
      { role: 'tool', tool_call_id: 'a', content: '' },
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
      { role: 'assistant', content: 'a' },
    ];
    const messages = [question, ...answers, ...nonEmpty];
    const remaining = normalizeMessages(messages, { empty_answers: 'drop' }, none);
    expect(remaining).toEqual([question, ...nonEmpty]);
    expect(normalizeMessages(messages, {}, none)).toHaveLength(8);
  });

  test('ends with a user message for vendors that require one', () => {
    const question: ChatMessage = { role: 'user', content: 'u' };
    const answer: ChatMessage = { role: 'assistant', content: 'a' };
    const instruction: ChatMessage = { role: 'system', content: 's' };
    const normalize = (...messages: ChatMessage[]) =>
      normalizeMessages(messages, { last_answer: 'continue' }, none);
    for (const last of [answer, instruction]) {
      const [unchanged, ...added] = normalize(question, last).slice(1);
      expect([unchanged, added]).toEqual([last, [{ role: 'user', content: expect.any(String) }]]);
    }
    const called: ChatMessage = { role: 'assistant', content: null, tool_calls: [call('a')] };
    const result: ChatMessage = { role: 'tool', tool_call_id: 'a', content: 'r' };
    const prefix = { ...answer, prefix: true };
    for (const end of [[question], [called], [called, result], [prefix]]) {
      expect(normalize(question, ...end)).toHaveLength(1 + end.length);
    }
    expect(normalizeMessages([question, answer], {}, none)).toHaveLength(2);
  });

  test('inserts an answer between results and user content for vendors that require one', () => {
    const called: ChatMessage = { role: 'assistant', content: null, tool_calls: [call('a')] };
    const result: ChatMessage = { role: 'tool', tool_call_id: 'a', content: 'r' };
    const question: ChatMessage = { role: 'user', content: 'u' };
    const messages = [question, called, result, result, question, called, result];
    const roles = (quirks: Parameters<typeof normalizeMessages>[1]) =>
      normalizeMessages(messages, quirks, none)
        .map(({ role }) => role)
        .join(' ');
    expect(roles({ after_tool_results: 'answer' })).toBe(
      'user assistant tool tool assistant user assistant tool',
    );
    expect(roles({})).toBe('user assistant tool tool user assistant tool');
  });

  test('moves the images of tool results to the user message that follows', () => {
    const image = (name: string) => ({
      type: 'image_url' as const,
      image_url: { url: `https://a.example/${name}.png` },
    });
    const text = (text: string) => ({ type: 'text' as const, text });
    const calls = (...ids: string[]): ChatMessage => ({
      ...{ role: 'assistant', content: null },
      tool_calls: ids.map(call),
    });
    const result = (id: string, content: Extract<ChatMessage, { role: 'tool' }>['content']) => ({
      ...{ role: 'tool' as const, tool_call_id: id, content },
    });
    const messages: ChatMessage[] = [
      calls('a', 'b'),
      result('a', [text('Two:'), image('1'), image('2')]),
      result('b', 'Done.'),
      { role: 'user', content: 'Which?' },
      calls('c'),
      result('c', [image('3')]),
      calls('d'),
      result('d', [image('4')]),
    ];
    expect(normalizeMessages(messages, {}, none)).toEqual([
      calls('a', 'b'),
      result('a', [text('Two:'), text('(2 attached below)')]),
      result('b', 'Done.'),
      { role: 'user', content: [image('1'), image('2'), text('Which?')] },
      calls('c'),
      result('c', [text('(1 attached below)')]),
      { role: 'user', content: [image('3')] },
      calls('d'),
      result('d', [text('(1 attached below)')]),
      { role: 'user', content: [image('4')] },
    ]);
  });

  test('replaces image URLs in user messages', () => {
    const [url, data] = ['https://a.example/b.png', 'data:image/png;base64,AAAA'];
    const contentWith = (address: string) => [
      { type: 'text' as const, text: url },
      { type: 'image_url' as const, image_url: { url: address, detail: 'low' } },
    ];
    const others: ChatMessage[] = [
      { role: 'system', content: [{ type: 'text', text: url }] },
      { role: 'user', content: url },
      { role: 'user', content: contentWith('https://a.example/other.png') },
      { role: 'assistant', content: null, tool_calls: [call('a'), call('b')] },
      { role: 'tool', tool_call_id: 'a', content: url },
    ];
    const messagesWith = (address: string): ChatMessage[] => [
      {
        role: 'user',
        content: [...contentWith(address), ...contentWith('https://a.example/other.png')],
      },
    ];
    const images = new Map([[url, data]]);
    expect(normalizeMessages([...others, ...messagesWith(url)], {}, images)).toEqual([
      ...others,
      ...messagesWith(data),
    ]);
  });

  test('joins text parts of every role but keeps images', () => {
    const texts = [
      { type: 'text' as const, text: 'a' },
      { type: 'text' as const, text: 'b' },
    ];
    const image = { type: 'image_url' as const, image_url: { url: 'https://a.example/b.png' } };
    const illustrated: ChatMessage = { role: 'user', content: [...texts, image] };
    const messages: ChatMessage[] = [
      { role: 'system', content: texts },
      { role: 'user', content: texts },
      { role: 'assistant', content: texts },
      { role: 'tool', tool_call_id: 'a', content: texts },
    ];
    const normalized = normalizeMessages([...messages, illustrated], { text_parts: 'join' }, none);
    expect(normalized).toEqual([
      ...messages.map((message) => ({ ...message, content: 'a\n\nb' }) as ChatMessage),
      illustrated,
    ]);
  });

  test('writes system instead of developer, and drops names, if the quirks require it', () => {
    const named = { name: 'ann' };
    const messages: ChatMessage[] = [
      { role: 'developer', content: 'd', ...named },
      { role: 'user', content: 'u', ...named },
    ];
    const quirks = { developer_role: 'system', message_names: 'drop' } as const;
    expect(normalizeMessages(messages, quirks, none)).toEqual([
      { role: 'system', content: 'd' },
      { role: 'user', content: 'u' },
    ]);
  });

  test('merges system messages into the first when the template accepts only one', () => {
    const messages: ChatMessage[] = [
      { role: 'user', content: 'u' },
      { role: 'system', content: 'one' },
      {
        role: 'system',
        content: [
          { type: 'text', text: 'two' },
          { type: 'text', text: 'three' },
        ],
      },
    ];
    expect(normalizeMessages(messages, { system_messages: 'merge' }, none)).toEqual([
      { role: 'system', content: 'one\n\ntwo\n\nthree' },
      { role: 'user', content: 'u' },
    ]);
  });

  test.each([
    ['drop', {}],
    ['reasoning', { reasoning: 'Hm.' }],
    ['reasoning_content', { reasoning_content: 'Hm.' }],
  ] as const)('sends earlier reasoning back as %s and in no other field', (field, expected) => {
    for (const fields of [{ reasoning: 'Hm.' }, { reasoning_content: 'Hm.' }]) {
      const messages: ChatMessage[] = [{ role: 'assistant', content: 'a', ...fields }];
      const adapted = normalizeMessages(messages, { replay_reasoning: field }, none);
      expect(adapted).toEqual([{ role: 'assistant', content: 'a', ...expected }]);
    }
  });

  test.each([
    ['reasoning_content', { reasoning_content: '' }],
    ['reasoning', {}],
    ['drop', {}],
  ] as const)(
    'writes %s into answers without reasoning only if the vendor requires it',
    (field, expected) => {
      const bare: ChatMessage = { role: 'assistant', content: null, tool_calls: [call('a')] };
      const messages: ChatMessage[] = [{ role: 'user', content: 'u' }, bare];
      const adapted = normalizeMessages(messages, { replay_reasoning: field }, none);
      expect(adapted).toEqual([
        { role: 'user', content: 'u' },
        { ...bare, ...expected },
      ]);
    },
  );

  test('drops signatures from other vendors', () => {
    const detail = (signature: string) => ({ type: 'reasoning.text', text: 't', signature });
    const answer = (reasoning: object): ChatMessage[] => [
      { role: 'assistant', content: 'a', ...reasoning },
    ];
    const normalize = (...reasoning_details: object[]) => {
      const quirks = { replay_reasoning: 'reasoning_details' } as const;
      return normalizeMessages(answer({ reasoning_details }), quirks, none);
    };
    const own = [{ type: 'reasoning.encrypted', data: 'x' }, detail('s')];
    for (const mark of ['gemini:', 'responses:']) {
      const unsupported = detail(`${mark}s`);
      expect(normalize(...own, unsupported)).toEqual(answer({ reasoning_details: own }));
      expect(normalize(unsupported)).toEqual(answer({}));
    }
    expect(normalize(...own)).toEqual(answer({ reasoning_details: own }));
  });

  test("drops Google's signatures from calls if only known fields are accepted", () => {
    const signed = { ...call('a'), extra_content: { google: { thought_signature: 's' } } };
    const calls = (...tool_calls: object[]) =>
      [{ role: 'assistant', content: null, tool_calls }] as ChatMessage[];
    const messages = calls(signed, call('b'));
    expect(normalizeMessages(messages, { answer_fields: 'known' }, none)).toEqual(
      calls(call('a'), call('b')),
    );
    expect(normalizeMessages(messages, {}, none)).toBe(messages);
  });

  test.each<[string, object, object]>([
    ['an empty list of calls', { tool_calls: [] }, {}],
    ['null for calls and function', { tool_calls: null, function_call: null }, {}],
    [
      'null for the function next to calls',
      { tool_calls: [call('a')], function_call: null },
      { tool_calls: [call('a')] },
    ],
  ])('drops empty lists of calls: %s', (_, fields, expected) => {
    const messages: ChatMessage[] = [{ role: 'assistant', content: 'a', ...fields }];
    expect(normalizeMessages(messages, {}, none)).toStrictEqual([
      { role: 'assistant', content: 'a', ...expected },
    ]);
  });

  test('shortens call IDs to 9 characters that still match their results', () => {
    const ids = ['call_abcdefghijklmnop', 'abcDEF123', '', 'call_abcdefghijklmnoq'];
    const messages: ChatMessage[] = [
      { role: 'assistant', content: null, tool_calls: ids.map(call) },
      ...ids.map((id) => ({ role: 'tool' as const, tool_call_id: id, content: 'r' })),
    ];
    const quirks = { tool_call_ids: 'nine_characters' } as const;
    const [first, ...rest] = normalizeMessages(messages, quirks, none);
    const calls = first?.role === 'assistant' ? (first.tool_calls ?? []) : [];
    const short = calls.map(({ id }) => id);
    for (const id of short) expect(id).toMatch(/^[A-Za-z0-9]{9}$/);
    expect(new Set(short).size).toBe(ids.length);
    expect(short[1]).toBe('abcDEF123');
    expect(rest.map((m) => (m.role === 'tool' ? m.tool_call_id : ''))).toEqual(short);
  });

  test('shortens call IDs that are too long for OpenAI, with their results', () => {
    const long = `chatcmpl-tool-${'0123456789abcdef'.repeat(2)}`;
    const ids = [long, `${long}0`, 'x'.repeat(40)];
    const messages: ChatMessage[] = [
      { role: 'assistant', content: null, tool_calls: ids.map(call) },
      ...ids.map((id) => ({ role: 'tool' as const, tool_call_id: id, content: 'r' })),
    ];
    const [first, ...rest] = normalizeMessages(messages, {}, none);
    const calls = first?.role === 'assistant' ? (first.tool_calls ?? []) : [];
    const short = calls.map(({ id }) => id);
    for (const id of short) expect(id.length).toBeLessThanOrEqual(40);
    expect(new Set(short).size).toBe(ids.length);
    expect(short[2]).toBe('x'.repeat(40));
    expect(rest.map((m) => (m.role === 'tool' ? m.tool_call_id : ''))).toEqual(short);
    expect(normalizeMessages(messages, { tool_call_ids: 'keep' }, none)).toBe(messages);
  });

  test("does not modify the client's objects", () => {
    const messages: ChatMessage[] = [{ role: 'assistant', content: 'a', reasoning: 'r' }];
    normalizeMessages(messages, {}, none);
    expect(messages).toEqual([{ role: 'assistant', content: 'a', reasoning: 'r' }]);
  });
});

const parameters = { type: 'object', properties: { cache_control: { type: 'integer' } } };

/**
 * Returns a body with a cache breakpoint in every place that allows one. A tool's parameter has the
 * same name as the breakpoint's field.
 */
function marked(mark: object): ChatRequest['body'] {
  const called = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
  return {
    model: 'acme/chat',
    messages: [
      { role: 'system', content: [{ type: 'text', text: 's', ...mark }] },
      { role: 'user', content: 'u', ...mark },
      { role: 'assistant', content: null, tool_calls: [{ ...called, ...mark }] },
      { role: 'tool', tool_call_id: 'a', content: 'r', ...mark },
    ],
    tools: [
      { type: 'function', function: { name: 'f', parameters }, ...mark },
      { type: 'function', function: { name: 'g', parameters, ...mark } },
    ],
    ...mark,
  } as unknown as ChatRequest['body'];
}

const mark = { cache_control: { type: 'ephemeral' } };

test('withoutCacheBreakpoints removes every cache breakpoint', () => {
  const bare = marked({});
  expect(withoutCacheBreakpoints({ body: marked(mark), source: null })).toEqual({
    body: bare,
    source: null,
  });
  const untouched = { body: bare, source: null };
  expect(withoutCacheBreakpoints(untouched)).toBe(untouched);
});

test('withoutCacheBreakpoints preserves numbers that JavaScript would round', () => {
  const text = JSON.stringify(marked(mark)).replaceAll(
    '"integer"',
    '"integer","maximum":9007199254740993',
  );
  const source = { text, bytes: new TextEncoder().encode(text) };
  const { body } = withoutCacheBreakpoints({ body: JSON.parse(text), source });
  expect(JSON.stringify(body)).toContain('"maximum":9007199254740993');
  expect(JSON.stringify(body)).not.toContain('ephemeral');
});
