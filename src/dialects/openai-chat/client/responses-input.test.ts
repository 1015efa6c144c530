import { describe, expect, test } from 'bun:test';
import { imagesOfInput, inputToMessages } from './responses-input.ts';

describe('inputToMessages', () => {
  test('starts a new turn for a call after a result and groups consecutive calls', () => {
    const call = (id: string) => ({
      type: 'function_call',
      call_id: id,
      name: 'f',
      arguments: '{}',
    });
    const output = { type: 'function_call_output', call_id: 'a', output: 'x' };
    const roles = inputToMessages([call('a'), call('b'), output, call('c')], undefined).map((m) => [
      m.role,
      m.role === 'assistant' ? m.tool_calls?.length : 0,
    ]);
    expect(roles).toEqual([
      ['assistant', 2],
      ['tool', 0],
      ['assistant', 1],
    ]);
  });

  test('reads system and developer items as system messages', () => {
    const input = [
      { role: 'system', content: 's' },
      { role: 'developer', content: [{ type: 'input_text', text: 'd' }] },
    ];
    expect(inputToMessages(input, 'first')).toEqual([
      { role: 'system', content: 'first' },
      { role: 'system', content: 's' },
      { role: 'system', content: 'd' },
    ]);
  });

  test('adds text that follows calls to the message with the calls, before the results', () => {
    const input = [
      { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' },
      { role: 'assistant', content: [{ type: 'output_text', text: 'Looking.' }] },
      { type: 'function_call_output', call_id: 'a', output: 'x' },
    ];
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
    expect(inputToMessages(input, undefined)).toEqual([
      { role: 'assistant', content: 'Looking.', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'a', content: 'x' },
    ] as never);
  });

  test('reads a refusal', () => {
    const content = [{ type: 'refusal', refusal: 'No.' }];
    const input = [{ type: 'message', role: 'assistant', content }];
    expect(inputToMessages(input, undefined)).toEqual([
      { role: 'assistant', content: '', refusal: 'No.' },
    ]);
  });

  test('separates instructions, results, and images', () => {
    const parts = ['one', 'two'].map((text) => ({ type: 'input_text', text }));
    const image = { type: 'input_image', image_url: 'https://a.test/1.png', detail: 'low' };
    const result = (...output: object[]) => ({
      ...{ type: 'function_call_output', call_id: 'a' },
      output,
    });
    const input = [{ role: 'system', content: parts }, result(...parts), result(...parts, image)];
    expect(inputToMessages(input, undefined)).toEqual([
      { role: 'system', content: 'one\n\ntwo' },
      { role: 'tool', tool_call_id: 'a', content: 'one\n\ntwo' },
      {
        role: 'tool',
        tool_call_id: 'a',
        content: [
          { type: 'text', text: 'one' },
          { type: 'text', text: 'two' },
          { type: 'image_url', image_url: { url: 'https://a.test/1.png', detail: 'low' } },
        ],
      },
    ]);
  });

  test('omits an image detail that is not set', () => {
    const url = 'https://a.test/1.png';
    const content = [{ type: 'input_image', image_url: url, detail: null }];
    expect(inputToMessages([{ role: 'user', content }], undefined)).toEqual([
      { role: 'user', content: [{ type: 'image_url', image_url: { url } }] },
    ]);
  });

  test('rejects input that has only reasoning', () => {
    expect(() => inputToMessages([{ type: 'reasoning' }], undefined)).toThrow(
      'no messages or tool calls',
    );
  });
});

describe('inputToMessages', () => {
  const userMessage = (part: object) => ({ role: 'user', content: [part] });
  const file = { type: 'input_file', file_data: 'aGk=' };
  const call = { type: 'function_call', name: 'f', arguments: '{}' };
  test.each([
    ['input[0].content[0].type', userMessage(file)],
    ['input[0].output[0].type', { type: 'function_call_output', call_id: 'a', output: [file] }],
    ['input[0].content[0].image_url', userMessage({ type: 'input_image', file_id: 'file-1' })],
    ['input[0].input', { type: 'custom_tool_call', call_id: 'a', name: 'f' }],
    ['input[0].type', { type: 'item_reference', id: 'msg_1' }],
    ['input[0].call_id', { ...call, call_id: '' }],
  ])('rejects input without an equivalent in chat: %s', (param, item) => {
    expect(() => inputToMessages([item], undefined)).toThrow(expect.objectContaining({ param }));
  });
});

test('imagesOfInput finds images in user messages and results only', () => {
  const image = (n: number) => ({ type: 'input_image', image_url: `https://a.test/${n}.png` });
  const text = { type: 'input_text', text: 't' };
  const input = [
    { role: 'user', content: 'plain' },
    { role: 'user', content: [text, image(1)] },
    { role: 'system', content: [image(2)] },
    { type: 'function_call_output', call_id: 'c', output: [image(3)] },
  ];
  expect(imagesOfInput(input)).toEqual([
    { param: 'input[1].content[1].image_url', url: 'https://a.test/1.png' },
    { param: 'input[3].output[0].image_url', url: 'https://a.test/3.png' },
  ]);
  expect(imagesOfInput('text')).toEqual([]);
});
