import { expect, spyOn, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newFolder } from '../../tests/support/gateway/cleanup-shell.ts';
import { setUpRuntime } from './own-command.ts';

test('setUpRuntime continues if the process cannot be replaced', () => {
  const execve = spyOn(process, 'execve').mockImplementation(() => {
    throw Object.assign(new Error('The environment is too large.'), { code: 'E2BIG' });
  });
  expect(() => setUpRuntime(['serve'], {})).not.toThrow();
  expect(execve).toHaveBeenCalledTimes(1);
  execve.mockRestore();
});

test('setUpRuntime keeps files writable while 40 threads of the runtime are blocked', () => {
  const folder = newFolder();
  // Opening a pipe blocks a thread until another process opens its other end.
  const pipes = Array.from({ length: 40 }, (_, index) => join(folder, `pipe-${index}`));
  Bun.spawnSync(['mkfifo', ...pipes]);
  const program = join(folder, 'program.ts');
  writeFileSync(
    program,
    `import { open, writeFile } from 'node:fs/promises';
    import { setUpRuntime } from ${JSON.stringify(join(import.meta.dir, 'own-command.ts'))};
    setUpRuntime(['serve'], process.env);
    for (const pipe of ${JSON.stringify(pipes)}) void open(pipe);
    await writeFile(${JSON.stringify(join(folder, 'file'))}, 'written');
    process.exit(7);`,
  );
  const { exitCode } = Bun.spawnSync([process.execPath, program], { timeout: 10_000 });
  expect(exitCode).toBe(7);
});
