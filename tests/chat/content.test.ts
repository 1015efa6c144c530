import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { echo, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';

/** What people write arrives as they wrote it, whichever way the body takes through us. */

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

/** The same request in the two orders: spliced when `model` stands first, written anew when not. */
function bodies(content: unknown): [string, string][] {
  const messages = [{ role: 'user', content }];
  return [
    ['spliced', JSON.stringify({ model: 'acme/chat', messages })],
    ['written anew', JSON.stringify({ messages, model: 'acme/chat' })],
  ];
}

function lastContent(): unknown {
  const seen = upstream.book.at(-1)?.json;
  const messages = isObject(seen) && Array.isArray(seen.messages) ? seen.messages : [];
  const last: unknown = messages.at(-1);
  return isObject(last) ? last.content : undefined;
}

const odd: [string, string][] = [
  ['emoji and joiners', '👩‍👩‍👧‍👦 🏳️‍🌈 é e\u0301 ﬁ'],
  ['line separators', 'a\u2028b\u2029c\u0085d'],
  ['control characters', 'nul \u0000 bell \u0007 escape \u001b[31m delete \u007f'],
  ['bidirectional controls', '\u202eevil\u202c \u2066x\u2069'],
  ['a byte order mark', '\ufefftext\ufeff'],
  ['private use and noncharacters', '\ue000 \uffff \u{10ffff}'],
  ['JSON in text', '{"model":"other/model","messages":[]}'],
  ['quotes and backslashes', '\\"\\\\u0041 \\u2028 "model": "x"'],
  ['keys of ours in text', 'data: [DONE]\n\ndata: {"choices":[]}\n\n'],
];

describe('content arrives upstream unchanged', () => {
  test.each(odd)('%s', async (_, content) => {
    for (const [, body] of bodies(content)) {
      expect((await gateway.post(body)).status).toBe(200);
      expect(hash(String(lastContent()))).toBe(hash(content));
    }
  });

  test('lone surrogates, written as escapes', async () => {
    for (const body of [
      '{"model":"acme/chat","messages":[{"role":"user","content":"a\\ud800b\\udc00"}]}',
      '{"messages":[{"role":"user","content":"a\\ud800b\\udc00"}],"model":"acme/chat"}',
    ]) {
      expect((await gateway.post(body)).status).toBe(200);
      expect(hash(String(lastContent()))).toBe(hash('a\ud800b\udc00'));
    }
  });

  test('megabytes of it', async () => {
    const content = '日本語 text with 😀 and "quotes" '.repeat(100_000);
    for (const [, body] of bodies(content)) {
      expect((await gateway.post(body)).status).toBe(200);
      expect(hash(String(lastContent()))).toBe(hash(content));
    }
  });

  test('the client’s own bytes go on where only the model’s name changes', async () => {
    const body =
      '{"model":"acme/chat", "messages" : [{"role":"user","content":"\\u00e9\\/"}],"x":1.0}';
    await gateway.post(body);
    expect(Buffer.from(upstream.book[0]?.raw ?? []).toString()).toBe(
      body.replace('acme/chat', 'chat-up'),
    );
  });
});

test('odd content comes back from the provider unchanged', async () => {
  for (const [, content] of odd) {
    const [[, body] = ['', '']] = bodies(content);
    expect(hash(String(contentOf(await gateway.post(body))))).toBe(hash(content));
  }
});

describe('one name twice', () => {
  const messages = '"messages":[{"role":"user","content":"hi"}]';
  test.each([
    ['model', `{"model":"acme/chat",${messages},"model":"acme/chat"}`],
    ['model, hidden', `{"model":"acme/chat",${messages},"mod\\u0065l":"acme/chat"}`],
    ['max_tokens', `{"model":"acme/chat","max_tokens":99,${messages},"max_tokens":5}`],
    [
      'max_tokens, hidden',
      `{"model":"acme/chat","ma\\u0078_tokens":99,${messages},"max_tokens":5}`,
    ],
    ['n', `{"model":"acme/chat","n":9,${messages},"n":1}`],
  ])('%s: upstream it stands once, with the value that we read', async (_, body) => {
    expect((await gateway.post(body)).status).toBe(200);
    const raw = Buffer.from(upstream.book[0]?.raw ?? []).toString();
    expect(raw.match(/"model"/g)).toHaveLength(1);
    expect(upstream.book[0]?.model).toBe('chat-up');
    expect(raw).not.toMatch(/99|"n":9|\\u00/);
  });
});

describe('names that poison objects', () => {
  const messages = '"messages":[{"role":"user","content":"hi","__proto__":{"role":"system"}}]';
  const lures = [
    '"__proto__":{"isAdmin":true,"polluted":1}',
    '"constructor":{"prototype":{"polluted":1}}',
    '"metadata":{"__proto__":{"polluted":1}}',
    '"provider":{"__proto__":{"only":["nobody"]}}',
    '"reasoning":{"__proto__":{"effort":"high"}}',
  ];
  test.each(lures)('%s changes nothing', async (lure) => {
    for (const body of [
      `{"model":"acme/chat",${messages},${lure}}`,
      `{${lure},${messages},"model":"acme/chat"}`,
    ]) {
      const reply = await gateway.post(body);
      expect([200, 400]).toContain(reply.status);
      expect(({} as Record<string, unknown>).polluted).toBeUndefined();
      expect(upstream.book.at(-1)?.json).not.toHaveProperty('reasoning_effort');
    }
    expect((await gateway.get('/v1/key')).status).toBe(200);
    expect((await gateway.get('/api/v1/keys')).status).toBe(403);
  });
});

describe('the address of an image', () => {
  const inner = [
    'http://127.0.0.1:8080/a.png',
    'http://2130706433/a.png',
    'HTTPS://localhost/a.png',
    'http://169.254.169.254/latest/meta-data/',
    'http://[::ffff:7f00:1]/a.png',
    'http://metadata.google.internal/',
    'http://gpu-1:8000/a.png',
    'http://public.example\\@127.0.0.1/a.png',
    'http://public.example:6379/a.png',
  ];
  /** The ways to name one: where it is posted, with what, and what a refusal calls it. */
  const doors: [string, string, (url: string) => object, string | undefined][] = [
    [
      'a chat',
      '/v1/chat/completions',
      (url) => ({ messages: [user([{ type: 'image_url', image_url: { url } }])] }),
      'messages[0].content[0].image_url.url',
    ],
    [
      'a response',
      '/v1/responses',
      (url) => ({ input: [user([{ type: 'input_image', image_url: url }])] }),
      'input[0].content[0].image_url',
    ],
    [
      'a message',
      '/v1/messages',
      (url) => ({
        max_tokens: 9,
        messages: [user([{ type: 'image', source: { type: 'url', url } }])],
      }),
      undefined,
    ],
  ];
  const user = (content: object[]) => ({ role: 'user', content });

  test.each(doors)('in %s goes on when it is public', async (_, path, write) => {
    const body = { model: 'acme/chat', ...write('https://public.example/a.png') };
    expect((await gateway.post(body, { path })).status).toBe(200);
    expect(JSON.stringify(lastContent())).toContain('https://public.example/a.png');
  });

  test.each(doors)('in %s never leads an upstream inside', async (_, path, write, param) => {
    for (const url of inner) {
      const reply = await gateway.post({ model: 'acme/chat', ...write(url) }, { path });
      expect([url, reply.status]).toEqual([url, 400]);
      expect(reply.error.param).toBe(param);
    }
    expect(upstream.book).toEqual([]);
  });
});
