/** How SkillResolver finds and caches the skills of requests. */
import { beforeEach, describe, expect, test } from 'bun:test';
import { GatewayError } from '../../src/core/errors.ts';
import { builtInSkills, readSkillFile } from '../../src/tools/skills/built-in.ts';
import type { Skill, StoredSkill } from '../../src/tools/skills/skill.ts';
import { SkillResolver } from '../../src/tools/skills/skill-resolver.ts';
import { failureOf } from '../contracts/failure-of.ts';

const rows = new Map<string, StoredSkill>();
let reads: string[] = [];
let isUnreachable = false;

const store = {
  async get(tenantId: string, name: string) {
    reads.push(`${tenantId} ${name}`);
    if (isUnreachable) throw new Error('connection lost');
    return rows.get(`${tenantId} ${name}`);
  },
  async list(tenantId: string) {
    return [...rows.values()].filter((row) => row.tenantId === tenantId);
  },
};

const builtIn = new Map<string, Skill>([
  ['translate', { name: 'translate', description: 'd', instructions: 'Translate it.' }],
]);

let resolver: SkillResolver;
beforeEach(() => {
  rows.clear();
  reads = [];
  isUnreachable = false;
  resolver = new SkillResolver(store, builtIn);
});

function save(tenantId: string, name: string, instructions: string): void {
  const times = { createdAt: 1, updatedAt: 1 };
  rows.set(`${tenantId} ${name}`, { tenantId, name, description: 'd', instructions, ...times });
}

async function texts(tenantId: string, ...names: string[]): Promise<string[]> {
  return (await resolver.resolve(tenantId, names)).map(({ instructions }) => instructions);
}

async function rejection(tenantId: string, ...names: string[]): Promise<GatewayError> {
  const failure = await failureOf(resolver.resolve(tenantId, names));
  if (!(failure instanceof GatewayError)) throw failure;
  return failure;
}

describe('SkillResolver.resolve', () => {
  test("prefers the tenant's skill to a built-in skill, but only for that tenant", async () => {
    save('a', 'translate', 'Our way.');
    expect(await texts('a', 'translate')).toEqual(['Our way.']);
    expect(await texts('b', 'translate')).toEqual(['Translate it.']);
  });

  test("rejects an unknown name with its path and suggests only the tenant's names", async () => {
    save('a', 'house-style', 'x');
    save('b', 'secret-plan', 'x');
    const mistyped = await rejection('a', 'translate', 'hause-style');
    expect(mistyped.message).toBe('There is no skill "hause-style"; did you mean "house-style"?');
    expect([mistyped.status, mistyped.param]).toEqual([400, 'skills[1]']);
    expect((await rejection('a', 'secret-plan')).message).toBe('There is no skill "secret-plan".');
    expect((await rejection('a', 'secret-plam')).message).toBe('There is no skill "secret-plam".');
    expect((await rejection('a', 'translate', 'translate', 'x y')).param).toBe('skills[2]');
  });

  test.each(['', '../b/secret', 'A', 'x'.repeat(65), '__proto__', 'constructor', 'b house'])(
    'does not query the store for %p',
    async (name) => {
      const { status } = await rejection('a', name);
      expect(status).toBe(400);
      expect(reads.filter((read) => !/^a [a-z0-9-]{1,64}$/.test(read))).toEqual([]);
    },
  );

  test('accepts 10 names and rejects 11', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `s${index}`);
    for (const name of names) save('a', name, name);
    expect((await texts('a', ...names)).length).toBe(10);
    const error = await rejection('a', ...names, 's0');
    expect([error.status, error.param]).toEqual([400, 'skills']);
    expect(error.message).toBe('skills has 11 items; at most 10 are allowed.');
  });
});

describe('SkillResolver cache', () => {
  test('queries the store once for concurrent and later requests', async () => {
    save('a', 'one', '1');
    await Promise.all(Array.from({ length: 50 }, () => texts('a', 'one', 'translate')));
    await texts('a', 'one');
    expect(reads).toEqual(['a one', 'a translate']);
  });

  test('is cleared by forget, including pending reads', async () => {
    save('a', 'one', 'old');
    const early = texts('a', 'one');
    resolver.forget();
    save('a', 'one', 'new');
    await early;
    expect(await texts('a', 'one')).toEqual(['new']);
    save('a', 'one', 'newer');
    expect(await texts('a', 'one')).toEqual(['new']);
    resolver.forget();
    expect(await texts('a', 'one')).toEqual(['newer']);
  });

  test('stores neither failures nor unknown names', async () => {
    isUnreachable = true;
    const failure = await rejection('a', 'one');
    expect([failure.status, failure.retryAfterSeconds]).toEqual([503, 2]);
    expect(failure.message).not.toContain('connection');
    isUnreachable = false;
    expect((await rejection('a', 'one')).status).toBe(400);
    save('a', 'one', '1');
    expect(await texts('a', 'one')).toEqual(['1']);
  });

  test('holds at most 1,000 skills', async () => {
    for (let tenant = 0; tenant < 1_001; tenant++) await texts(`t${tenant}`, 'translate');
    reads = [];
    await texts('t1000', 'translate');
    await texts('t1', 'translate');
    expect(reads).toEqual([]);
    await texts('t0', 'translate');
    expect(reads).toEqual(['t0 translate']);
  });
});

describe('readSkillFile', () => {
  test('reads front matter and instructions', () => {
    const file =
      '---\r\nname: a-b\r\ndescription: "One: two"\r\nlicense: MIT\r\n---\r\n\r\n# Hi\r\n';
    expect(readSkillFile(file)).toEqual({
      name: 'a-b',
      description: 'One: two',
      instructions: '# Hi',
    });
  });

  test.each([
    ['Just words.\n\n---\n\nMore.', 'Just words.\n\n---\n\nMore.'],
    ['---\nname: [1\n---\nWords.', 'Words.'],
    ['---\n- a list\n---\nWords.', 'Words.'],
    ['---\nname: 7\n---\nWords.', 'Words.'],
    ['---\nnever closed', '---\nnever closed'],
    ['', ''],
  ])('accepts %j', (file, instructions) => {
    expect(readSkillFile(file)).toEqual({ name: undefined, description: undefined, instructions });
  });
});

test("built-in skills are within the limits that apply to tenants' skills", () => {
  for (const { description, instructions } of builtInSkills.values()) {
    expect(description.length).toBeLessThanOrEqual(500);
    expect(description).toEndWith('.');
    expect(instructions.length).toBeGreaterThan(500);
    // Every request that uses the skill pays for its instructions.
    expect(instructions.length).toBeLessThan(3_000);
  }
});
