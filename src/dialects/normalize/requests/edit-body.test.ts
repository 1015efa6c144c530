import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../../../tests/support/prompts.ts';
import { fc } from '../../../../tests/support/random.ts';
import type { DialectName } from '../../../config/provider-schema.ts';
import { readMessagesRequest } from '../../anthropic/client/request.ts';
import { anthropicClientRequest } from '../../anthropic/client-request.ts';
import type { ClientRequest } from '../../dialect.ts';
import { readChatRequest } from '../../openai-chat/client/request.ts';
import { openAiClientRequest } from '../../openai-chat/client-request.ts';
import { readResponsesRequest } from '../../responses/client/request.ts';
import { responsesClientRequest } from '../../responses/client-request.ts';
import { editBody } from './edit-body.ts';

const encoder = new TextEncoder();

/**
 * Trailing whitespace. It is kept if the client's own text is sent and lost if the body is
 * rewritten.
 */
const mark = ' \n ';

/** Returns the text as the server provides it, as part of a larger buffer. */
function sourceOf(text: string, before = '', behind = '') {
  const memory = encoder.encode(before + text + behind);
  const start = encoder.encode(before).length;
  return { text, bytes: memory.subarray(start, start + encoder.encode(text).length) };
}

function edited(text: string, edits: Record<string, unknown> = {}, source = sourceOf(text)) {
  const body = JSON.parse(text) as Record<string, unknown>;
  return editBody({ body, source, checkedNames: new Set() }, { model: 'theirs', ...edits });
}

test("editBody keeps the client's text after the model and added fields", () => {
  const text = `{"model":"ours","messages":[],"n":1}${mark}`;
  expect(edited(text)).toBe(`{"model":"theirs","messages":[],"n":1}${mark}`);
  const added = '"max_tokens":5,"stream_options":{"include_usage":true}';
  expect(edited(text, { max_tokens: 5, stream_options: { include_usage: true } })).toBe(
    `{"model":"theirs",${added},"messages":[],"n":1}${mark}`,
  );
});

describe("editBody keeps the client's bytes of a long body", () => {
  const long = `{"model":"ours","messages":["${'a €'.repeat(20_000)}"]}${mark}`;
  test.each([
    ['unchanged', long, ''],
    ['without a byte order mark', long, '\uFEFF'],
    ['with leading whitespace', ` \n${long}`, ''],
  ])('%s', (_, text, sign) => {
    const { bytes } = sourceOf(sign + text, 'before', 'behind');
    const spliced = edited(text, { n: 1 }, { text, bytes });
    if (typeof spliced === 'string') throw new Error('The body was rewritten.');
    const { start, rest } = spliced;
    expect(start + new TextDecoder().decode(rest)).toBe(long.replace('"ours"', '"theirs","n":1'));
    expect(rest.buffer).toBe(bytes.buffer);
  });
});

test('editBody writes an added field in place of a removed model', () => {
  const text = `{"model":"ours","n":1}${mark}`;
  const edits = { model: undefined, version: 'v1' };
  expect(edited(text, edits)).toBe(`{"version":"v1","n":1}${mark}`);
  expect(edited(`{"n":1,"model":"ours"}${mark}`, edits)).toBe('{"n":1,"version":"v1"}');
});

test('editBody rewrites a body if a field changes or is removed', () => {
  const text = `{"model":"ours","n":1,"route":"sort"}${mark}`;
  expect(edited(text, { n: 2 })).toBe('{"model":"theirs","n":2,"route":"sort"}');
  expect(edited(text, { route: undefined })).toBe('{"model":"theirs","n":1}');
});

