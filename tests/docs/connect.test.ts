/**
 * `tollgate connect`: what it prints is what docs/clients.md says, and works as printed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Client,
  clients,
  fillPlaceholders,
  type SettingValues,
  settingsText,
} from '../../src/cli/clients/settings.ts';
import { fieldsOf, objectsIn, parseJson } from '../../src/core/json.ts';
import { type Gateway, newFolder, startGateway } from '../support/gateway.ts';

const root = join(import.meta.dir, '../..');
const page = readFileSync(join(root, 'docs/clients.md'), 'utf8');
const timeoutMs = 120_000;

/** What the page puts into the gaps; its shells have two variables for it. */
const onThePage: SettingValues = {
  url: 'http://127.0.0.1:8080',
  container_url: 'http://host.docker.internal:8080',
  key: 'sk-tg-…',
  model: 'demo/chat',
  model_name: 'Demo Chat',
  context: '128000',
  output: '4096',
};
const inItsShells: SettingValues = { ...onThePage, url: '$TOLLGATE_URL', key: '$TOLLGATE_KEY' };

const [quickStarts = ''] = page.split('\n## Tested versions\n');
const sections = new Map(
  quickStarts
    .split(/^### /m)
    .slice(1)
    .map((part) => [part.split('\n')[0] ?? '', part.split('\n## ')[0] ?? '']),
);

const oneLine = (text: string) => text.replace(/\s+/g, ' ').trim();

/** The blocks of a section with their languages, in their order. */
const blocksOf = (text: string) =>
  [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = '', block = '']) => ({
    language,
    block,
  }));

function blocksIn({ steps }: Client) {
  return steps.flatMap((step) => {
    if (step.kind === 'click') return [];
    const language = {
      shell: 'sh',
      file: step.kind === 'file' ? (step.file.split('.').at(-1) ?? '') : '',
      program: step.kind === 'program' ? step.language : '',
    }[step.kind];
    const gaps = step.kind === 'shell' ? inItsShells : onThePage;
    return [{ language, block: fillPlaceholders(step.text, gaps) }];
  });
}

describe('the clients that connect knows', () => {
  test('are those of the page, each by a name of its own', () => {
    expect(clients.map(({ title }) => title).toSorted()).toEqual([...sections.keys()].toSorted());
    expect(new Set(clients.map(({ name }) => name)).size).toBe(clients.length);
  });

  test.each([...clients])('$name has the settings and the trap of the page', (client) => {
    const text = sections.get(client.title) ?? '';
    expect(blocksOf(text)).toEqual(blocksIn(client));
    expect(client.steps.length).toBeGreaterThan(0);
    for (const step of client.steps) {
      if (step.kind === 'file') expect(text).toContain(`\`${step.file}\``);
      if (step.kind === 'click')
        expect(oneLine(text)).toContain(oneLine(fillPlaceholders(step.text, onThePage)));
    }
    const [, trap = ''] = text.split('*The trap:*');
    expect(oneLine(trap)).toBe(oneLine(fillPlaceholders(client.trap, onThePage)));
  });

  test.each([...clients])(
    '$name has the addresses of the table',
    ({ title, speaks, base, appends }) => {
      const anchor = title.toLowerCase().replace(/[@/]/g, '').replace(/ /g, '-');
      const row = page
        .split('\n')
        .find((line) => line.startsWith('|') && line.includes(`(#${anchor})`));
      const [address, path] = row?.match(/`[^`]+`/g) ?? [];
      const ends = { chat: '/chat/completions', messages: '/messages', responses: '/responses' };
      expect(appends).toEndWith(ends[speaks]);
      expect([address, path]).toEqual([`\`${onThePage.url}${base}\``, `\`${appends}\``]);
    },
  );

  test.each([...clients])('$name has sentences that fit a terminal', (client) => {
    const steps = client.steps.filter(({ kind }) => kind === 'click');
    const told = settingsText({ ...client, steps }, onThePage).split('\n');
    expect(told.filter((line) => line.length > 80)).toEqual([]);
  });

  test('leave no gap open', () => {
    const open = clients.filter((client) => {
      const texts = [client.trap, ...client.steps.map(({ text }) => text)];
      return texts.some((text) => /\{\{\w+\}\}/.test(fillPlaceholders(text, onThePage)));
    });
    expect(open.map(({ name }) => name)).toEqual([]);
  });
});

