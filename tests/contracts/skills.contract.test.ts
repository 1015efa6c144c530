import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { SkillStore, StoredSkill } from '../../src/tools/skills/skill.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

describe.each([...engines])('SqlSkills on $name', ({ empty }) => {
  let stores: TwoStores;
  let skills: SkillStore;
  let otherSkills: SkillStore;
  let tenantId: string;

  beforeAll(async () => {
    stores = await openTwice(empty);
    skills = stores.one.skills;
    otherSkills = stores.other.skills;
  }, 120_000);

  afterAll(() => stores.close());

  beforeEach(async () => {
    tenantId = await newTenant();
  });

  const newTenant = () => addTenant(stores.one);

  function skill(change: Partial<StoredSkill> = {}): StoredSkill {
    return {
      tenantId,
      name: 'house-style',
      description: 'How we write — “always”',
      instructions: '# Rules\n\n- Say *less*. 😀\n\t- Really.',
      createdAt: 1_700_000_000_000,
      updatedAt: 1_700_000_000_000,
      ...change,
    };
  }

  const summary = ({ instructions: _, ...rest }: StoredSkill) => rest;
  const version = () => stores.other.directory.version();

  test("returns a tenant's skills unchanged, sorted by name", async () => {
    const [one, two] = [skill(), skill({ name: 'a-first-one', instructions: 'x'.repeat(20_000) })];
    expect(await skills.put(one, 100)).toEqual(one);
    expect(await skills.put(two, 100)).toEqual(two);
    expect(await otherSkills.list(tenantId)).toEqual([summary(two), summary(one)]);
    expect(await otherSkills.get(tenantId, 'a-first-one')).toEqual(two);
    const otherTenant = await newTenant();
    expect(await otherSkills.list(otherTenant)).toEqual([]);
    expect(await otherSkills.get(otherTenant, 'house-style')).toBeUndefined();
    expect(await otherSkills.remove(otherTenant, 'house-style')).toBe(false);
    expect(await skills.get(tenantId, 'house-style')).toEqual(one);
  });

  test('lists skills in byte order on both engines', async () => {
    for (const name of ['b', 'a-b', 'ab', 'a', '0']) await skills.put(skill({ name }), 100);
    const names = (await otherSkills.list(tenantId)).map(({ name }) => name);
    expect(names).toEqual(['0', 'a', 'a-b', 'ab', 'b']);
  });

  test('replaces a skill but keeps its creation time', async () => {
    await skills.put(skill(), 100);
    const later = skill({ description: 'd', instructions: 'i', createdAt: 9, updatedAt: 9 });
    const saved = await otherSkills.put(later, 100);
    expect(saved).toEqual({ ...later, createdAt: 1_700_000_000_000 });
    expect(await skills.get(tenantId, 'house-style')).toEqual(saved);
  });

  test('stores the same name separately for each tenant', async () => {
    const other = await newTenant();
    await skills.put(skill({ instructions: 'ours' }), 100);
    await skills.put(skill({ tenantId: other, instructions: 'theirs' }), 100);
    expect((await skills.get(tenantId, 'house-style'))?.instructions).toBe('ours');
    expect(await skills.remove(other, 'house-style')).toBe(true);
    expect(await skills.remove(other, 'house-style')).toBe(false);
    expect((await skills.get(tenantId, 'house-style'))?.instructions).toBe('ours');
  });

  test('rejects a new skill above the limit but allows replacing one', async () => {
    for (const name of ['a', 'b']) await skills.put(skill({ name }), 2);
    const before = await version();
    expect(await skills.put(skill({ name: 'c' }), 2)).toBeUndefined();
    expect(await version()).toBe(before);
    expect(await skills.get(tenantId, 'c')).toBeUndefined();
    expect(await skills.put(skill({ name: 'b', description: 'new' }), 2)).toBeDefined();
    await skills.remove(tenantId, 'a');
    expect(await skills.put(skill({ name: 'c' }), 2)).toBeDefined();
  });

  test('never exceeds the limit with concurrent saves', async () => {
    // Each round, 2 saves race for 1 free slot. Several rounds make a collision likely.
    for (let round = 1; round <= 20; round++) {
      const saves = [skills, otherSkills].map((one, i) =>
        one.put(skill({ name: `r${round}-${i}` }), round),
      );
      const saved = (await Promise.all(saves)).filter((one) => one !== undefined);
      expect(saved.length).toBe(1);
    }
    expect((await skills.list(tenantId)).length).toBe(20);
  });

  test('increases the directory version only if something changed', async () => {
    const before = await version();
    await skills.put(skill(), 100);
    await skills.put(skill(), 100);
    expect(await version()).toBe(before + 2);
    await skills.list(tenantId);
    await skills.get(tenantId, 'house-style');
    await skills.remove(tenantId, 'unknown');
    expect(await version()).toBe(before + 2);
    await skills.remove(tenantId, 'house-style');
    expect(await version()).toBe(before + 3);
  });

  test('rejects a skill of an unknown tenant', async () => {
    const rejected = skills.put(skill({ tenantId: 'nobody' }), 100);
    expect((await failureOf(rejected)).message).toMatch(/foreign key/i);
    expect(await skills.list('nobody')).toEqual([]);
  });
});
