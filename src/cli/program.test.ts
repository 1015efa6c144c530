import { expect, spyOn, test } from 'bun:test';
import { setUpRuntime } from './program.ts';

test('where the process cannot be replaced, as with a very large environment, it goes on', () => {
  const replacing = spyOn(process, 'execve').mockImplementation(() => {
    throw Object.assign(new Error('execve'), { code: 'E2BIG' });
  });
  expect(() => setUpRuntime(['serve'], {})).not.toThrow();
  expect(replacing).toHaveBeenCalledTimes(1);
  replacing.mockRestore();
});
