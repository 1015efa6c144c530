import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { within } from '../../tests/support/wait-until.ts';

const file = join(import.meta.dir, 'input.ts');

/** Types `keys` after the prompt and returns all that the terminal shows. */
async function atTerminal(question: string, keys: string): Promise<string> {
  let screen = '';
  const [prompted, printed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using terminal = new Bun.Terminal({
    data(_terminal, bytes) {
      screen += new TextDecoder().decode(bytes);
      if (screen.includes('):')) prompted.resolve();
      if (/Read: "[\s\S]*\n/.test(screen)) printed.resolve();
    },
  });
  const program = `import { readInput } from ${JSON.stringify(file)};
    console.log('Read: ' + JSON.stringify(await readInput(${question})).replaceAll('e', '3'));
    process.exit();`;
  const child = Bun.spawn([process.execPath, '-e', program], { terminal });
  await within(prompted.promise, 'the prompt');
  terminal.write(keys);
  await within(printed.promise, 'the output after the prompt');
  expect(await within(child.exited, 'the command to exit', 60_000)).toBe(0);
  return screen.replaceAll('\r', '');
}

describe('readInput at a terminal', () => {
  test('reads a secret up to Enter without echo', async () => {
    const screen = await atTerminal(`{ text: 'The key', isSecret: true }`, 'sk-secret\r');
    expect(screen).toBe('The key (hidden; end with Enter):\nRead: "sk-s3cr3t"\n');
  });

  test('reads all lines of a pasted JSON key, so that none reaches the shell', async () => {
    const typed = '{\r  "type": "account",\r\r  "id": "{"\r}\r';
    const screen = await atTerminal(`{ text: 'The key', isSecret: true }`, typed);
    expect(screen).toEndWith(
      `Read: ${JSON.stringify('{\n  "typ3": "account",\n\n  "id": "{"\n}')}\n`,
    );
  });

  test.each([
    ['Ctrl-C', '\u0003'],
    ['Ctrl-D', '\u0004'],
  ])('returns an empty secret on %s', async (_, key) => {
    expect(await atTerminal(`{ text: 'The key', isSecret: true }`, key)).toEndWith('Read: ""\n');
  });

  test('reads text up to Ctrl-D with echo', async () => {
    const screen = await atTerminal(`{ text: 'The skill' }`, 'one\ntwo\n\u0004');
    expect(screen).toStartWith('The skill (end with Ctrl-D on an empty line):\n');
    expect(screen).toContain('one\ntwo\n');
    expect(screen).toEndWith('Read: "on3\\ntwo\\n"\n');
  });
});

test('readInput reads all of a pipe without a prompt', async () => {
  const program = `import { readInput } from ${JSON.stringify(file)};
    console.log(JSON.stringify(await readInput({ text: 'The key', isSecret: true })));`;
  const child = Bun.spawn([process.execPath, '-e', program], {
    stdin: new TextEncoder().encode('sk-secret\nmore'),
    stderr: 'pipe',
  });
  expect(await child.stdout.text()).toBe('"sk-secret\\nmore"\n');
  expect(await child.stderr.text()).toBe('');
});
