/**
 * Runs the commands and examples of the README in a copy of the repository. `npm ci` runs only in
 * CI. Here, the copy links to the installed packages.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { isObject, parseJson } from '../../src/core/json.ts';
import { firstStartSecrets } from '../support/gateway.ts';
import { readTree } from '../support/source-tree.ts';

const root = join(import.meta.dir, '../..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const commands = [...readme.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, text = '']) =>
  text.trim(),
);

/** Enough time to start on a busy machine. Another test measures the startup time. */
const startMsMax = 100_000;
/** Enough for tests that start processes. */
const timeoutMs = 120_000;

/** Omits the machine's other variables, because a provider key would change the models. */
const bareEnvironment = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' };

interface Started {
  readonly url: string;
  /** The output until the gateway was ready. */
  readonly greeting: string;
  /** Resolves when npm and all its child processes have exited. */
  stop(): Promise<void>;
}

/** Runs `npm start` on a free port, in its own process group. */
async function start(folder: string): Promise<Started> {
  const child = Bun.spawn(['npm', 'start'], {
    cwd: folder,
    env: { ...bareEnvironment, PORT: '0' },
    stdout: 'pipe',
    stderr: 'pipe',
    detached: true,
  });
  const signal = (name: NodeJS.Signals) => process.kill(-child.pid, name);
  const deadline = setTimeout(() => signal('SIGKILL'), startMsMax);
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let greeting = '';
  // The greeting arrives in one chunk. Its second line lists the models.
  while (!/ is ready at \S+\n.*models.*\n/.test(greeting)) {
    const { done, value } = await output.read();
    if (done) break;
    greeting += value;
  }
  clearTimeout(deadline);
  const [, url] = / is ready at (\S+)/.exec(greeting) ?? [];
  if (url === undefined) {
    throw new Error(`npm start did not get ready: ${await new Response(child.stderr).text()}`);
  }
  let isStopped = false;
  return {
    url,
    greeting,
    async stop() {
      if (isStopped) return;
      isStopped = true;
      signal('SIGTERM');
      // The output ends when the last process that can write to it has exited.
      while (!(await output.read()).done);
    },
  };
}

function copyTree(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-readme-'));
  for (const path of readTree(root).keys()) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(root, path), join(folder, path));
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

let folder: string;
let gateway: Started;
let key: string;

async function run(command: readonly string[]): Promise<string> {
  const child = Bun.spawn([...command], {
    cwd: folder,
    env: { ...bareEnvironment, TOLLGATE_URL: gateway.url, TOLLGATE_KEY: key },
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`${command.join(' ')} failed with ${code}: ${err}${out}`);
  return out;
}

const shell = (command: string) =>
  run(['sh', '-c', command.replaceAll('http://127.0.0.1:8080', gateway.url)]);

function chatText(body: string): unknown {
  const answer = parseJson(body);
  const choices = isObject(answer) && Array.isArray(answer.choices) ? answer.choices : [];
  const [choice] = choices.filter(isObject);
  return isObject(choice?.message) ? choice.message.content : undefined;
}

beforeAll(async () => {
  folder = copyTree();
  gateway = await start(folder);
  key = /\bsk-tg-\S+/.exec(firstStartSecrets(gateway.greeting))?.[0] ?? '';
}, timeoutMs);

afterAll(async () => {
  await gateway?.stop();
  rmSync(folder, { recursive: true, force: true });
}, timeoutMs);

describe('README', () => {
  test('shows 4 commands: start, send a request, create a key, test', () => {
    expect(commands.length).toBe(4);
    expect(commands[0]).toBe('npm ci && npm start');
    expect(commands[1]).toStartWith('curl ');
    expect(commands[2]).toStartWith('npm run tollgate ');
    // This command runs this test.
    expect(commands[3]).toBe('npm ci && npm test');
  });

  test('shows the answer of its request', async () => {
    expect(key).not.toBe('');
    const [, shown = ''] = /^```json\n([\s\S]*?)^```$/m.exec(readme) ?? [];
    const expected: object = JSON.parse(shown);
    expect(JSON.parse(await shell(commands[1] ?? ''))).toMatchObject(expected);
  });

  test(
    'shows a command that creates a working key',
    async () => {
      const printed = await shell(commands[2] ?? '');
      const created = /\bsk-tg-\S+/.exec(printed)?.[0] ?? '';
      expect(created).not.toBe(key);
      const answer = await fetch(`${gateway.url}/v1/key`, {
        headers: { authorization: `Bearer ${created}` },
      });
      expect(await answer.json()).toMatchObject({
        data: { name: 'my app', models: ['demo/*'], scopes: ['chat'] },
      });
    },
    timeoutMs,
  );
});

describe('first start', () => {
  test('prints a curl command that works', async () => {
    const [, printed = ''] = gateway.greeting.split('Try it:\n');
    expect(printed).toContain('curl');
    expect(chatText(await run(['sh', '-c', printed]))).toContain('Hello!');
  });
});

describe('examples', () => {
  const examples = readdirSync(join(root, 'examples'));

  test('are all linked in the README', () => {
    const linked = [...readme.matchAll(/\]\(examples\/([^)]+)\)/g)].map(([, name = '']) => name);
    expect(linked.toSorted()).toEqual(examples.toSorted());
  });

  test.each(examples)(
    'print the answer and its usage: %s',
    async (name) => {
      const program = name.endsWith('.sh') ? 'sh' : join('node_modules', '.bin', 'bun');
      const printed = await run([program, join('examples', name)]);
      expect(printed).toContain('Tollgate');
      expect(printed).toMatch(/\b[1-9]\d* tokens|"total_tokens":[1-9]/);
    },
    timeoutMs,
  );
});

describe('second start', () => {
  test(
    'keeps the keys and the data and prints no secret',
    async () => {
      await gateway.stop();
      gateway = await start(folder);
      expect(gateway.greeting).not.toContain('sk-');
      expect(gateway.greeting).toContain('npm run tollgate -- keys create');
      expect(chatText(await shell(commands[1] ?? ''))).toContain('Hello!');
    },
    timeoutMs,
  );
});