describe('editBody rewrites a body with a duplicate field:', () => {
  test.each([
    ['the model', '{"model":"ours","a":1,"model":"ours"}', '{"model":"theirs","a":1}'],
    [
      'a cap',
      '{"model":"ours","max_tokens":9,"max_tokens":1}',
      '{"model":"theirs","max_tokens":1}',
    ],
    [
      'the number of choices',
      '{"model":"ours","n":9,"é":"é","n":1}',
      '{"model":"theirs","n":1,"é":"é"}',
    ],
    [
      'a cache key that is unset again',
      '{"model":"ours","prompt_cache_key":"theirs","prompt_cache_key":null}',
      '{"model":"theirs","prompt_cache_key":null}',
    ],
    [
      'the messages',
      '{"model":"ours","messages":[1],"messages":[2]}',
      '{"model":"theirs","messages":[2]}',
    ],
    [
      'the stream option',
      '{"model":"ours","stream":false,"stream":true}',
      '{"model":"theirs","stream":true}',
    ],
    [
      'a conversation that is unset again',
      '{"model":"ours","conversation":"theirs","conversation":null}',
      '{"model":"theirs","conversation":null}',
    ],
    [
      'the model with an escaped letter',
      '{"model":"ours","\\u006dodel":"ours"}',
      '{"model":"theirs"}',
    ],
  ])('%s', (_, text, expected) => {
    expect(edited(text + mark)).toBe(expected);
  });

  test.each([
    ...['messages', 'input', 'system', 'tools', 'prompt', 'stream', 'stream_options', 'n'],
    ...['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'inference_geo'],
    ...['store', 'background', 'previous_response_id', 'conversation'],
    ...['prompt_cache_key', 'cache_salt', 'prompt_cache_isolation_key', 'extra_key'],
    ...['service_tier', 'speed', 'search_parameters', 'enable_search', 'web_search', 'fallbacks'],
    ...['preset', 'deferred', 'container', 'modalities', 'audio'],
  ])('%s', (name) => {
    const text = `{"model":"ours","${name}":1,"${name}":2}${mark}`;
    expect(edited(text)).toBe(`{"model":"theirs","${name}":2}`);
  });

  test('editBody does not rewrite a body for escapes', () => {
    const text = `{"model":"ours","a":"\\u00e9","\\u0062":":"}${mark}`;
    expect(edited(text)).toBe(`{"model":"theirs","a":"\\u00e9","\\u0062":":"}${mark}`);
  });
});

describe('editBody, for a body with one long text,', () => {
  const document = 'So "the river", they say: \\u006d €\n'.repeat(2_000);
  const message = (content: unknown) => `"messages":${JSON.stringify([{ content }])}`;
  const long = message([{ type: 'text', text: document }]);
  test.each([
    ['before the text', `"n":9,"n":1,${long}`],
    ['after the text', `${long},"n":9,"n":1`],
    ['on both sides of the text', `"n":9,${long},"n":1`],
    ['with an escaped letter before the text', `"\\u006e":9,${long},"n":1`],
    ['with an escaped letter after the text', `"n":9,${long},"\\u006e":1`],
    ['among escapes', `"n":9,${message('\u0001"'.repeat(9_000))},"n":1`],
    ['and a duplicate of the text', `"n":9,${long},"messages":[],"n":1,${long}`],
    ['around multi-byte characters', `"n":9,${message('€'.repeat(9_000))},"n":1`],
  ])('rewrites a duplicate field %s', (_, fields) => {
    const written = edited(`{"model":"ours",${fields}}${mark}`);
    expect(written).toBeString();
    expect(String(written)).toEndWith('}');
    expect(String(written).match(/"n":1[,}]/g)).toHaveLength(1);
    expect(String(written)).not.toContain('"n":9');
  });

  test('does not mistake names inside the text for duplicates', () => {
    const plain = 'the river '.repeat(2_000);
    const content = `${plain}, "n":1,"n":"\\u006e"${plain}`;
    const spliced = edited(`{"model":"ours",${message(content)},"n":1}${mark}`);
    expect(spliced).toHaveProperty('start', '{"model":"theirs"');
  });

  test('is rewritten only for duplicate fields, for texts of any length', () => {
    const unit = fc.constantFrom('a', 'é', '€', '\u{1f600}', '\n', '\\', '\u0001');
    const texts = fc.string({ unit, maxLength: 40 });
    const field = fc.tuple(fc.constantFrom('n', 'store', 'other', 'metadata'), texts);
    const fields = fc.array(field, { maxLength: 6 });
    const length = fc.integer({ min: 17_000, max: 40_000 });
    fc.assert(
      fc.property(fields, fields, length, texts, (before, behind, size, piece) => {
        const one = [['messages', piece.padEnd(9, '-').repeat(size / 9)]];
        const all = [...before, ...one, ...behind];
        const pairs = all.map(([name, value]) => `"${name}":${JSON.stringify(value)}`);
        const isDoubled = new Set(all.map(([name]) => name)).size < all.length;
        const written = edited(`{"model":"ours",${pairs.join(',')}}${mark}`);
        if (isDoubled) expect(written).toBeString();
        else expect(written).not.toBeString();
      }),
      { numRuns: 500 },
    );
  });
});

