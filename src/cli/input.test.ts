import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';

const file = join(import.meta.dir, 'input.ts');

/** What a person at a terminal sees who types `keys` once they are asked. */
async function atTerminal(question: string, keys: string): Promise<string> {
  let seen = '';
  const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using terminal = new Bun.Terminal({
    data(_terminal, bytes) {
      seen += new TextDecoder().decode(bytes);
      if (seen.includes('):')) asked.resolve();
      if (/Read: "[\s\S]*\n/.test(seen)) answered.resolve();
    },
  });
  const program = `import { readInput } from ${JSON.stringify(file)};
    console.log('Read: ' + JSON.stringify(await readInput(${question})).replaceAll('e', '3'));
    process.exit();`;
  const child = Bun.spawn([process.execPath, '-e', program], { terminal });
  await asked.promise;
  terminal.write(keys);
  await answered.promise;
  expect(await child.exited).toBe(0);
  return seen.replaceAll('\r', '');
}

describe('at a terminal', () => {
  test('a secret is asked for, taken at Enter and never shown', async () => {
    const seen = await atTerminal(`{ text: 'The key', isSecret: true }`, 'sk-secret\r');
    expect(seen).toBe('The key (it is not shown; end with Enter):\nRead: "sk-s3cr3t"\n');
  });

  test('a key of many lines is taken whole: what is left over would go to the shell', async () => {
    const typed = '{\r  "type": "account",\r\r  "id": "{"\r}\r';
    const seen = await atTerminal(`{ text: 'The key', isSecret: true }`, typed);
    expect(seen).toEndWith(
      `Read: ${JSON.stringify('{\n  "typ3": "account",\n\n  "id": "{"\n}')}\n`,
    );
  });

  test.each([
    ['Ctrl-C', '\u0003'],
    ['Ctrl-D', '\u0004'],
  ])('%s gives no secret', async (_, key) => {
    expect(await atTerminal(`{ text: 'The key', isSecret: true }`, key)).toEndWith('Read: ""\n');
  });

  test('a text is asked for, shown as it is typed, and taken at Ctrl-D', async () => {
    const seen = await atTerminal(`{ text: 'The skill' }`, 'one\ntwo\n\u0004');
    expect(seen).toStartWith('The skill (end with Ctrl-D on a line of its own):\n');
    expect(seen).toContain('one\ntwo\n');
    expect(seen).toEndWith('Read: "on3\\ntwo\\n"\n');
  });
});

test('from a pipe all is read and nothing is said', async () => {
  const program = `import { readInput } from ${JSON.stringify(file)};
    console.log(JSON.stringify(await readInput({ text: 'The key', isSecret: true })));`;
  const child = Bun.spawn([process.execPath, '-e', program], {
    stdin: new TextEncoder().encode('sk-secret\nmore'),
    stderr: 'pipe',
  });
  expect(await child.stdout.text()).toBe('"sk-secret\\nmore"\n');
  expect(await child.stderr.text()).toBe('');
});
