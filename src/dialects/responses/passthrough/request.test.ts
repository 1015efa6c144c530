import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../../../tests/support/prompts.ts';
import type { Target } from '../../dialect.ts';
import { readResponsesRequest } from '../client/request.ts';
import { responsesClientRequest } from '../client-request.ts';

function send(text: string, to: Partial<Target> = {}) {
  const bytes = new TextEncoder().encode(text);
  const clientRequest = responsesClientRequest(
    readResponsesRequest(JSON.parse(text), { text, bytes }),
  );
  const request = clientRequest.adapterFor('openai-responses')?.write(makeTarget(to));
  if (!request) throw new Error('There is no adapter.');
  return { clientRequest, ...request, body: String(request.body) };
}

function pass(fields: object, to: Partial<Target> = {}) {
  const sent = send(JSON.stringify({ model: 'a/b', input: 'Hi', ...fields }), to);
  return { ...sent, body: JSON.parse(sent.body) as Record<string, unknown> };
}

const plain = { store: false, include: ['reasoning.encrypted_content'] };

describe('passResponsesRequest', () => {
  test("forwards the client's bytes after the model name unchanged", () => {
    const rest =
      ',"input":[{"type":"new","n":12345678901234567890}],"store":false,' +
      '"include":["reasoning.encrypted_content"],"tools":[{"type":"computer","x":1}],"odd": 1}';
    const { body, path, dropped } = send(`{"model":"a/b"${rest}`);
    expect(body).toBe(`{"model":"chat-large"${rest}`);
    expect([path, dropped]).toEqual(['/responses', []]);
  });

  test("drops the gateway's own fields and disables storage", () => {
    const routing = { models: ['c/d'], provider: { sort: 'price' }, route: 'sort', skills: [] };
    const plugins = [{ id: 'web' }];
    const { body } = pass({ ...routing, plugins, store: true, metadata: { a: 'b' } });
    expect(body).toEqual({ model: 'chat-large', input: 'Hi', metadata: { a: 'b' }, ...plain });
  });

  test('drops lookalikes of known fields', () => {
    const { body } = pass({ ...plain, Store: true, Model: 'dear', Novelty: 1 });
    expect(body).toEqual({ model: 'chat-large', input: 'Hi', Novelty: 1, ...plain });
  });

  test('requests encrypted reasoning from models that reason', () => {
    expect(pass({ include: ['a'] }).body.include).toEqual(['a', 'reasoning.encrypted_content']);
    const nonReasoning = { thinking: null };
    expect(pass({ ...plain, reasoning: { effort: 'none' } }, nonReasoning)).toMatchObject({
      dropped: [],
    });
    const { body, dropped } = pass({ ...plain, reasoning: { effort: 'low' } }, nonReasoning);
    expect(body).toEqual({ model: 'chat-large', input: 'Hi', store: false });
    expect(dropped).toEqual(['reasoning']);
  });

  test.each([
    [{}, {}, undefined],
    [{ max_output_tokens: 90 }, {}, 90],
    [{ max_output_tokens: 90 }, { outputTokensMax: 70 }, 70],
    [{ max_output_tokens: 90 }, { modelOutputTokensMax: 50 }, 50],
    [{ max_output_tokens: 1 }, {}, 16],
    [{}, { outputTokensMax: 300 }, 300],
  ])('limits the output of %j for the target %j to %p', (fields, to, limit) => {
    expect(pass(fields, to).body.max_output_tokens).toBe(limit as number);
  });

  test("writes the vendor's efforts and drops parameters that the vendor rejects", () => {
    const quirks = { efforts: { max: 'xhigh' }, sampling_while_reasoning: 'drop' as const };
    const options = { reasoning: { effort: 'max', summary: 'auto' }, temperature: 1, top_p: null };
    const { body, dropped } = pass(options, { quirks });
    expect(body.reasoning).toEqual({ effort: 'xhigh', summary: 'auto' });
    expect([body.temperature, dropped]).toEqual([undefined, ['temperature']]);
    const dropIfRequested = { ...quirks, sampling_while_reasoning: 'drop_when_requested' as const };
    expect(pass(options, { quirks: dropIfRequested }).dropped).toEqual(['temperature']);
    expect(pass({ temperature: 1 }, { quirks: dropIfRequested }).body.temperature).toBe(1);
    expect(pass({ temperature: 1 }, { quirks }).body.temperature).toBeUndefined();
    const withoutServiceTier = { quirks: { drop_params: ['service_tier', 'user'] } };
    expect(pass({ service_tier: 'flex' }, withoutServiceTier).dropped).toEqual(['service_tier']);
  });

  test('drops rejected parameters with another name, and the fields that depend on them', () => {
    const tools = [{ type: 'function', name: 'look', parameters: {} }];
    const toolFields = { tools, tool_choice: 'required', parallel_tool_calls: false };
    const { body, dropped } = pass(toolFields, { quirks: { drop_params: ['tools'] } });
    const { model: _, input: __, store: ___, include: ____, ...rest } = body;
    expect([rest, dropped]).toEqual([{}, ['tools']]);
    const withoutEffort = { quirks: { drop_params: ['reasoning_effort'] } };
    expect(pass({ reasoning: { effort: 'low' } }, withoutEffort).body.reasoning).toBeUndefined();
  });

  test("requests surcharged service tiers only with the tenant's own account", () => {
    const { body, dropped } = pass({ service_tier: 'priority' });
    expect([body.service_tier, dropped]).toEqual([undefined, ['service_tier']]);
    const own = pass({ service_tier: 'priority' }, { isOwnAccount: true });
    expect([own.body.service_tier, own.dropped]).toEqual(['priority', []]);
    expect(pass({ service_tier: 'auto' }).body.service_tier).toBe('auto');
  });

  test('sends duplicate keys only once', () => {
    const { body } = send('{"model":"a/b","input":"Hi","store":true,"store":false}');
    expect(body.match(/"store"/g)).toHaveLength(1);
  });
});

