/** What pages claim about prices and ways, held against the catalogue or a running gateway. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { isObject } from '../../src/core/json.ts';
import { type Gateway, startGateway } from '../support/gateway.ts';

const docs = join(import.meta.dir, '../../docs');
const api = readFileSync(join(docs, 'api.md'), 'utf8');
const credits = readFileSync(join(docs, 'credits.md'), 'utf8');
const keys = readFileSync(join(docs, 'keys.md'), 'utf8');
const migrating = readFileSync(join(docs, 'migrating.md'), 'utf8');
/** For tests that start programs. */
const timeoutMs = 120_000;
const messages = [{ role: 'user', content: 'Hello!' }];

let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway();
}, timeoutMs);

afterAll(async () => {
  await gateway?.stop();
}, timeoutMs);

const ask = (fields: object) =>
  gateway.call('POST', '/api/v1/chat/completions', {
    key: gateway.keys.api,
    body: { model: 'demo/chat', messages, ...fields },
  });

const codeIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);

describe('api.md', () => {
  test('says how many aliases a chain may have', async () => {
    const told = /at most (\d+) different aliases together with `model`/.exec(api)?.[1];
    const chain = (length: number) => Array.from({ length }, (_, at) => `no/model-${at}`);
    const behind = Number(told) - 1;
    expect((await ask({ models: chain(behind) })).status).toBe(200);
    expect((await ask({ models: chain(behind + 1) })).status).toBe(400);
  });

  test('says beside what the words of the Responses API are left out', async () => {
    const [, field = ''] = /beside `input`, what only[^.]*, such as `(\w+)`/.exec(api) ?? [];
    const more = { messages: undefined, input: 'Hello!', [field]: 4 };
    const named = async (fields: object) =>
      (await ask(fields)).headers.get('x-tollgate-dropped-params');
    expect([await named(more), await named({ [field]: 4 })]).toEqual([field, null]);
  });

  test('says when speech has x-cache', async () => {
    expect(api).toContain('has `x-cache` only with an `Idempotency-Key`');
    const speak = async (headers: Record<string, string>) => {
      const body = { model: 'demo/speech', voice: 'alloy', input: 'Hello!' };
      const call = { key: gateway.keys.api, headers, body };
      return (await gateway.call('POST', '/v1/audio/speech', call)).headers.get('x-cache');
    };
    expect([await speak({}), await speak({ 'idempotency-key': 'said' })]).toEqual([null, 'MISS']);
  });
});

describe('keys.md', () => {
  test('says which tools chat completions refuse and the others leave out', async () => {
    const taken = /Chat completions take only tools of the\s+types ([^,]+), (.+?), and/.exec(keys);
    expect(taken?.slice(1)).toEqual(['`function`', '`custom`']);
    expect(keys).toMatch(/^\| tools [^|]*`code_interpreter`/m);
    const tools = [{ type: 'code_interpreter', container: { type: 'auto' } }];
    expect((await ask({ tools })).status).toBe(400);
    const { status, headers } = await gateway.call('POST', '/v1/responses', {
      ...{ key: gateway.keys.api, body: { model: 'demo/chat', input: 'Hello!', tools } },
    });
    expect([status, headers.get('x-tollgate-dropped-params')]).toEqual([200, 'tools[0]']);
  });
});

describe('audio.md', () => {
  test('has the prices of every model that speaks or listens', () => {
    const page = readFileSync(join(docs, 'audio.md'), 'utf8');
    const rows = [...page.matchAll(/^\| (`[^|]+`) +\| (\$[^|]+?) +\|$/gm)];
    const told = rows.flatMap(([, models = '', price]) =>
      codeIn(models).map((model) => `${model}: ${price}`),
    );
    const dollars = (usd: string) => `$${usd.replace(/\.0+$/, '')}`;
    const real = builtinCatalog.models
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
    expect(told.toSorted()).toEqual(real.toSorted());
  });
});

describe('credits.md', () => {
  test(
    'shows commands that work one after the other',
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
      // 5,000,000 given, 500 taken back.
      expect(printed).toMatch(/^available +4,999,500$/m);
    },
    timeoutMs,
  );

  test('says that a correction of more than there is is refused', async () => {
    expect(credits).toMatch(/a correction larger than the\s+available balance is rejected/);
    const { body } = await gateway.admin('POST', '/admin/v1/tenants', { name: 'Corrected' });
    const id = isObject(body.data) ? String(body.data.id) : '';
    const book = (amount: number) =>
      gateway.admin('POST', `/admin/v1/tenants/${id}/credits`, { amount });
    expect([(await book(100)).status, (await book(-101)).status]).toEqual([201, 400]);
    expect(await gateway.balance(id)).toBe(100);
  });

  test('works a request out as its receipt does', async () => {
    const answer = await ask({});
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
  test('names what keeps the words of answers, and for how long', async () => {
    const page = readFileSync(join(docs, '../SECURITY.md'), 'utf8');
    const [, part = ''] = /\*\*Prompts and answers\.\*\*([\s\S]*?)\n\*\*/.exec(page) ?? [];
    const rowOf = (word: string) => part.split('\n').find((line) => line.includes(word)) ?? '';

    const twice = async (headers: Record<string, string>, fields: object) => {
      for (const cached of [false, true]) {
        const body = { model: 'demo/chat', messages, ...fields };
        const { status, headers: answered } = await gateway.call('POST', '/v1/chat/completions', {
          ...{ key: gateway.keys.api, headers, body },
        });
        expect(status).toBe(200);
        const isRepeated =
          answered.get('x-cache') === 'HIT' || answered.get('idempotent-replayed') === 'true';
        expect(isRepeated).toBe(cached);
      }
    };
    await twice({ 'idempotency-key': 'kept' }, {});
    expect(rowOf('`Idempotency-Key`')).toContain('24 hours');
    await twice({}, { temperature: 0 });
    expect(rowOf('response cache')).toContain('`cache.ttl_seconds`');
    expect(rowOf('output of a job')).toContain('24 hours');
  });
});

describe('migrating.md', () => {
  const row = (start: string) => migrating.split('\n').find((line) => line.startsWith(start)) ?? '';

  test('says which endings of models are not known', async () => {
    const endings = codeIn(row('| `:nitro`').split('|')[1] ?? '');
    expect(endings).toEqual([':nitro', ':floor', ':free']);
    for (const ending of endings) {
      expect((await ask({ model: `demo/chat${ending}` })).status).toBe(404);
    }
    expect((await ask({ model: 'openrouter/auto' })).status).toBe(404);
  });

  test('says what is taken and not followed, and what is left out', async () => {
    expect(row('| `provider.data_collection`')).toContain('taken and not followed');
    expect(row('| `preset`')).toContain('named in `x-tollgate-dropped-params`');
    const provider = { data_collection: 'deny', zdr: true, quantizations: ['fp8'] };
    const { status, headers } = await ask({ transforms: ['middle-out'], preset: 'a', provider });
    expect([status, headers.get('x-tollgate-dropped-params')]).toEqual([200, 'preset']);
  });

  test('says which base URLs of Bifrost work, and what becomes of its fallbacks', async () => {
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

  test('is right that a model without its brand is told its name', async () => {
    const { status, error } = await ask({ model: 'chat' });
    expect(status).toBe(404);
    expect(error.message).toContain('did you mean "demo/chat"?');
  });
});
