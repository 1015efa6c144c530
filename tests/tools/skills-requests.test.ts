/** `skills: [...]` in requests: what models receive, what it costs, and whose skills are used. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { type ByokTenant, dataOf, makeByokTenant } from '../support/byok.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type Reply } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
let tenants = 0;

beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-upstream-012345' };
  const pricing = { prompt: '1', completion: '2' };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { first: fake, claude: { ...fake, dialect: 'anthropic' } },
    models: [
      chatModel('test/chat', [{ provider: 'first', model: 'chat', pricing }]),
      chatModel('test/claude', [{ provider: 'claude', model: 'chat', pricing }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('chat', chatAnswer('Fine.', { usage: { prompt: 10, completion: 5 } }));
});

const newTenant = (credits?: number): Promise<ByokTenant> =>
  makeByokTenant(gateway, `skilled${++tenants}`, credits);
const save = (tenant: ByokTenant, name: string, instructions: string) =>
  tenant.manage('PUT', `/v1/customer/skills/${name}`, { description: 'A skill.', instructions });

const own = { role: 'system', content: 'Be kind.' };
const hello = { role: 'user', content: 'Hello!' };
const chat = (fields: object = {}) => ({ model: 'test/chat', messages: [own, hello], ...fields });
const sent = () => upstream.requests.at(-1)?.json as Record<string, unknown>;
const message = (fields: object = {}) => ({
  max_tokens: 100,
  model: 'test/claude',
  system: 'Be kind.',
  messages: [hello],
  ...fields,
});

/** Returns the system text that the upstream received, in either dialect. */
function systemOf(json: Record<string, unknown>): string {
  const { system, messages } = json as { system?: unknown; messages: (typeof own)[] };
  const systemMessages = messages
    .filter(({ role }) => role === 'system')
    .map(({ content }) => content);
  return JSON.stringify([system ?? systemMessages]);
}

async function skillsUsed(reply: Reply, key: string): Promise<unknown> {
  const { json } = await gateway.get('/v1/customer/logs?limit=100', { key });
  const rows = json.logs as { request_id: string; skills_used: unknown }[];
  return rows.find((row) => row.request_id === reply.requestId)?.skills_used;
}