describe('passResponsesRequest for a conversation from another provider', () => {
  const call = { type: 'function_call', id: 'fc_1', call_id: 'c', name: 'a', arguments: '{}' };
  const reasoning = (encrypted_content?: string) => ({
    type: 'reasoning',
    id: 'rs_1',
    summary: [],
    ...(encrypted_content === undefined ? {} : { encrypted_content }),
  });

  test.each(['anthropic:EqYC', 'redacted:x', 'gemini:abc', undefined])(
    'drops reasoning with the signature %p and the IDs that depend on it',
    (signature) => {
      const { id: _, ...withoutId } = call;
      expect(pass({ input: [reasoning(signature), call] }).body.input).toEqual([withoutId]);
    },
  );

  test("keeps OpenAI's own reasoning, even from another endpoint", () => {
    const own = [reasoning('gAAAA'), call];
    expect(pass({ input: own }).body.input).toEqual(own);
    const marked = { ...reasoning('responses:rs_9:gAAAA'), id: 'rs_1' };
    expect(pass({ input: [marked, call] }).body.input).toEqual([
      { ...reasoning('gAAAA'), id: 'rs_9' },
      call,
    ]);
  });

  test('shortens the IDs of calls and their results in the same way', () => {
    const call_id = 'x'.repeat(65);
    const result = { type: 'function_call_output', call_id, output: 'ok' };
    const custom = { type: 'custom_tool_call', call_id, name: 'a', input: '' };
    const { input } = pass({ input: [{ ...call, call_id }, result, custom] }).body;
    const short = { call_id: expect.stringMatching(/^call_\w{24}$/) };
    expect(input).toEqual([
      { ...call, ...short },
      { ...result, ...short },
      { ...custom, ...short },
    ]);
    expect(new Set((input as { call_id: string }[]).map((item) => item.call_id)).size).toBe(1);
  });

  test('replaces image URLs, including those in results', () => {
    const url = 'https://a.example/b.png';
    const image = { type: 'input_image', image_url: url };
    const images = new Map([[url, 'data:image/png;base64,aGk=']]);
    const input = [
      { role: 'user', content: [image] },
      { type: 'function_call_output', call_id: 'c', output: [image] },
    ];
    const sent = JSON.stringify(pass({ input }, { images }).body);
    expect(sent).not.toContain(url);
    expect(sent.match(/aGk=/g)).toHaveLength(2);
  });
});

describe('withInstructions', () => {
  const instruct = (fields: object) => {
    const extended = pass(fields).clientRequest.withInstructions('More.');
    const request = extended.adapterFor('openai-responses')?.write(makeTarget());
    return JSON.parse(String(request?.body)) as Record<string, unknown>;
  };
  const rules = { role: 'developer', content: 'Rules.' };
  const hi = { role: 'user', content: 'Hi' };
  const added = { type: 'message', role: 'developer', content: 'More.' };

  test("appends the text after the client's instructions", () => {
    expect(instruct({}).instructions).toBe('More.');
    expect(instruct({ instructions: 'Be brief.' }).instructions).toBe('Be brief.\n\nMore.');
    expect(instruct({ input: [hi] }).instructions).toBe('More.');
    expect(instruct({ input: [rules, hi] }).input).toEqual([rules, added, hi]);
    expect(instruct({ input: [rules] }).input).toEqual([rules, added]);
  });
});

test('cacheKeyInput ignores the stream mode even if it is fixed', () => {
  const cacheKeyInput = (fields: object) =>
    JSON.stringify(pass(fields).clientRequest.cacheKeyInput());
  const seeded = { seed: 1 };
  expect(cacheKeyInput({ stream: true })).toBe(cacheKeyInput({}));
  expect(cacheKeyInput({ ...seeded, stream: true })).toBe(cacheKeyInput(seeded));
  expect(cacheKeyInput(seeded)).not.toBe(cacheKeyInput({}));
  const tools = [{ type: 'web_search' }];
  expect(cacheKeyInput({ tools, stream: true })).toBe(cacheKeyInput({ tools }));
  expect(pass({ tools }).clientRequest.isStreamModeFixed).toBe(true);
});
