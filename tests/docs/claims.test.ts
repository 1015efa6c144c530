/** Checks claims of the docs against the built-in catalog and a running gateway. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { asGatewayError, type errorTable, shuttingDown } from '../../src/core/errors.ts';
import { isObject } from '../../src/core/json.ts';
import { finalError } from '../../src/upstream/failure-message.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const docs = join(import.meta.dir, '../../docs');
const api = readFileSync(join(docs, 'api.md'), 'utf8');
const credits = readFileSync(join(docs, 'credits.md'), 'utf8');
const errors = readFileSync(join(docs, 'errors.md'), 'utf8');
const keys = readFileSync(join(docs, 'keys.md'), 'utf8');
const migrating = readFileSync(join(docs, 'migrating.md'), 'utf8');
/** Enough for tests that start processes. */
const timeoutMs = 120_000;
const messages = [{ role: 'user', content: 'Hello!' }];

let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway();
}, timeoutMs);

afterAll(async () => {
  await gateway?.stop();
}, timeoutMs);

const chat = (fields: object, key = gateway.keys.api) =>
  gateway.call('POST', '/v1/chat/completions', {
    key,
    body: { model: 'demo/chat', messages, ...fields },
  });

const codeIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);

describe('docs/api.md', () => {
  test('states the maximum number of fallback models', async () => {
    const stated = /at most (\d+) different aliases together with `model`/.exec(api)?.[1];
    const chain = (length: number) => Array.from({ length }, (_, i) => `no/model-${i}`);
    const fallbacksMax = Number(stated) - 1;
    expect((await chat({ models: chain(fallbacksMax) })).status).toBe(200);
    expect((await chat({ models: chain(fallbacksMax + 1) })).status).toBe(400);
  });

  test('names a Responses field that is dropped from a chat completion with `input`', async () => {
    const [, field = ''] =
      /fields that exist only in\s+the Responses API, such as `(\w+)`/.exec(api) ?? [];
    const more = { messages: undefined, input: 'Hello!', [field]: 4 };
    const dropped = async (fields: object) =>
      (await chat(fields)).headers.get('x-tollgate-dropped-params');
    expect([await dropped(more), await dropped({ [field]: 4 })]).toEqual([field, null]);
  });

  test('states when speech has an x-cache header', async () => {
    expect(api).toContain('has `x-cache` only with an `Idempotency-Key`');
    const speak = async (headers: Record<string, string>) => {
      const body = { model: 'demo/speech', voice: 'alloy', input: 'Hello!' };
      const call = { key: gateway.keys.api, headers, body };
      return (await gateway.call('POST', '/v1/audio/speech', call)).headers.get('x-cache');
    };
    expect([await speak({}), await speak({ 'idempotency-key': 'speech' })]).toEqual([null, 'MISS']);
  });
});