describe('skills of a request', () => {
  test("are appended to the client's system text, in order and once", async () => {
    const tenant = await newTenant();
    await save(tenant, 'first', 'FIRST RULE');
    await save(tenant, 'second', 'SECOND RULE');
    const skills = ['second', 'first', 'second'];
    const requests = [
      { path: '/v1/chat/completions', body: chat({ skills }) },
      { path: '/v1/chat/completions', body: chat({ skills, model: 'test/claude' }) },
      { path: '/v1/messages', body: message({ skills }) },
      { path: '/v1/messages', body: message({ skills, model: 'test/chat', stream: true }) },
    ];
    for (const { path, body } of requests) {
      const reply = await gateway.post(body, { path, key: tenant.key });
      expect(reply.status).toBe(200);
      const text = systemOf(sent());
      const expected = [
        'Be kind.',
        '# Skill: second',
        'SECOND RULE',
        '# Skill: first',
        'FIRST RULE',
      ];
      const positions = expected.map((part) => text.indexOf(part));
      expect(positions).not.toContain(-1);
      expect(positions).toEqual(positions.toSorted((a, b) => a - b));
      expect(text.split('SECOND RULE')).toHaveLength(2);
      expect(JSON.stringify(sent())).not.toContain('"skills"');
      expect(await skillsUsed(reply, tenant.key)).toEqual(['second', 'first']);
    }
  });

  test('are the system text if the client sends none', async () => {
    await gateway.post(chat({ messages: [hello], skills: ['json-only'] }));
    expect(systemOf(sent())).toContain('# Skill: json-only');
    await gateway.post(message({ system: undefined, skills: ['translate'] }), {
      path: '/v1/messages',
    });
    expect(systemOf(sent())).toContain('# Skill: translate');
  });

  test('are not added for an empty list', async () => {
    const tenant = await newTenant();
    const reply = await tenant.chat(chat({ skills: [] }));
    expect(sent().messages).toEqual([own, hello]);
    expect(await skillsUsed(reply, tenant.key)).toEqual([]);
  });

  test.each(['/v1/chat/completions', '/v1/messages'])(
    'cause a 400 at %s if they are unknown',
    async (path) => {
      const tenant = await newTenant();
      const body = path.endsWith('messages') ? message : chat;
      const wrong: [unknown, string][] = [
        [['json-only', 'jsn-only'], 'skills[1]'],
        [['No Such Name'], 'skills[0]'],
        [Array(11).fill('json-only'), 'skills'],
        [[7], 'skills[0]'],
        ['json-only', 'skills'],
      ];
      for (const [skills, param] of wrong) {
        const reply = await gateway.post(body({ skills }), { path, key: tenant.key });
        expect(reply.status).toBe(400);
        // Anthropic's errors have no param, so the message names the field.
        if (body === chat) expect(reply.error.param).toBe(param);
      }
      const hint = await gateway.post(body({ skills: ['jsn-only'] }), { path, key: tenant.key });
      expect(hint.error.message).toContain('did you mean "json-only"?');
      expect(upstream.requests).toHaveLength(0);
      expect(dataOf(await tenant.manage('GET', '/api/v1/credits')).total_usage).toBe(0);
    },
  );

  test('are unknown if they belong to another tenant', async () => {
    const [ours, theirs] = [await newTenant(), await newTenant()];
    await save(ours, 'secret-plan', 'The marker 7f3a9c51.');
    const reply = await theirs.chat(chat({ skills: ['secret-plan'] }));
    expect([reply.status, reply.error.param]).toEqual([400, 'skills[0]']);
    const typo = await theirs.chat(chat({ skills: ['secret-plam'] }));
    expect(typo.error.message).not.toContain('did you mean');
    await save(theirs, 'secret-plan', 'Their own words.');
    await theirs.chat(chat({ skills: ['secret-plan'] }));
    expect(systemOf(sent())).toContain('Their own words.');
    expect(systemOf(sent())).not.toContain('7f3a9c51');
  });

  test('are part of the cache key', async () => {
    const tenant = await newTenant();
    const ask = async () => {
      const reply = await tenant.chat(chat({ skills: ['tone'], temperature: 0 }));
      return reply.headers.get('x-cache');
    };
    await save(tenant, 'tone', 'Be brief.');
    expect([await ask(), await ask()]).toEqual(['MISS', 'HIT']);
    await save(tenant, 'tone', 'Be long.');
    expect([await ask(), await ask()]).toEqual(['MISS', 'HIT']);
    await save(tenant, 'tone', 'Be brief.');
    expect(await ask()).toBe('HIT');
    expect(upstream.requests).toHaveLength(2);
  });

  test('are included in the hold, so a request without enough credits for them is rejected', async () => {
    // 100 output tokens and a short prompt cost about 300 credits. 20,000 characters cost 6,667.
    const poor = await newTenant(5_000);
    await save(poor, 'long', 'x'.repeat(20_000));
    const plain = await poor.chat(chat({ max_tokens: 100 }));
    expect(plain.status).toBe(200);
    for (const model of ['test/chat', 'test/claude']) {
      const refused = await poor.chat(chat({ model, max_tokens: 100, skills: ['long'] }));
      expect(refused.status).toBe(402);
    }
    const path = '/v1/messages';
    const refused = await gateway.post(message({ skills: ['long'] }), { path, key: poor.key });
    expect(refused.status).toBe(402);
    expect(upstream.requests).toHaveLength(1);
    expect(dataOf(await poor.manage('GET', '/api/v1/credits')).total_usage).toBe(20);
  });
});
