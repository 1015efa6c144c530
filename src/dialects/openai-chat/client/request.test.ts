import { describe, expect, test } from 'bun:test';
import { readChatRequest } from './request.ts';

const chat = { model: 'acme/chat', messages: [{ role: 'user', content: 'hi' }] };

function read(fields: Record<string, unknown> = {}) {
  const value = { ...chat, ...fields };
  const text = JSON.stringify(value);
  return readChatRequest(value, { text, bytes: new TextEncoder().encode(text) });
}

describe('readChatRequest', () => {
  test('reads no needs from a plain request', () => {
    const { request, source, includeUsage } = read();
    expect(request).toMatchObject({
      models: ['acme/chat'],
      stream: false,
      outputTokensMax: null,
      choices: 1,
      needs: {
        tools: false,
        json: false,
        images: false,
        audio: false,
        files: false,
        thinkingBudget: false,
      },
      parameters: [],
      images: [],
      user: null,
    });
    expect(request.inputBytes).toBe(source?.bytes.length ?? 0);
    expect(includeUsage).toBe(false);
  });

  test('counts each generated image as 2,000 tokens, regardless of its size', () => {
    const bytesWith = (...lengths: number[]) => {
      const images = lengths.map((length) => ({ image_url: { url: 'A'.repeat(length) } }));
      return read({ messages: [{ role: 'assistant', content: '', images }] }).request.inputBytes;
    };
    expect(bytesWith(2_000_000)).toBe(bytesWith(0) + 6_000);
    expect(bytesWith(2_000_000, 500_000, 900)).toBe(bytesWith(0, 0, 0) + 12_900);
  });

  test('reads the model and the fallback models without duplicates', () => {
    const { request } = read({ models: ['b/b', 'acme/chat', 'b/b', 'c/c'] });
    expect(request.models).toEqual(['acme/chat', 'b/b', 'c/c']);
  });

  test('reports a missing model before other invalid fields, unless models has one', () => {
    const invalid = { model: undefined, temperature: 'hot' };
    expect(() => read(invalid)).toThrow(/^model /);
    expect(() => read({ ...invalid, models: ['a/b'] })).toThrow(/^temperature /);
  });

  test('reads max_output_tokens as the output limit', () => {
    const requested = { messages: undefined, input: 'hi', max_output_tokens: 50 };
    const { request, body, source } = read({
      ...requested,
      provider: { require_parameters: true },
    });
    expect(request).toMatchObject({ outputTokensMax: 50, parameters: ['max_tokens'] });
    expect(body).toMatchObject({ max_tokens: 50 });
    expect(body).not.toHaveProperty('max_output_tokens');
    expect(source).toBeNull();
    expect(read({ max_output_tokens: 50, max_tokens: 20 }).request.outputTokensMax).toBe(20);
    expect(read({ max_output_tokens: null }).request.outputTokensMax).toBeNull();
    expect(() => read({ max_output_tokens: 0 })).toThrow(/^max_output_tokens must be/);
  });

  test('applies the defaults of provider preferences and accepts prices as strings', () => {
    expect(read().request.preferences).toEqual({
      order: [],
      only: null,
      ignore: [],
      allowFallbacks: true,
      sort: null,
      route: 'fallback',
      maxPrice: { prompt: null, completion: null },
      requireParameters: false,
      lossless: false,
    });
    const provider = { max_price: { prompt: '0.50', completion: 2 }, allow_fallbacks: false };
    expect(read({ provider }).request.preferences).toMatchObject({
      maxPrice: { prompt: 0.5, completion: 2 },
      allowFallbacks: false,
    });
  });

  test('derives the required model capabilities from tools, formats, parts, and budgets', () => {
    const needs = (fields: Record<string, unknown>) => read(fields).request.needs;
    const tool = { type: 'function', function: { name: 'f', parameters: {} } };
    expect(needs({ tools: [tool] }).tools).toBe(true);
    expect(needs({ tools: [] }).tools).toBe(false);
    expect(needs({ response_format: { type: 'json_object' } }).json).toBe(true);
    expect(needs({ response_format: { type: 'text' } }).json).toBe(false);
    expect(needs({ reasoning: { budget_tokens: 5 } }).thinkingBudget).toBe(true);
    expect(needs({ reasoning: { effort: 'low' } }).thinkingBudget).toBe(false);
    const audio = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } };
    const file = { type: 'file', file: { file_id: 'f' } };
    const parts = { messages: [{ role: 'user', content: [audio, file] }] };
    expect(needs(parts)).toMatchObject({ audio: true, files: true, images: false });
  });

  test('lists the parameters that a provider may lack', () => {
    const fields = {
      temperature: 1,
      seed: null,
      stream: true,
      user: 'u',
      top_k: 5,
      provider: { require_parameters: true },
    };
    expect(read(fields).request.parameters).toEqual(['temperature', 'user', 'top_k']);
  });

  test('reads both ways to request usage', () => {
    expect(read({ stream_options: { include_usage: true } }).includeUsage).toBe(true);
    expect(read({ usage: { include: true } }).includeUsage).toBe(true);
    expect(read({ usage: { include: false } }).includeUsage).toBe(false);
  });

  test('keeps the source only while it matches the body', () => {
    expect(read().source).not.toBeNull();
    expect(read({ messages: undefined, input: 'hi' }).source).toBeNull();
  });
});