describe('tollgate connect', () => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway();
  }, timeoutMs);
  afterAll(async () => {
    await gateway?.stop();
  }, timeoutMs);

  const here = () => ['--url', gateway.url, '--key', gateway.keys.api];
  const connect = (...words: string[]) => gateway.command('connect', ...words);

  test(
    'lists the clients',
    async () => {
      const { exitCode, stdout } = await connect();
      expect(exitCode).toBe(0);
      expect(stdout).toMatch(/^claude-code +Claude Code +messages$/m);
      expect(stdout.trimEnd().split('\n').length).toBe(1 + clients.length);
    },
    timeoutMs,
  );

  test(
    'without a key says how to make one, and has the address of the configuration',
    async () => {
      const { exitCode, stdout } = await connect('codex');
      expect(exitCode).toBe(0);
      expect(stdout).toContain('In the file ~/.codex/config.toml:\n\nmodel = "demo/chat"\n');
      expect(stdout).toContain('\nbase_url = "http://127.0.0.1:8080/v1"\n');
      expect(stdout).toContain('\nexport TOLLGATE_KEY="sk-tg-…"\n');
      const data = `--data-dir ${gateway.dataDir}`;
      expect(stdout).toContain(` keys create --name "Codex CLI" ${data}\n`);
    },
    timeoutMs,
  );

  test.each(['curl', 'ai-sdk'])(
    'prints what works as printed: %s',
    async (name) => {
      const { stdout } = await connect(name, ...here(), '--json');
      const steps = objectsIn(fieldsOf(fieldsOf(parseJson(stdout)).data).steps);
      const textOf = (kind: string) =>
        steps.filter((step) => step.kind === kind).map(({ text }) => String(text));
      const folder = newFolder();
      symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
      const programs = textOf('program');
      writeFileSync(join(folder, 'hello.mjs'), programs.join(''));
      const start = programs.length > 0 ? ['exec "$BUN" hello.mjs'] : [];
      const child = Bun.spawn(['sh', '-euc', [...textOf('shell'), ...start].join('\n')], {
        cwd: folder,
        env: { PATH: process.env.PATH ?? '', HOME: folder, BUN: process.execPath },
        stdout: 'pipe',
        stderr: 'ignore',
      });
      expect(await new Response(child.stdout).text()).toContain('You asked: “Hello!”');
    },
    timeoutMs,
  );

  test.each(['ai-sdk-openrouter', 'claude-code', 'ai-sdk-anthropic', 'codex', 'cline'])(
    'tries the gateway the way %s asks',
    async (name) => {
      const { exitCode, stdout, stderr } = await connect(name, ...here(), '--try');
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
      const [, id = ''] = /^request +(\S+)$/m.exec(stdout) ?? [];
      expect(stdout).toMatch(/^answer +Hello from the Tollgate demo! .+…$/m);
      const path = `/v1/customer/logs/${id}`;
      const { body } = await gateway.call('GET', path, { key: gateway.keys.api });
      const { cost } = fieldsOf(body.data);
      expect(Number(cost)).toBeGreaterThan(0);
      expect(stdout).toMatch(new RegExp(`^cost +${cost} credits$`, 'm'));
    },
    timeoutMs,
  );

  test(
    'tells why the gateway refused',
    async () => {
      const { exitCode, stderr } = await connect(
        ...['cline', '--url', `${gateway.url}/v1/`, '--key', 'sk-tg-none-such', '--try'],
      );
      const { error } = await gateway.chat({}, { key: 'sk-tg-none-such' });
      expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: `${error.message}\n` });
    },
    timeoutMs,
  );

  test(
    'takes no other server for a gateway',
    async () => {
      const fetch = () => new Response('<h1>Hello</h1>');
      await using page = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch });
      const url = `http://127.0.0.1:${page.port}`;
      const { exitCode, stderr } = await connect(
        ...['curl', '--url', url, '--key', gateway.keys.api, '--try'],
      );
      expect([exitCode, stderr]).toEqual([
        1,
        `The server at ${url} isn't a Tollgate gateway. Check --url.\n`,
      ]);
    },
    timeoutMs,
  );

  test.each([
    [['roo'], 'There is no client "roo"; did you mean roo-code?'],
    [['nobody'], 'There is no client "nobody"; run "tollgate connect" to list all.'],
    [['curl', '--try'], '--try needs a key: --key sk-tg-….'],
    [['curl', '--try', '--key', 'sk-tg-…'], '--try needs a key: --key sk-tg-….'],
    [['curl', '--key', 'sk-mgmt-a'], '--key must be a routing key, which starts with sk-tg-.'],
    [['curl', '--model', 'demo/chet'], 'There is no model "demo/chet"; did you mean "demo/chat"?'],
    [
      ['curl', '--url', 'gw'],
      '--url must be an address such as https://gateway.example.com, not "gw".',
    ],
  ])(
    '%j is refused in one sentence',
    async (words, sentence) => {
      expect(await connect(...words)).toMatchObject({
        exitCode: 1,
        stdout: '',
        stderr: `${sentence}\n`,
      });
    },
    timeoutMs,
  );
});