describe('docs/errors.md', () => {
  /** Sends requests with a new key and returns the last error message. */
  async function messageWithKey(settings: object, requests: number, change?: object) {
    const call = { key: gateway.keys.management };
    const created = await gateway.call('POST', '/api/v1/keys', {
      ...call,
      body: { name: 'a', ...settings },
    });
    const id = isObject(created.body.data) ? String(created.body.data.id) : '';
    if (change) await gateway.call('PATCH', `/api/v1/keys/${id}`, { ...call, body: change });
    const send = () => chat({}, String(created.body.key));
    for (let i = 1; i < requests; i += 1) await send();
    return (await send()).error.message;
  }
  const rejected = {
    kind: 'credential',
    isOwnAccount: false,
    message: '',
    status: 401,
    retryAfterSeconds: null,
  } as const;

  const messageOf: Readonly<Record<keyof typeof errorTable, () => unknown>> = {
    invalid_request_error: async () => (await chat({ model: undefined })).error.message,
    invalid_api_key: () => messageWithKey({}, 1, { disabled: true }),
    insufficient_credits: () => messageWithKey({ limit: 3 }, 1),
    forbidden: async () => {
      const path = '/admin/v1/overview';
      return (await gateway.call('GET', path, { key: gateway.keys.api })).error.message;
    },
    model_capability_mismatch: async () => (await chat({ model: 'demo/embed' })).error.message,
    rate_limit_exceeded: () => withinOneMinute(() => messageWithKey({ requests_per_minute: 2 }, 3)),
    upstream_error: () => finalError([rejected, rejected]).message,
    service_unavailable: () => shuttingDown().message,
    internal_error: () => asGatewayError(new Error('A bug')).message,
  };
  const withoutNumbers = (text: unknown) => String(text).replace(/\d+/g, '#');

  test.each(Object.entries(messageOf))('quotes a message of %s', async (symbol, produce) => {
    const [, section = ''] = errors.split(`\n## ${symbol}\n`);
    const [, example = ''] = /^```json\n(.*)$/m.exec(section) ?? [];
    const quoted = JSON.parse(example).error.message;
    expect(withoutNumbers(quoted)).toBe(withoutNumbers(await produce()));
  });
});

describe('docs/keys.md', () => {
  test('lists the tools that chat completions reject and other endpoints drop', async () => {
    const accepted = /Chat completions take only tools of the\s+types ([^,]+), (.+?), and/.exec(
      keys,
    );
    expect(accepted?.slice(1)).toEqual(['`function`', '`custom`']);
    expect(keys).toMatch(/^\| tools [^|]*`code_interpreter`/m);
    const tools = [{ type: 'code_interpreter', container: { type: 'auto' } }];
    expect((await chat({ tools })).status).toBe(400);
    const { status, headers } = await gateway.call('POST', '/v1/responses', {
      ...{ key: gateway.keys.api, body: { model: 'demo/chat', input: 'Hello!', tools } },
    });
    expect([status, headers.get('x-tollgate-dropped-params')]).toEqual([200, 'tools[0]']);
  });
});

describe('docs/audio.md', () => {
  test('lists the prices of every speech and transcription model', () => {
    const page = readFileSync(join(docs, 'audio.md'), 'utf8');
    const rows = [...page.matchAll(/^\| (`[^|]+`) +\| (\$[^|]+?) +\|$/gm)];
    const documented = rows.flatMap(([, models = '', price]) =>
      codeIn(models).map((model) => `${model}: ${price}`),
    );
    const dollars = (usd: string) => `$${usd.replace(/\.0+$/, '')}`;
    const actual = builtinCatalog.models
      .filter(({ features }) => features?.some((name) => /^(?:speech|transcription)$/.test(name)))
      .map(({ id, endpoints: [first] }) => {
        const { characters, bytes, minute, prompt, request } = first?.pricing ?? {};
        const perToken = `${dollars(prompt ?? '')} per million tokens, text and audio`;
        const price =
          (characters && `${dollars(characters)} per million characters`) ??
          (bytes && `${dollars(bytes)} per million UTF-8 bytes`) ??
          (minute && `${dollars(minute)} per minute`) ??
          `${perToken}, and ${dollars(request ?? '')} per request`;
        return `${id}: ${price}`;
      });
    expect(documented.toSorted()).toEqual(actual.toSorted());
  });
});

describe('docs/credits.md', () => {
  test(
    'shows commands that work in this order',
    async () => {
      const [, block = ''] = /^```sh\n([\s\S]*?)^```$/m.exec(credits) ?? [];
      const commands = block.trim().split('\n');
      expect(commands.length).toBe(4);
      let printed = '';
      for (const command of commands) {
        const words = [...command.matchAll(/"([^"]*)"|(\S+)/g)].map(([, a, b]) => a ?? b ?? '');
        const { exitCode, stdout, stderr } = await gateway.command(...words.slice(1));
        expect(`${exitCode} ${stderr}`).toBe('0 ');
        printed = stdout;
      }
      // 5,000,000 are granted and 500 removed.
      expect(printed).toMatch(/^available +4,999,500$/m);
    },
    timeoutMs,
  );

  test('states that a correction above the available balance is rejected', async () => {
    expect(credits).toMatch(/a correction larger than the\s+available balance is rejected/);
    const { body } = await gateway.admin('POST', '/admin/v1/tenants', { name: 'Corrected' });
    const id = isObject(body.data) ? String(body.data.id) : '';
    const changeCredits = (amount: number) =>
      gateway.admin('POST', `/admin/v1/tenants/${id}/credits`, { amount });
    expect([(await changeCredits(100)).status, (await changeCredits(-101)).status]).toEqual([
      201, 400,
    ]);
    expect(await gateway.balance(id)).toBe(100);
  });

  test('computes the cost of a request in the same way as its receipt', async () => {
    const answer = await chat({});
    expect(answer.body).toMatchObject({ usage: { cost: 15 } });
    const id = answer.headers.get('x-request-id');
    const path = `/v1/customer/logs/${id}`;
    const { body } = await gateway.call('GET', path, { key: gateway.keys.api });
    const rows = credits.matchAll(
      /^\| (prompt|completion) +\| (\d+) +\| ([\d.]+) +\| ([\d.]+) +\|$/gm,
    );
    const lines = [...rows].map(([, price, quantity, usd, amount]) => ({
      price,
      quantity: Number(quantity),
      usd,
      credits: amount,
    }));
    expect(lines.length).toBe(2);
    expect(body).toMatchObject({ data: { lines, cost: 15, cost_breakdown: { total_charge: 15 } } });
    expect(credits).toMatch(/^\| \*\*charged\*\* .*\*\*15\*\* +\|$/m);
  });
});

describe('SECURITY.md', () => {
  test('states where answers are stored and for how long', async () => {
    const page = readFileSync(join(docs, '../SECURITY.md'), 'utf8');
    const [, section = ''] = /\*\*Prompts and answers\.\*\*([\s\S]*?)\n\*\*/.exec(page) ?? [];
    const rowOf = (text: string) => section.split('\n').find((line) => line.includes(text)) ?? '';

    const sendTwice = async (headers: Record<string, string>, fields: object) => {
      for (const isSecond of [false, true]) {
        const body = { model: 'demo/chat', messages, ...fields };
        const { status, headers: replyHeaders } = await gateway.call(
          'POST',
          '/v1/chat/completions',
          {
            ...{ key: gateway.keys.api, headers, body },
          },
        );
        expect(status).toBe(200);
        const isReplayed =
          replyHeaders.get('x-cache') === 'HIT' ||
          replyHeaders.get('idempotent-replayed') === 'true';
        expect(isReplayed).toBe(isSecond);
      }
    };
    await sendTwice({ 'idempotency-key': 'stored' }, {});
    expect(rowOf('`Idempotency-Key`')).toContain('24 hours');
    await sendTwice({}, { temperature: 0 });
    expect(rowOf('response cache')).toContain('`cache.ttl_seconds`');
    expect(rowOf('output of a job')).toContain('24 hours');
  });
});

describe('docs/migrating.md', () => {
  const row = (start: string) => migrating.split('\n').find((line) => line.startsWith(start)) ?? '';

  test('lists model suffixes that get 404', async () => {
    const suffixes = codeIn(row('| `:nitro`').split('|')[1] ?? '');
    expect(suffixes).toEqual([':nitro', ':floor', ':free']);
    for (const suffix of suffixes) {
      expect((await chat({ model: `demo/chat${suffix}` })).status).toBe(404);
    }
    expect((await chat({ model: 'openrouter/auto' })).status).toBe(404);
  });

  test('lists fields that are ignored and fields that are dropped', async () => {
    expect(row('| `provider.data_collection`')).toContain('accepted and ignored');
    expect(row('| `preset`')).toContain('named in `x-tollgate-dropped-params`');
    const provider = { data_collection: 'deny', zdr: true, quantizations: ['fp8'] };
    const { status, headers } = await chat({ transforms: ['middle-out'], preset: 'a', provider });
    expect([status, headers.get('x-tollgate-dropped-params')]).toEqual([200, 'preset']);
  });

  test('lists the Bifrost base URLs that work, and says that fallbacks are dropped', async () => {
    const [bases = '', others = ''] = row('| base URLs that end in').split('|').slice(1);
    expect([codeIn(bases), codeIn(others)]).toEqual([
      ['/openai', '/anthropic'],
      ['/genai', '/litellm'],
    ]);
    const body = { model: 'demo/chat', max_tokens: 99, messages, fallbacks: ['demo/image'] };
    const post = (path: string) => gateway.call('POST', path, { key: gateway.keys.api, body });
    const { status, headers } = await post('/openai/chat/completions');
    expect([status, headers.get('x-tollgate-dropped-params')]).toEqual([200, 'fallbacks']);
    expect((await post('/anthropic/v1/messages')).status).toBe(200);
    expect((await post('/litellm/v1/chat/completions')).status).toBe(404);
    expect((await post('/genai/v1beta/models/demo/chat:generateContent')).status).toBe(404);
  });

  test('states that a name without its brand means the alias, unless it has a date', async () => {
    expect((await chat({ model: 'chat' })).status).toBe(200);
    expect((await chat({ model: 'chat-2025-08-07' })).status).toBe(404);
  });
});
