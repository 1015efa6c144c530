/** Management of skills through the API and the CLI, isolated by tenant. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { ChangeWatcher } from '../../src/auth/tenant-directory.ts';
import { commandEnvironment } from '../../src/cli/command-environment.ts';
import { runCommand } from '../../src/cli/dispatch.ts';
import { topics } from '../../src/cli/topics.ts';
import { isObject } from '../../src/core/json.ts';
import { runPeriodically } from '../../src/core/periodic-task.ts';
import { builtInSkills } from '../../src/tools/skills/built-in.ts';
import { SkillResolver } from '../../src/tools/skills/skill-resolver.ts';
import { SkillService } from '../../src/tools/skills/skill-service.ts';
import { failureOf } from '../contracts/failure-of.ts';
import { type ByokTenant, dataOf, makeByokTenant } from '../support/byok.ts';
import { InProcessGateway, type Reply, readReply } from '../support/in-process.ts';
import { waitUntil } from '../support/wait-until.ts';

let gateway: InProcessGateway;
let tenants = 0;

beforeAll(async () => {
  gateway = await InProcessGateway.start({ providers: {}, models: [] });
});
afterAll(() => gateway.stop());

const newTenant = (): Promise<ByokTenant> => makeByokTenant(gateway, `skilled${++tenants}`);
const root = '/v1/customer/skills';
const house = { description: 'How we write.', instructions: '# House style\n\n- Say less.' };

async function call(key: string, method: string, path: string, body?: unknown): Promise<Reply> {
  const headers = { authorization: `Bearer ${key}` };
  const sent = typeof body === 'string' ? body : JSON.stringify(body);
  const options = body === undefined ? { method, headers } : { method, headers, body: sent };
  return readReply(await fetch(gateway.url + path, options));
}

function listed(reply: Reply): Record<string, unknown>[] {
  return Array.isArray(reply.json.data) ? reply.json.data.filter(isObject) : [];
}

const own = (reply: Reply) => listed(reply).filter(({ source }) => source === 'customer');

describe('/v1/customer/skills', () => {
  test('saves, shows, lists, replaces, and deletes a skill', async () => {
    const { manage } = await newTenant();
    const path = `${root}/house-style`;
    expect((await manage('GET', path)).status).toBe(404);
    const put = await manage('PUT', path, house);
    expect(put.status).toBe(200);
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/);
    const times = { created_at: time, updated_at: time };
    const object = { name: 'house-style', source: 'customer', ...house, ...times };
    expect(put.json).toEqual({ data: object });
    expect((await manage('GET', path)).json).toEqual({ data: object });
    const { instructions: _, ...summary } = object;
    expect(own(await manage('GET', root))).toEqual([summary]);
    const later = await manage('PUT', path, { description: 'New.', instructions: ' x\r\ny ' });
    expect(dataOf(later)).toMatchObject({ description: 'New.', instructions: 'x\ny' });
    expect(dataOf(later).created_at).toBe(dataOf(put).created_at);
    expect((await manage('DELETE', path)).json).toEqual({ deleted: true });
    expect((await manage('DELETE', path)).status).toBe(404);
    expect(own(await manage('GET', root))).toEqual([]);
  });

  test('does not show or change skills of another tenant', async () => {
    const [ours, theirs] = [await newTenant(), await newTenant()];
    const path = `${root}/secret-plan`;
    const secret = { description: 'Ours alone.', instructions: 'The marker 7f3a9c51.' };
    await ours.manage('PUT', path, secret);
    for (const key of [theirs.key, gateway.keys.management]) {
      const replies = [
        await call(key, 'GET', root),
        await call(key, 'GET', path),
        await call(key, 'GET', `${root}/secret-plam`),
        await call(key, 'DELETE', path),
      ];
      expect(replies.map(({ status }) => status)).toEqual([200, 404, 404, 404]);
      for (const { text } of replies) expect(text).not.toMatch(/7f3a9c51|Ours alone/);
      expect(replies[2]?.error.message).toBe('There is no skill "secret-plam".');
    }
    await theirs.manage('PUT', path, house);
    expect(dataOf(await ours.manage('GET', path))).toMatchObject(secret);
    await theirs.manage('DELETE', path);
    expect(dataOf(await ours.manage('GET', path))).toMatchObject(secret);
  });

  test.each<[string, unknown, string]>([
    ['Upper', house, 'name'],
    ['under_score', house, 'name'],
    ['two%20words', house, 'name'],
    ['x'.repeat(65), house, 'name'],
    ['a', {}, 'description'],
    ['a', { ...house, description: '' }, 'description'],
    ['a', { ...house, description: '\u200b' }, 'description'],
    ['a', { ...house, description: 7 }, 'description'],
    ['a', { ...house, description: 'two\nlines' }, 'description'],
    ['a', { ...house, description: 'd'.repeat(501) }, 'description'],
    ['a', { ...house, description: 'turned \u202e round' }, 'description'],
    ['a', { description: 'd' }, 'instructions'],
    ['a', { ...house, instructions: ' \n ' }, 'instructions'],
    ['a', { ...house, instructions: '\u200b \u2060' }, 'instructions'],
    ['a', { ...house, instructions: null }, 'instructions'],
    ['a', { ...house, instructions: ['x'] }, 'instructions'],
    ['a', { ...house, instructions: 'x'.repeat(20_001) }, 'instructions'],
    ['a', { ...house, instructions: 'nul \u0000' }, 'instructions'],
    ['a', { ...house, instructions: 'smuggled \u{e0049}' }, 'instructions'],
    ['a', '{"description":"d","instructions":"half \\ud83d"}', 'instructions'],
    ['a', { ...house, instruction: 'x' }, 'instruction'],
    ['a', { ...house, name: 'b' }, 'name'],
  ])('rejects a skill with the name %p and body %j', async (name, body, param) => {
    const tenant = await newTenant();
    const reply = await call(tenant.key, 'PUT', `${root}/${name}`, body);
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(reply.error.message).toMatch(/^[^\n]+[.?]$/);
    expect(own(await tenant.manage('GET', root))).toEqual([]);
  });

  // Postgres rejects NUL in text, and the error would look like an unreachable store.
  test.each(['a\0b', '😀', 'x'.repeat(65), "' or 1=1--"])(
    'returns 404 for %p without a query to the store',
    async (name) => {
      const refuse = () => Promise.reject(new Error('invalid byte sequence'));
      const store = { get: refuse, remove: refuse, put: refuse, list: async () => [] };
      const service = new SkillService({
        store,
        builtIn: new Map(),
        now: Date.now,
        onChanged: () => {},
      });
      for (const result of [service.show('ten_1', name), service.delete('ten_1', name)]) {
        expect(await failureOf(result)).toMatchObject({ status: 404, param: 'name' });
      }
    },
  );

  test('accepts name, description, and instructions of the maximum length', async () => {
    const { manage } = await newTenant();
    const path = `${root}/${'a'.repeat(64)}`;
    const longest = { description: 'ä'.repeat(500), instructions: '語'.repeat(20_000) };
    expect(dataOf(await manage('PUT', path, longest))).toMatchObject(longest);
    expect(dataOf(await manage('GET', path))).toMatchObject(longest);
  });

  test('accepts at most 100 skills per tenant', async () => {
    const { id, manage } = await newTenant();
    const row = { tenantId: id, description: 'd', instructions: 'i', createdAt: 1, updatedAt: 1 };
    for (let index = 0; index < 100; index++)
      await gateway.store.skills.put({ ...row, name: `s${index}` }, 100);
    const rejected = await manage('PUT', `${root}/one-more`, house);
    expect([rejected.status, rejected.error.param]).toEqual([400, 'name']);
    expect(rejected.error.message).toBe('This tenant already has 100 skills. Delete some first.');
    expect((await manage('PUT', `${root}/s7`, house)).status).toBe(200);
  });
});

describe('a built-in skill', () => {
  test('is listed for every tenant, without timestamps', async () => {
    const { manage } = await newTenant();
    const all = listed(await manage('GET', root));
    expect(all.map(({ name }) => name)).toEqual([
      'cite-sources',
      'json-only',
      'translate',
      'web-search',
    ]);
    for (const skill of all) {
      expect(skill).toMatchObject({ source: 'built_in', created_at: null, updated_at: null });
    }
    const shown = dataOf(await manage('GET', `${root}/json-only`));
    expect(shown.instructions).toStartWith('A program reads your answer.');
  });

  test("can be replaced by a tenant's skill and is back after that skill is deleted", async () => {
    const [{ manage }, other] = [await newTenant(), await newTenant()];
    const path = `${root}/translate`;
    await manage('PUT', path, house);
    const named = async (tenant: Pick<ByokTenant, 'manage'>) =>
      listed(await tenant.manage('GET', root)).filter(({ name }) => name === 'translate');
    expect(await named({ manage })).toMatchObject([
      { source: 'customer', description: 'How we write.' },
    ]);
    expect(await named(other)).toMatchObject([{ source: 'built_in' }]);
    expect((await manage('DELETE', path)).status).toBe(200);
    expect(await named({ manage })).toMatchObject([{ source: 'built_in' }]);
    const rejected = await manage('DELETE', path);
    expect(rejected.status).toBe(400);
    expect(rejected.error.message).toBe(
      'The skill "translate" is built in. It can be replaced, but not deleted.',
    );
  });
});

test('a change reaches a process that has cached the skill', async () => {
  const { id, manage } = await newTenant();
  const { skills, directory } = gateway.store;
  const resolver = new SkillResolver(skills, builtInSkills);
  const tasks = runPeriodically(
    new ChangeWatcher(directory, () => resolver.forget()).periodicTasks(),
  );
  const current = async () => (await resolver.resolve(id, ['translate']))[0]?.instructions;
  try {
    expect(await current()).toStartWith('Translate like a professional');
    await manage('PUT', `${root}/translate`, house);
    await waitUntil(async () => (await current()) === house.instructions);
  } finally {
    tasks.stop();
  }
});

describe('tollgate skills', () => {
  async function tollgate(input: string, ...args: string[]) {
    const [out, err]: [string[], string[]] = [[], []];
    const code = await runCommand([...args, '--data-dir', gateway.folder], topics, {
      ...commandEnvironment,
      out: (text) => void out.push(text),
      err: (text) => void err.push(text),
      input: async () => input,
    });
    return { code, out: out.join('\n'), err: err.join('\n') };
  }

  test('saves a file that the API shows unchanged', async () => {
    const { id, manage } = await newTenant();
    const file = '---\nname: house-style\ndescription: How we write.\n---\n\n- Say less.\n';
    const put = await tollgate(file, 'skills', 'put', 'house-style', '--tenant', id);
    expect(put).toEqual({
      code: 0,
      out: 'The skill house-style was saved (11 characters).',
      err: '',
    });
    const shown = await manage('GET', `${root}/house-style`);
    expect(dataOf(shown)).toMatchObject({
      description: 'How we write.',
      instructions: '- Say less.',
    });
    const show = await tollgate('', 'skills', 'show', 'house-style', '--tenant', id, '--json');
    expect(JSON.parse(show.out)).toEqual(shown.json);
    const list = await tollgate('', 'skills', 'list', '--tenant', id, '--json');
    expect(JSON.parse(list.out)).toEqual((await manage('GET', root)).json);
    const table = await tollgate('', 'skills', 'list', '--tenant', id);
    expect(table.out).toMatch(/^NAME +SOURCE +UPDATED \(UTC\) +DESCRIPTION\n/);
    expect(table.out).toMatch(/\nhouse-style +customer +\d{4}-.* +How we write\.\n/);
    const page = await tollgate('', 'skills', 'show', 'house-style', '--tenant', id);
    expect(page.out).toEndWith('\n\n- Say less.');
    const deleted = await tollgate('', 'skills', 'delete', 'house-style', '--tenant', id);
    expect(deleted.out).toBe('The skill house-style was deleted.');
    expect((await manage('GET', `${root}/house-style`)).status).toBe(404);
  });

  test('rejects what the API rejects, and names that contradict each other', async () => {
    const { id } = await newTenant();
    const put = (name: string, file: string, ...more: string[]) =>
      tollgate(file, 'skills', 'put', name, '--tenant', id, ...more);
    expect(await put('a', 'Words.')).toMatchObject({
      code: 1,
      err: 'description is required (a string).',
    });
    expect(await put('a', '', '--description', 'd')).toMatchObject({
      code: 1,
      err: 'instructions must not be empty.',
    });
    expect(await put('a', '---\nname: b\n---\nWords.', '--description', 'd')).toMatchObject({
      code: 1,
      err: 'The file names the skill "b", but the command names "a". Use the same name.',
    });
    const unknownTenant = await tollgate('', 'skills', 'list', '--tenant', 'nobody');
    expect([unknownTenant.code, unknownTenant.out]).toEqual([1, '']);
    const unknown = await tollgate('', 'skills', 'show', 'translat', '--tenant', id);
    expect(unknown.err).toBe('There is no skill "translat"; did you mean "translate"?');
  });
});
