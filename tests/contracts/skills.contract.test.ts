import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { SkillStore, StoredSkill } from '../../src/tools/skills/skill.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

describe.each([...engines])('the skills on $name', ({ empty }) => {
  let stores: TwoStores;
  let book: SkillStore;
  let elsewhere: SkillStore;
  let tenantId: string;

  beforeAll(async () => {
    stores = await openTwice(empty);
    book = stores.one.skills;
    elsewhere = stores.other.skills;
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

  test('come back as they were, by name, and only to their tenant', async () => {
    const [one, two] = [skill(), skill({ name: 'a-first-one', instructions: 'x'.repeat(20_000) })];
    expect(await book.put(one, 100)).toEqual(one);
    expect(await book.put(two, 100)).toEqual(two);
    expect(await elsewhere.list(tenantId)).toEqual([summary(two), summary(one)]);
    expect(await elsewhere.get(tenantId, 'a-first-one')).toEqual(two);
    const stranger = await newTenant();
    expect(await elsewhere.list(stranger)).toEqual([]);
    expect(await elsewhere.get(stranger, 'house-style')).toBeUndefined();
    expect(await elsewhere.remove(stranger, 'house-style')).toBe(false);
    expect(await book.get(tenantId, 'house-style')).toEqual(one);
  });

  test('are listed in the order of bytes on both engines', async () => {
    for (const name of ['b', 'a-b', 'ab', 'a', '0']) await book.put(skill({ name }), 100);
    const names = (await elsewhere.list(tenantId)).map(({ name }) => name);
    expect(names).toEqual(['0', 'a', 'a-b', 'ab', 'b']);
  });

  test('are replaced whole, but for the time of the first one', async () => {
    await book.put(skill(), 100);
    const later = skill({ description: 'd', instructions: 'i', createdAt: 9, updatedAt: 9 });
    const saved = await elsewhere.put(later, 100);
    expect(saved).toEqual({ ...later, createdAt: 1_700_000_000_000 });
    expect(await book.get(tenantId, 'house-style')).toEqual(saved);
  });

  test('of one name belong to each tenant that saves one', async () => {
    const other = await newTenant();
    await book.put(skill({ instructions: 'ours' }), 100);
    await book.put(skill({ tenantId: other, instructions: 'theirs' }), 100);
    expect((await book.get(tenantId, 'house-style'))?.instructions).toBe('ours');
    expect(await book.remove(other, 'house-style')).toBe(true);
    expect(await book.remove(other, 'house-style')).toBe(false);
    expect((await book.get(tenantId, 'house-style'))?.instructions).toBe('ours');
  });

  test('are no more than allowed; one that is there can still be replaced', async () => {
    for (const name of ['a', 'b']) await book.put(skill({ name }), 2);
    const before = await version();
    expect(await book.put(skill({ name: 'c' }), 2)).toBeUndefined();
    expect(await version()).toBe(before);
    expect(await book.get(tenantId, 'c')).toBeUndefined();
    expect(await book.put(skill({ name: 'b', description: 'new' }), 2)).toBeDefined();
    await book.remove(tenantId, 'a');
    expect(await book.put(skill({ name: 'c' }), 2)).toBeDefined();
  });

  test('are no more than allowed when several are saved at once', async () => {
    // One place each round, and two that want it; a race needs more than one chance.
    for (let round = 1; round <= 20; round++) {
      const rivals = [book, elsewhere].map((one, at) =>
        one.put(skill({ name: `r${round}-${at}` }), round),
      );
      const saved = (await Promise.all(rivals)).filter((one) => one !== undefined);
      expect(saved.length).toBe(1);
    }
    expect((await book.list(tenantId)).length).toBe(20);
  });

  test('move the version that other processes watch, and nothing else does', async () => {
    const before = await version();
    await book.put(skill(), 100);
    await book.put(skill(), 100);
    expect(await version()).toBe(before + 2);
    await book.list(tenantId);
    await book.get(tenantId, 'house-style');
    await book.remove(tenantId, 'unknown');
    expect(await version()).toBe(before + 2);
    await book.remove(tenantId, 'house-style');
    expect(await version()).toBe(before + 3);
  });

  test('of nobody cannot be saved', async () => {
    const lost = book.put(skill({ tenantId: 'nobody' }), 100);
    expect((await failureOf(lost)).message).toMatch(/foreign key/i);
    expect(await book.list('nobody')).toEqual([]);
  });
});
