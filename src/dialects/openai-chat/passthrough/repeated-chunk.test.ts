import { describe, expect, test } from 'bun:test';
import { OpenAiPassThrough } from './stream.ts';

const identity = { id: 'chatcmpl-own', model: 'acme/one', provider: 'acme', created: 7 };

function passThrough() {
  const stream = new OpenAiPassThrough(identity, { includeUsage: false });
  const push = (data: string) => stream.push({ event: null, data });
  return { push, metrics: stream.metrics };
}

/** Returns the text of the only choice in a chunk for the client. */
function contentIn(output: string): unknown {
  const { choices } = JSON.parse(output.slice('data: '.length));
  return choices[0].delta.content;
}

const head = '{"id":"up","object":"chat.completion.chunk","created":1,"model":"m","choices":[{';
const chunkOf = (delta: string, rest = '') => `${head}"index":0,"delta":${delta}${rest}}]}`;
const textChunk = (encoded: string) => chunkOf(`{"content":"${encoded}"}`, ',"finish_reason":null');

describe('OpenAiPassThrough with repeated chunks', () => {
  test('forwards each text, no matter how it is escaped', () => {
    const encoded = ['a', ' b', '', 'é😀', '\\n', '\\"q\\"', '\\u00e9', 'c', '","x":"y', 'd'];
    const { push, metrics } = passThrough();
    const decoded = ['a', ' b', '', 'é😀', '\n', '"q"', 'é', 'c', '', 'd'];
    const outputs = encoded.map((text) => push(textChunk(text)));
    expect(outputs.map(contentIn)).toEqual(decoded);
    // Only the decoded text counts, not the additional field.
    expect(metrics.outputCharacters).toBe(decoded.join('').length);
    expect(outputs[8]).toContain('"x":"y"');
  });

  test("writes the gateway's identity and no part of the upstream's identity", () => {
    const { push } = passThrough();
    const outputs = ['one', ' two', ' three'].map((text) =>
      JSON.parse(push(textChunk(text)).slice(6)),
    );
    for (const { id, model, created } of outputs) {
      expect({ id, model, created }).toEqual({ id: 'chatcmpl-own', model: 'acme/one', created: 7 });
    }
  });

  test('removes the usage that upstreams write into each chunk', () => {
    const { push } = passThrough();
    const outputs = ['one', ' two', ' three'].map((text) =>
      push(`${textChunk(text).slice(0, -1)},"usage":null}`),
    );
    expect(outputs.map(contentIn)).toEqual(['one', ' two', ' three']);
    expect(outputs.join('')).not.toContain('usage');
  });

  test('sends the role only at the start when the upstream sends null each time', () => {
    const { push, metrics } = passThrough();
    const outputs = ['one', ' two', ' three', ' four'].map((text) =>
      JSON.parse(push(chunkOf(`{"role":null,"content":"${text}"}`)).slice(6)),
    );
    expect(outputs.map(({ choices }) => choices[0].delta)).toEqual([
      { role: 'assistant', content: 'one' },
      { content: ' two' },
      { content: ' three' },
      { content: ' four' },
    ]);
    expect(metrics.outputCharacters).toBe('one two three four'.length);
  });

  test('learns nothing from a chunk without text and drops it after the finish', () => {
    const { push, metrics } = passThrough();
    for (const text of ['', '', 'Hi', ' there']) push(textChunk(text));
    // Some servers repeat the complete answer in their last chunk.
    const repeated = '"message":{"role":"assistant","content":"Hi there"},"finish_reason":"stop"';
    expect(contentIn(push(chunkOf('{}', `,${repeated}`)))).toBeUndefined();
    expect(push(textChunk(''))).toBe('');
    expect(metrics.outputCharacters).toBe('Hi there'.length);
  });

  test('is not misled by another field with the same text', () => {
    const { push, metrics } = passThrough();
    const twice = (text: string) =>
      chunkOf(`{"content" : "same"}`, `,"shadow":{"content":"${text}"},"finish_reason":null`);
    const outputs = ['same', 'longer words', 'same'].map((text) => push(twice(text)));
    expect(outputs.map(contentIn)).toEqual(['same', 'same', 'same']);
    expect(metrics.outputCharacters).toBe(3 * 'same'.length);
  });

  test('replaces the right text if an earlier field looks like the content', () => {
    const { push, metrics } = passThrough();
    const headWithNote =
      '{"id":"up","object":"chat.completion.chunk","created":1,"model":"m","x": {"content": ""},';
    const chunk = (content: string) =>
      `${headWithNote}"choices":[{"index":0,"delta":{"content":"${content}"}}]}`;
    const outputs = ['', 'Hello', ' world'].map((content) => push(chunk(content)));
    expect(outputs.map(contentIn)).toEqual(['', 'Hello', ' world']);
    expect(outputs.map((text) => JSON.parse(text.slice(6)).x)).toEqual(
      Array.from({ length: 3 }, () => ({ content: '' })),
    );
    expect(metrics.outputCharacters).toBe('Hello world'.length);
  });

  test('reads duplicate content keys as clients do', () => {
    const { push, metrics } = passThrough();
    const twice = (first: string) =>
      chunkOf(`{"content":"${first}","content":"last"}`, ',"finish_reason":null');
    const outputs = ['last', 'a', 'much longer words'].map((first) => push(twice(first)));
    expect(outputs.map(contentIn)).toEqual(['last', 'last', 'last']);
    expect(metrics.outputCharacters).toBe(3 * 'last'.length);
  });

  test('reads the finish chunk like any other', () => {
    const { push, metrics } = passThrough();
    for (const text of ['one', ' two', ' three']) push(textChunk(text));
    push(chunkOf('{}', ',"finish_reason":"stop"'));
    expect(metrics.finishReason).toBe('stop');
  });

  test('reads all chunks of an upstream whose chunks never repeat', () => {
    const { push, metrics } = passThrough();
    const texts = Array.from({ length: 12 }, (_, index) => `word${index}`);
    const outputs = texts.map((text, index) =>
      push(`${textChunk(text).slice(0, -1)},"obfuscation":"${'x'.repeat(index)}"}`),
    );
    expect(outputs.map(contentIn)).toEqual(texts);
    expect(metrics.outputCharacters).toBe(texts.join('').length);
  });

  test('does not match truncated or doubled chunks', () => {
    const { push, metrics } = passThrough();
    push(textChunk('aaaa'));
    push(textChunk('aaaa'));
    const chunk = textChunk('');
    push(`${chunk.slice(0, chunk.indexOf('"}') + 1)}`);
    expect(metrics.failure?.kind).toBe('malformed');
  });
});
