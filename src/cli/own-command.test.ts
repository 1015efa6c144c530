import { expect, spyOn, test } from 'bun:test';
import { setUpRuntime } from './own-command.ts';

test('setUpRuntime continues if the process cannot be replaced', () => {
  const execve = spyOn(process, 'execve').mockImplementation(() => {
    throw Object.assign(new Error('The environment is too large.'), { code: 'E2BIG' });
  });
  expect(() => setUpRuntime(['serve'], {})).not.toThrow();
  expect(execve).toHaveBeenCalledTimes(1);
  execve.mockRestore();
});
