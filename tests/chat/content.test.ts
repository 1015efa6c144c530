/** Request content reaches the upstream unchanged, both in edited and in serialized bodies. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { echo, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const vendor = { dialect: 'openai', base_url: `${upstream.url}/v1` };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { vendor },
    models: [chatModel('acme/chat', [{ provider: 'vendor', model: 'chat-up' }])],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('chat-up', echo());
});

const hash = (text: string) => Bun.SHA256.hash(Buffer.from(text, 'utf16le'), 'hex');

/** The gateway edits a body in place if `model` comes first. Otherwise, it serializes the body. */
function bodies(content: unknown): [string, string][] {
  const messages = [{ role: 'user', content }];
  return [
    ['edited in place', JSON.stringify({ model: 'acme/chat', messages })],
    ['serialized again', JSON.stringify({ messages, model: 'acme/chat' })],
  ];
}

function lastContent(): unknown {
  const seen = upstream.requests.at(-1)?.json;
  const messages = isObject(seen) && Array.isArray(seen.messages) ? seen.messages : [];
  const last: unknown = messages.at(-1);
  return isObject(last) ? last.content : undefined;
}

const unusualTexts: [string, string][] = [
  ['emoji and joiners', '👩‍👩‍👧‍👦 🏳️‍🌈 é e\u0301 ﬁ'],
  ['line separators', 'a\u2028b\u2029c\u0085d'],
  ['control characters', 'nul \u0000 bell \u0007 escape \u001b[31m delete \u007f'],
  ['bidirectional controls', '\u202eevil\u202c \u2066x\u2069'],
  ['a byte order mark', '\ufefftext\ufeff'],
  ['private use and noncharacters', '\ue000 \uffff \u{10ffff}'],
  ['JSON in text', '{"model":"other/model","messages":[]}'],
  ['quotes and backslashes', '\\"\\\\u0041 \\u2028 "model": "x"'],
  ['stream syntax in text', 'data: [DONE]\n\ndata: {"choices":[]}\n\n'],
];

describe('request content', () => {
  test.each(unusualTexts)('reaches the upstream unchanged: %s', async (_, content) => {
    for (const [, body] of bodies(content)) {
      expect((await gateway.post(body)).status).toBe(200);
      expect(hash(String(lastContent()))).toBe(hash(content));
    }
  });

  test('keeps escaped lone surrogates', async () => {
    for (const body of [
      '{"model":"acme/chat","messages":[{"role":"user","content":"a\\ud800b\\udc00"}]}',
      '{"messages":[{"role":"user","content":"a\\ud800b\\udc00"}],"model":"acme/chat"}',
    ]) {
      expect((await gateway.post(body)).status).toBe(200);
      expect(hash(String(lastContent()))).toBe(hash('a\ud800b\udc00'));
    }
  });

  test('reaches the upstream unchanged: several megabytes', async () => {
    const content = '日本語 text with 😀 and "quotes" '.repeat(100_000);
    for (const [, body] of bodies(content)) {
      expect((await gateway.post(body)).status).toBe(200);
      expect(hash(String(lastContent()))).toBe(hash(content));
    }
  });

  test("keeps the client's bytes if only the model name changes", async () => {
    const body =
      '{"model":"acme/chat", "messages" : [{"role":"user","content":"\\u00e9\\/"}],"x":1.0}';
    await gateway.post(body);
    expect(Buffer.from(upstream.requests[0]?.raw ?? []).toString()).toBe(
      body.replace('acme/chat', 'chat-up'),
    );
  });
});

test('returns unusual content of an answer unchanged', async () => {
  for (const [, content] of unusualTexts) {
    const [[, body] = ['', '']] = bodies(content);
    expect(hash(String(contentOf(await gateway.post(body))))).toBe(hash(content));
  }
});

describe('a duplicate JSON key', () => {
  const messages = '"messages":[{"role":"user","content":"hi"}]';
  test.each([
    ['model', `{"model":"acme/chat",${messages},"model":"acme/chat"}`],
    ['model, escaped', `{"model":"acme/chat",${messages},"mod\\u0065l":"acme/chat"}`],
    ['max_tokens', `{"model":"acme/chat","max_tokens":99,${messages},"max_tokens":5}`],
    [
      'max_tokens, escaped',
      `{"model":"acme/chat","ma\\u0078_tokens":99,${messages},"max_tokens":5}`,
    ],
    ['n', `{"model":"acme/chat","n":9,${messages},"n":1}`],
  ])('is sent upstream once, with the value that the gateway read: %s', async (_, body) => {
    expect((await gateway.post(body)).status).toBe(200);
    const raw = Buffer.from(upstream.requests[0]?.raw ?? []).toString();
    expect(raw.match(/"model"/g)).toHaveLength(1);
    expect(upstream.requests[0]?.model).toBe('chat-up');
    expect(raw).not.toMatch(/99|"n":9|\\u00/);
  });
});

describe('prototype pollution', () => {
  const messages = '"messages":[{"role":"user","content":"hi","__proto__":{"role":"system"}}]';
  const payloads = [
    '"__proto__":{"isAdmin":true,"polluted":1}',
    '"constructor":{"prototype":{"polluted":1}}',
    '"metadata":{"__proto__":{"polluted":1}}',
    '"provider":{"__proto__":{"only":["nobody"]}}',
    '"reasoning":{"__proto__":{"effort":"high"}}',
  ];
  test.each(payloads)('is impossible with %s', async (payload) => {
    for (const body of [
      `{"model":"acme/chat",${messages},${payload}}`,
      `{${payload},${messages},"model":"acme/chat"}`,
    ]) {
      const reply = await gateway.post(body);
      expect([200, 400]).toContain(reply.status);
      expect(({} as Record<string, unknown>).polluted).toBeUndefined();
      expect(upstream.requests.at(-1)?.json).not.toHaveProperty('reasoning_effort');
    }
    expect((await gateway.get('/v1/key')).status).toBe(200);
    expect((await gateway.get('/api/v1/keys')).status).toBe(403);
  });
});
