import { expect, test } from 'bun:test';
import { Gathered } from './gathered.ts';

const never = new Promise<never>(() => {});

/** Answers with how many shared the query; some are never answered, some fail. */
const gathered = () =>
  new Gathered(async (asked: readonly string[]) => {
    if (asked.includes('hangs')) await never;
    if (asked.includes('fails')) throw new Error('away');
    return (one: string) => `${one} of ${asked.length}`;
  });

test('questions that come while a query hangs share the next, which does not wait', async () => {
  const questions = gathered();
  void questions.ask('hangs');
  const [one, two] = [questions.ask('one'), questions.ask('two')];
  expect([await one, await two]).toEqual(['one of 2', 'two of 2']);
  expect(await questions.ask('three')).toBe('three of 1');
});

test('a query that fails does so for those who share it, and for nobody after them', async () => {
  const questions = gathered();
  const asked = ['first', 'fails', 'beside'].map((one) => questions.ask(one).catch(String));
  expect(await Promise.all(asked)).toEqual(['first of 1', 'Error: away', 'Error: away']);
  expect(await questions.ask('after')).toBe('after of 1');
});