test("readChatRequest requires the tenant's own account for an audio answer sent by id", () => {
  const requestWith = (audio: object) => read({ messages: [{ role: 'assistant', audio }] }).request;
  expect(requestWith({ id: 'audio_1' }).ownAccount?.param).toBe('messages[0].audio.id');
  expect(requestWith({ transcript: 'hi' }).ownAccount).toBeUndefined();
});

test('readChatRequest rejects a list of more than 10,000 URLs', () => {
  const part = { type: 'text', text: 'x', image_urls: Array(10_001).fill('https://a.example/') };
  const param = 'messages[0].content[0].image_urls[10000]';
  const reading = () => read({ messages: [{ role: 'user', content: [part] }] });
  expect(reading).toThrow(expect.objectContaining({ param }));
});

test('readChatRequest rejects more than 10,000 messages or input items', () => {
  const item = { role: 'user', content: 'hi' };
  for (const name of ['messages', 'input']) {
    const of = (length: number) => ({ messages: null, [name]: Array(length).fill(item) });
    expect(read(of(10_000)).body.messages).toHaveLength(10_000);
    expect(() => read(of(10_001))).toThrow(new RegExp(`^${name} `));
  }
});

describe('a Responses tool in a chat request, as Cursor sends it', () => {
  const parameters = { type: 'object', properties: {} };
  const flat = { type: 'function', name: 'look', description: 'Looks.', parameters, strict: true };
  const nested = { type: 'function', function: { name: 'find', parameters } };

  test("is converted to chat's format", () => {
    const bare = { type: 'function', name: 'wait' };
    const tool_choice = { type: 'function', name: 'look' };
    const { body, source } = read({ tools: [flat, nested, bare], tool_choice });
    const { type: _, ...look } = flat;
    expect(body.tools).toEqual([
      { type: 'function', function: look },
      nested,
      { type: 'function', function: { name: 'wait' } },
    ] as never);
    expect(body.tool_choice).toEqual({ type: 'function', function: { name: 'look' } });
    expect(source).toBeNull();
  });

  test('can be chosen in either format', () => {
    const tool_choice = { type: 'function', function: { name: 'look' } };
    expect(read({ tools: [flat], tool_choice }).body.tool_choice).toEqual(tool_choice as never);
    expect(read({ tools: [flat], tool_choice: 'auto' }).body.tool_choice).toBe('auto');
    const { body: forced, source } = read({ tools: [nested], tool_choice: 'any' });
    expect([forced.tool_choice, source]).toEqual(['required', null]);
  });

  test.each([
    [{ tools: [{ type: 'function' }] }, 'tools[0].function'],
    [
      { tools: [{ type: 'function', function: { name: 'a b', parameters } }] },
      'tools[0].function.name',
    ],
    [{ tools: [nested], tool_choice: { type: 'function' } }, 'tool_choice.function'],
  ])('is rejected if it is %j', (fields, param) => {
    expect(() => read(fields)).toThrow(expect.objectContaining({ param }));
  });
});
