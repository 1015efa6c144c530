/** Compares `tollgate connect` with docs/clients.md, and runs the commands that it prints. */
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

/** The values on the page. Its shell commands use two variables instead. */
const pageValues: SettingValues = {
  url: 'http://127.0.0.1:8080',
  container_url: 'http://host.docker.internal:8080',
  key: 'sk-tg-…',
  model: 'demo/chat',
  model_name: 'Demo Chat',
  context: '128000',
  output: '4096',
};
const shellValues: SettingValues = { ...pageValues, url: '$TOLLGATE_URL', key: '$TOLLGATE_KEY' };

const [quickStarts = ''] = page.split('\n## Tested versions\n');
const sections = new Map(
  quickStarts
    .split(/^### /m)
    .slice(1)
    .map((part) => [part.split('\n')[0] ?? '', part.split('\n## ')[0] ?? '']),
);

const oneLine = (text: string) => text.replace(/\s+/g, ' ').trim();

/** Returns the code blocks of a section with their languages, in order. */
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
    const values = step.kind === 'shell' ? shellValues : pageValues;
    return [{ language, block: fillPlaceholders(step.text, values) }];
  });
}

describe('clients of tollgate connect', () => {
  test('are the clients of docs/clients.md and have unique names', () => {
    expect(clients.map(({ title }) => title).toSorted()).toEqual([...sections.keys()].toSorted());
    expect(new Set(clients.map(({ name }) => name)).size).toBe(clients.length);
  });

  test.each([...clients])('have the same settings and note as the page: $name', (client) => {
    const text = sections.get(client.title) ?? '';
    expect(blocksOf(text)).toEqual(blocksIn(client));
    expect(client.steps.length).toBeGreaterThan(0);
    for (const step of client.steps) {
      if (step.kind === 'file') expect(text).toContain(`\`${step.file}\``);
      if (step.kind === 'click')
        expect(oneLine(text)).toContain(oneLine(fillPlaceholders(step.text, pageValues)));
    }
    const [, note = ''] = text.split('**Note:**');
    expect(oneLine(note)).toBe(oneLine(fillPlaceholders(client.note, pageValues)));
  });

  test.each([...clients])(
    'have the base URL and path in the table: $name',
    ({ title, speaks, base, appends }) => {
      const anchor = title.toLowerCase().replace(/[@/]/g, '').replace(/ /g, '-');
      const row = page
        .split('\n')
        .find((line) => line.startsWith('|') && line.includes(`(#${anchor})`));
      const [baseUrl, path] = row?.match(/`[^`]+`/g) ?? [];
      const pathEnds = {
        chat: '/chat/completions',
        messages: '/messages',
        responses: '/responses',
      };
      expect(appends).toEndWith(pathEnds[speaks]);
      expect([baseUrl, path]).toEqual([`\`${pageValues.url}${base}\``, `\`${appends}\``]);
    },
  );

  test.each([...clients])('have lines of at most 80 columns: $name', (client) => {
    const steps = client.steps.filter(({ kind }) => kind === 'click');
    const lines = settingsText({ ...client, steps }, pageValues).split('\n');
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });

  test('leave no placeholder unfilled', () => {
    const unfilled = clients.filter((client) => {
      const texts = [client.note, ...client.steps.map(({ text }) => text)];
      return texts.some((text) => /\{\{\w+\}\}/.test(fillPlaceholders(text, pageValues)));
    });
    expect(unfilled.map(({ name }) => name)).toEqual([]);
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

  const gatewayOptions = () => ['--url', gateway.url, '--key', gateway.keys.api];
  const connect = (...args: string[]) => gateway.command('connect', ...args);

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
    'prints the URL and how to create a key if no key is provided',
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
    'prints commands that work: %s',
    async (name) => {
      const { stdout } = await connect(name, ...gatewayOptions(), '--json');
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
    'sends a request like %s with --try',
    async (name) => {
      const { exitCode, stdout, stderr } = await connect(name, ...gatewayOptions(), '--try');
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
    'prints the error of the gateway',
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
    'recognizes a server that is not a gateway',
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
    [['curl', '--url', 'gw'], '--url must be a URL such as https://gateway.example.com, not "gw".'],
  ])(
    'rejects %j with "%s"',
    async (args, message) => {
      expect(await connect(...args)).toMatchObject({
        exitCode: 1,
        stdout: '',
        stderr: `${message}\n`,
      });
    },
    timeoutMs,
  );
});
