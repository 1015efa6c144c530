import { describe, expect, test } from 'bun:test';
import { OpenAiPassThrough } from './stream.ts';

const identity = { id: 'chatcmpl-own', model: 'acme/one', provider: 'acme', created: 7 };

function relay() {
  const stream = new OpenAiPassThrough(identity, { includeUsage: false });
  const push = (data: string) => stream.push({ event: null, data });
  return { push, metrics: stream.metrics };
}

/** The words of the one choice in what a client was sent. */
function heard(text: string): unknown {
  const { choices } = JSON.parse(text.slice('data: '.length));
  return choices[0].delta.content;
}

const head = '{"id":"up","object":"chat.completion.chunk","created":1,"model":"m","choices":[{';
const chunkOf = (delta: string, rest = '') => `${head}"index":0,"delta":${delta}${rest}}]}`;
const wordsOf = (written: string) => chunkOf(`{"content":"${written}"}`, ',"finish_reason":null');

describe('OpenAiPassThrough with repeated chunks', () => {
  test('forwards each text however it is escaped', () => {
    const written = ['a', ' b', '', 'é😀', '\\n', '\\"q\\"', '\\u00e9', 'c', '","x":"y', 'd'];
    const { push, metrics } = relay();
    const meant = ['a', ' b', '', 'é😀', '\n', '"q"', 'é', 'c', '', 'd'];
    const told = written.map((text) => push(wordsOf(text)));
    expect(told.map(heard)).toEqual(meant);
    // Each counted as it was meant, and the one with a field more as its words.
    expect(metrics.outputCharacters).toBe(meant.join('').length);
    expect(told[8]).toContain('"x":"y"');
  });

  test("writes our identity and nothing of the upstream's", () => {
    const { push } = relay();
    const told = ['one', ' two', ' three'].map((text) => JSON.parse(push(wordsOf(text)).slice(6)));
    for (const { id, model, created } of told) {
      expect({ id, model, created }).toEqual({ id: 'chatcmpl-own', model: 'acme/one', created: 7 });
    }
  });

  test('removes the usage that upstreams write into each chunk', () => {
    const { push } = relay();
    const told = ['one', ' two', ' three'].map((text) =>
      push(`${wordsOf(text).slice(0, -1)},"usage":null}`),
    );
    expect(told.map(heard)).toEqual(['one', ' two', ' three']);
    expect(told.join('')).not.toContain('usage');
  });

  test('sends the role only at the start when the upstream sends null each time', () => {
    const { push, metrics } = relay();
    const told = ['one', ' two', ' three', ' four'].map((text) =>
      JSON.parse(push(chunkOf(`{"role":null,"content":"${text}"}`)).slice(6)),
    );
    expect(told.map(({ choices }) => choices[0].delta)).toEqual([
      { role: 'assistant', content: 'one' },
      { content: ' two' },
      { content: ' three' },
      { content: ' four' },
    ]);
    expect(metrics.outputCharacters).toBe('one two three four'.length);
  });

  test('learns nothing from a chunk without text and drops it after the finish', () => {
    const { push, metrics } = relay();
    for (const text of ['', '', 'Hi', ' there']) push(wordsOf(text));
    // A server that ends with the whole answer repeats what it has said.
    const whole = '"message":{"role":"assistant","content":"Hi there"},"finish_reason":"stop"';
    expect(heard(push(chunkOf('{}', `,${whole}`)))).toBeUndefined();
    expect(push(wordsOf(''))).toBe('');
    expect(metrics.outputCharacters).toBe('Hi there'.length);
  });

  test('is not misled by another field with the same text', () => {
    const { push, metrics } = relay();
    const twice = (text: string) =>
      chunkOf(`{"content" : "same"}`, `,"shadow":{"content":"${text}"},"finish_reason":null`);
    const told = ['same', 'longer words', 'same'].map((text) => push(twice(text)));
    expect(told.map(heard)).toEqual(['same', 'same', 'same']);
    expect(metrics.outputCharacters).toBe(3 * 'same'.length);
  });

  test('replaces the right text when a head field looks like the content', () => {
    const { push, metrics } = relay();
    const noted = '{"id":"up","object":"chat.completion.chunk","created":1,"model":"m",';
    const chunk = (content: string) =>
      `${noted}"note": {"content": ""},"choices":[{"index":0,"delta":{"content":"${content}"}}]}`;
    const told = ['', 'Hello', ' world'].map((content) => push(chunk(content)));
    expect(told.map(heard)).toEqual(['', 'Hello', ' world']);
    expect(told.map((text) => JSON.parse(text.slice(6)).note)).toEqual(
      Array.from({ length: 3 }, () => ({ content: '' })),
    );
    expect(metrics.outputCharacters).toBe('Hello world'.length);
  });

  test('reads duplicate content keys as clients do', () => {
    const { push, metrics } = relay();
    const twice = (first: string) =>
      chunkOf(`{"content":"${first}","content":"last"}`, ',"finish_reason":null');
    const told = ['last', 'a', 'much longer words'].map((first) => push(twice(first)));
    expect(told.map(heard)).toEqual(['last', 'last', 'last']);
    expect(metrics.outputCharacters).toBe(3 * 'last'.length);
  });

  test('reads the finish chunk like any other', () => {
    const { push, metrics } = relay();
    for (const text of ['one', ' two', ' three']) push(wordsOf(text));
    push(chunkOf('{}', ',"finish_reason":"stop"'));
    expect(metrics.finishReason).toBe('stop');
  });

  test('reads all chunks of an upstream whose chunks never repeat', () => {
    const { push, metrics } = relay();
    const texts = Array.from({ length: 12 }, (_, at) => `word${at}`);
    const told = texts.map((text, at) =>
      push(`${wordsOf(text).slice(0, -1)},"obfuscation":"${'x'.repeat(at)}"}`),
    );
    expect(told.map(heard)).toEqual(texts);
    expect(metrics.outputCharacters).toBe(texts.join('').length);
  });

  test('does not match truncated or doubled chunks', () => {
    const { push, metrics } = relay();
    push(wordsOf('aaaa'));
    push(wordsOf('aaaa'));
    const whole = wordsOf('');
    push(`${whole.slice(0, whole.indexOf('"}') + 1)}`);
    expect(metrics.failure?.kind).toBe('malformed');
  });
});