test('editBody ignores bytes around the text in memory', () => {
  const text = `{"model":"ours","n":1}${mark}`;
  const embedded = sourceOf(text, 'é{"model":"x","n":1}', '{"model":"x","n":1,"\\u006d":1}');
  expect(edited(text, {}, embedded)).toBe(`{"model":"theirs","n":1}${mark}`);
  const twice = `{"model":"ours","n":1,"model":"ours"}${mark}`;
  expect(edited(twice, {}, sourceOf(twice, 'é', 'é'))).toBe('{"model":"theirs","n":1}');
});

test('editBody keeps numbers exact when it rewrites a body', () => {
  const text = '{"seed":9007199254740993,"model":"ours","a":[0.30000000000000004,1.0]}';
  expect(edited(text)).toBe(
    '{"seed":9007199254740993,"model":"theirs","a":[0.30000000000000004,1]}',
  );
});

/** The largest 64-bit integer and an ID, which no float can represent. */
const [most, id] = ['9223372036854775807', '12345678901234567890'];
const upstreams: readonly DialectName[] = ['openai', 'anthropic', 'gemini', 'openai-responses'];

function exactSource(text: string) {
  return { text, bytes: new TextEncoder().encode(text) };
}

const chat = (text: string) =>
  openAiClientRequest(readChatRequest(JSON.parse(text), exactSource(text)));
const messages = (text: string) =>
  anthropicClientRequest(readMessagesRequest(JSON.parse(text), exactSource(text)), new Headers());
const responses = (text: string) =>
  responsesClientRequest(readResponsesRequest(JSON.parse(text), exactSource(text)));

function written(clientRequest: ClientRequest, dialect: DialectName): string {
  return String(clientRequest.adapterFor(dialect)?.write(makeTarget({})).body);
}

const schema = `{"type":"object","properties":{"n":{"type":"integer","maximum":${most}}}}`;
const question = '"messages":[{"role":"user","content":"Hi"}]';

describe.each(upstreams)('a request to %s', (dialect) => {
  const tool = `[{"type":"function","function":{"name":"f","parameters":${schema}}}]`;

  // A body that doesn't start with the model is rewritten.
  test.each([
    ['a chat request', chat(`{${question},"tools":${tool},"model":"a/b"}`)],
    [
      'a chat request with functions',
      chat(`{${question},"functions":[{"name":"f","parameters":${schema}}]
      ,"model":"a/b"}`),
    ],
    ['a chat request with input', chat(`{"input":"Hi","tools":${tool},"model":"a/b"}`)],
    [
      'a chat request with skills',
      chat(`{"model":"a/b",${question},"tools":${tool}}`).withInstructions('Be kind.'),
    ],
    [
      'a Messages request',
      messages(`{${question},"tools":[{"name":"f","input_schema":${schema}}]
      ,"max_tokens":9,"model":"a/b"}`),
    ],
    [
      'a Responses request',
      responses(`{"input":"Hi","tools":[{"type":"function","name":"f",
      "parameters":${schema}}],"model":"a/b"}`),
    ],
  ])('keeps the limits in a tool of %s exact', (_, clientRequest) => {
    expect(written(clientRequest, dialect)).toContain(`"maximum":${most}`);
  });

  test('keeps the arguments of a tool call exact for Anthropic clients', () => {
    // Anthropic rejects this call ID, so the messages are normalized.
    const call = `{"type":"tool_use","id":"a.b","name":"f","input":{"id":${id}}}`;
    const result = '{"type":"tool_result","tool_use_id":"a.b","content":"x"}';
    const turns = `[{"role":"user","content":"Hi"},{"role":"assistant","content":[${call}]},
      {"role":"user","content":[${result}]}]`;
    const body = written(messages(`{"model":"a/b","max_tokens":9,"messages":${turns}}`), dialect);
    expect(body.replaceAll('\\', '')).toContain(`{"id":${id}}`);
  });
});

test('a body with too many values is sent with floats', () => {
  const many = (commas: number) => `{"a":[${'1,'.repeat(commas)}${id}],${question},"model":"a/b"}`;
  expect(written(chat(many(149_000)), 'openai')).toContain(`,${id}]`);
  expect(written(chat(many(151_000)), 'openai')).toContain(',12345678901234567000]');
});
