/** A request is charged by the configuration at its beginning, whatever changes while it runs. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { fieldsOf } from '../../src/core/json.ts';
import { InProcessGateway } from '../support/in-process.ts';
import { fc } from '../support/random.ts';

/** The number of tokens that the provider reports. */
interface Tokens {
  readonly prompt: number;
  readonly completion: number;
}

/** A request that waits at the provider until the test opens it. */
interface Waiting {
  readonly arrived: PromiseWithResolvers<void>;
  readonly opened: PromiseWithResolvers<void>;
  readonly tokens: Tokens;
}
let waiting: Waiting;

const upstream = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    const { model, stream } = fieldsOf(await request.json());
    const { arrived, opened, tokens } = waiting;
    const usage = { prompt_tokens: tokens.prompt, completion_tokens: tokens.completion };
    const message = { role: 'assistant', content: 'ok' };
    if (model === 'spare') {
      return Response.json({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage });
    }
    if (stream !== true) {
      arrived.resolve();
      await opened.promise;
      return new Response('{"error": {"message": "overloaded"}}', { status: 500 });
    }
    const event = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;
    const delta = { choices: [{ index: 0, delta: message }] };
    const end = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
    async function* events() {
      yield event(delta);
      arrived.resolve();
      await opened.promise;
      yield `${event(end)}${event({ choices: [], usage })}data: [DONE]\n\n`;
    }
    return new Response(events(), { headers: { 'content-type': 'text/event-stream' } });
  },
});

let gateway: InProcessGateway;
beforeAll(async () => {
  const base_url = `${upstream.url}v1`;
  gateway = await InProcessGateway.start({
    providers: { acme: { dialect: 'openai', base_url, api_key: null } },
    models: [],
  });
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

async function put(path: string, body: object): Promise<void> {
  const response = await fetch(`${gateway.url}/admin/v1/${path}`, {
    method: path.startsWith('tenants') ? 'PATCH' : 'PUT',
    headers: { authorization: `Bearer ${gateway.keys.admin}` },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
}

/** What the test's book knows: prices in 10⁻⁹ dollars, the factor in basis points. */
interface Entry {
  readonly first: Prices;
  readonly spare: Prices;
  readonly factor: number;
  /** Per request. */
  readonly surcharge: number;
  readonly hasPlan: boolean;
}
interface Prices {
  readonly prompt: number;
  readonly completion: number;
}

const billion = 1_000_000_000n;
const text = (price: number) =>
  `${BigInt(price) / billion}.${String(BigInt(price) % billion).padStart(9, '0')}`;

async function configure({ first, spare, factor, surcharge, hasPlan }: Entry): Promise<void> {
  for (const [name, { prompt, completion }] of Object.entries({ first, spare })) {
    const pricing = { prompt: text(prompt), completion: text(completion) };
    await put(`models/acme/${name}`, {
      ...{ name, input_modalities: ['text'], output_modalities: ['text'] },
      endpoints: [{ provider: 'acme', model: name, pricing }],
    });
  }
  await put('plans/pro', { factor_basis_points: factor, surcharge: { request: text(surcharge) } });
  await put('tenants/default', { plan: hasPlan ? 'pro' : null });
}

/** Returns the credits by the book: a credit is 10⁻⁶ dollars, and the sum is rounded up once. */
function creditsBy({ factor, surcharge, hasPlan, ...prices }: Entry, at: Model, used: Tokens) {
  const { prompt, completion } = prices[at];
  const perMillion =
    BigInt(prompt) * BigInt(used.prompt) + BigInt(completion) * BigInt(used.completion);
  // In units of 10⁻¹⁹ dollars: 9 decimals of prices, 6 of a million tokens, 4 of the factor.
  const listed = perMillion * BigInt(hasPlan ? factor : 10_000);
  const added = hasPlan ? BigInt(surcharge) * 10n ** 10n : 0n;
  const credit = 10n ** 13n;
  return Number((listed + added + credit - 1n) / credit);
}
type Model = 'first' | 'spare';

const price = fc.integer({ min: 1, max: 100_000_000_000_000 });
const prices = fc.record({ prompt: price, completion: price });
const entry = fc.record({
  ...{ first: prices, spare: prices },
  factor: fc.integer({ min: 0, max: 30_000 }),
  surcharge: fc.nat(5_000_000),
  hasPlan: fc.boolean(),
});
// The gateway estimates counts that are 0, or higher than a request can have.
const count = (max: number) => fc.integer({ min: 1, max });
const tokens = fc.record({ prompt: count(20), completion: count(10) });

test('a request is never charged by two configurations, during a stream or a fallback', async () => {
  await fc.assert(
    fc.asyncProperty(entry, entry, tokens, fc.boolean(), async (before, after, used, isStream) => {
      await configure(before);
      const [arrived, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      waiting = { arrived, opened, tokens: used };
      const answer = gateway.post({
        ...{ models: ['acme/first', 'acme/spare'], max_tokens: 10, stream: isStream },
        messages: [{ role: 'user', content: 'Hi '.repeat(20) }],
      });
      await arrived.promise;
      await configure(after);
      opened.resolve();
      const { requestId } = await answer;
      const { charges, status } = await gateway.record(requestId);
      const at = isStream ? 'first' : 'spare';
      expect([status, charges.modelCharge]).toEqual(['success', creditsBy(before, at, used)]);
    }),
    { numRuns: 12 },
  );
}, 120_000);
