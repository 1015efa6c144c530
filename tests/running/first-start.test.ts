/** The first start without any settings, and later starts. */
import { expect, test } from 'bun:test';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isObject, parseJson } from '../../src/core/json.ts';
import { type Gateway, newFolder, run, startGateway } from '../support/gateway.ts';
import { waitUntil, within } from '../support/wait-until.ts';

const startMs = 120_000;

/** Returns the curl command that the gateway printed. */
function printedCurl(gateway: Gateway): string {
  const [, command = ''] = gateway.output().split('Try it:\n');
  return command.trim();
}

/** Runs the command and returns its output. Uses fetch if curl isn't installed. */
async function runCurl(command: string): Promise<string> {
  if (Bun.which('curl')) {
    const shell = Bun.spawn(['sh', '-c', command], { stdout: 'pipe', stderr: 'ignore' });
    const text = await new Response(shell.stdout).text();
    expect(await shell.exited).toBe(0);
    return text;
  }
  const [url = ''] = /http\S+/.exec(command) ?? [];
  const [, key = ''] = /Bearer (\$\(.*\))"/.exec(command) ?? [];
  const authorization = `Bearer ${shell(`printf %s "${key}"`).output}`;
  const body = /-d '(.+)'$/m.exec(command)?.[1];
  const headers = { authorization, 'content-type': 'application/json' };
  const response = await fetch(url, body ? { method: 'POST', headers, body } : { headers });
  return response.text();
}

/** The command that starts this program in any folder. */
const program = `"${process.execPath}" "${new URL('../../src/main.ts', import.meta.url).pathname}"`;

function shell(line: string, variables: Readonly<Record<string, string>> = {}) {
  const env = { PATH: process.env.PATH ?? '', ...variables };
  const { exitCode, stdout, stderr } = Bun.spawnSync(['sh', '-c', line], { env, cwd: '/' });
  return { exitCode, output: `${stdout}${stderr}` };
}

const idsOf = (list: unknown) =>
  isObject(list) && Array.isArray(list.data) ? list.data.map(({ id }) => id).sort() : [];

function contentOf(text: string): unknown {
  const body = parseJson(text);
  const choices = isObject(body) && Array.isArray(body.choices) ? body.choices : [];
  const [first] = choices.filter(isObject);
  return isObject(first?.message) ? first.message.content : undefined;
}

test(
  'a first start with only embedding models prints a curl command that lists them',
  async () => {
    await using gateway = await startGateway({ env: { COHERE_API_KEY: 'sk-example' } });
    const command = printedCurl(gateway);
    expect(command).toStartWith(`curl ${gateway.url}/v1/models`);
    expect(await runCurl(command)).toContain('"id":"cohere/embed-v4.0"');
  },
  startMs,
);

test(
  'a first start without a terminal saves 3 secrets and prints a curl command that works',
  async () => {
    await using gateway = await startGateway({ dataDir: join(newFolder(), "it's here") });
    expect(gateway.output() + gateway.errors()).not.toMatch(/sk-(tg|mgmt|admin)-[0-9a-z]/);
    const file = join(gateway.dataDir, 'first-start-secrets.txt');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const { api, management, admin } = gateway.keys;
    expect(api).toMatch(/^sk-tg-[0-9a-z]{16}-[0-9a-z]{40}$/);
    expect(management).toMatch(/^sk-mgmt-[0-9a-z]{16}-[0-9a-z]{40}$/);
    expect(admin).toMatch(/^sk-admin-[0-9a-z]{48}$/);

    const command = printedCurl(gateway);
    expect(command).toStartWith(`curl ${gateway.url}/v1/chat/completions`);
    const answer = await runCurl(command);
    expect(contentOf(answer)).toContain('Hello!');

    expect((await gateway.manage('GET', '/api/v1/keys')).status).toBe(200);
    expect((await gateway.admin('GET', '/admin/v1/overview')).status).toBe(200);
    // Only requests are logged.
    const lines = gateway
      .errors()
      .split('\n')
      .filter((line) => line !== '');
    expect(lines.filter((line) => !line.includes('"event":"request"'))).toEqual([]);
  },
  startMs,
);

test(
  'a first start in a terminal shows the secrets and saves no file',
  async () => {
    const folder = newFolder();
    let shown = '';
    const child = Bun.spawn(['sh', '-c', `exec ${program} serve --port 0`], {
      cwd: folder,
      env: { PATH: process.env.PATH ?? '' },
      terminal: {
        data(_, bytes) {
          shown += new TextDecoder().decode(bytes);
        },
      },
    });
    await waitUntil(() => shown.includes('Try it:'));
    child.kill('SIGTERM');
    expect(await within(child.exited, 'the gateway to exit', 60_000)).toBe(0);
    expect(shown).toMatch(
      / Routing key +sk-tg-\S+\s+Management key +sk-mgmt-\S+\s+Admin token +sk-/,
    );
    expect(existsSync(join(folder, 'data/first-start-secrets.txt'))).toBe(false);
  },
  startMs,
);

test(
  'startup with public_url prints the local and the public address',
  async () => {
    const public_url = 'https://llm.example.com';
    await using gateway = await startGateway({ config: { server: { public_url } } });
    expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
    expect(gateway.output()).toContain(`\nPublic URL: ${public_url}\n`);
    expect(gateway.output()).toContain(`\nDashboard: ${public_url}/dashboard\n`);
    expect(printedCurl(gateway)).toStartWith(`curl ${public_url}/v1/`);
  },
  startMs,
);

test(
  'startup on 0.0.0.0 prints a loopback address for browsers',
  async () => {
    await using gateway = await startGateway({ config: { server: { host: '0.0.0.0' } } });
    const [, port] = / is ready at http:\/\/0\.0\.0\.0:(\d+)\n/.exec(gateway.output()) ?? [];
    expect(gateway.output()).toContain(`\nDashboard: http://127.0.0.1:${port}/dashboard\n`);
    expect(gateway.output()).not.toContain('Public URL');
    expect(printedCurl(gateway)).toStartWith(`curl http://127.0.0.1:${port}/v1/`);
  },
  startMs,
);

test(
  'a second start prints no secrets, and keys and credits stay the same',
  async () => {
    const first = await startGateway();
    const credits = await first.balance();
    expect(credits).toBe(10_000_000);
    const grant = { amount: 2_345, note: 'a gift' };
    await first.admin('POST', '/admin/v1/tenants/default/credits', grant);
    const before = await first.manage('GET', '/api/v1/keys');
    expect(await first.stop()).toBe(0);

    await using second = await first.another();
    expect(second.output()).not.toContain('sk-');
    expect(second.output()).toContain('keys create');
    expect(await second.balance()).toBe(credits + 2_345);
    const after = await second.manage('GET', '/api/v1/keys');
    const ids = (data: unknown) => (Array.isArray(data) ? data : []).map((key) => key.id);
    expect(ids(after.body.data)).toEqual(ids(before.body.data));
    expect(ids(after.body.data)).toHaveLength(2);
    const messages = [{ role: 'user', content: 'Still here?' }];
    expect((await second.chat({ model: 'demo/chat', messages })).status).toBe(200);
  },
  startMs,
);

test(
  'the printed command for creating keys uses the same data in any folder',
  async () => {
    const dataDir = join(newFolder(), "it's here");
    const env = { TOLLGATE_BOOTSTRAP_API_KEY: `sk-tg-${'a'.repeat(32)}` };
    await using gateway = await startGateway({ dataDir, env });
    const [, printed = ''] = gateway.output().split('Create a key: npm run tollgate -- ');
    const { exitCode, output } = shell(`${program} ${printed}`);
    expect(exitCode).toBe(0);
    const [key = ''] = /sk-tg-\S+/.exec(output) ?? [];
    expect((await gateway.call('GET', '/v1/models', { key })).status).toBe(200);
  },
  startMs,
);

test(
  'tollgate models lists the same models as the gateway, including the demo',
  async () => {
    await using gateway = await startGateway();
    const { body } = await gateway.call('GET', '/v1/models', { key: gateway.keys.api });
    const { stdout } = await gateway.command('models', '--json');
    expect(idsOf(parseJson(stdout))).toEqual(idsOf(body));
    expect(idsOf(body)).toContain('demo/chat');
  },
  startMs,
);

test(
  'a command fails if its output cannot be written, but not if the reader closes the pipe',
  async () => {
    await using gateway = await startGateway();
    const env = { TOLLGATE_DATA_DIR: gateway.dataDir };
    for (const command of ['models --all', 'ledger statement']) {
      const full = shell(`${program} ${command} > /dev/full`, env);
      expect(full.exitCode).toBe(1);
      expect(full.output).toMatch(/^ENOSPC: no space left on device[^\n]*\n$/);
      expect(shell(`${program} ${command} | :; exit 0`, env).output).toBe('');
    }
  },
  startMs,
);

test(
  'keys and credits from the environment are used and never printed',
  async () => {
    const env = {
      TOLLGATE_BOOTSTRAP_API_KEY: `sk-tg-${'a'.repeat(32)}`,
      TOLLGATE_BOOTSTRAP_MANAGEMENT_KEY: `sk-mgmt-${'b'.repeat(32)}`,
      TOLLGATE_ADMIN_TOKEN: `sk-admin-${'c'.repeat(32)}`,
      TOLLGATE_BOOTSTRAP_CREDITS: '77',
    };
    const first = await startGateway({ env });
    expect(first.output() + first.errors()).not.toContain('sk-');
    expect(await first.balance()).toBe(77);
    expect((await first.call('GET', '/v1/models', { key: first.keys.api })).status).toBe(200);
    await first.stop();

    // Only the first start grants credits.
    const changed = { ...env, TOLLGATE_BOOTSTRAP_CREDITS: '99' };
    await using second = await first.another({ env: changed });
    expect(await second.balance()).toBe(77);
    expect((await second.manage('GET', '/api/v1/keys')).body.data).toHaveLength(2);
  },
  startMs,
);

test(
  'the data directory is not accessible to other users',
  async () => {
    await using gateway = await startGateway();
    expect(statSync(gateway.dataDir).mode & 0o077).toBe(0);
  },
  startMs,
);

test('startup reads the tollgate.yaml of the current folder', async () => {
  const { exitCode, stderr } = await run(['serve'], { config: { demos: true } });
  expect(exitCode).toBe(2);
  expect(stderr).toBe('tollgate.yaml: demos is not a known field; did you mean "demo"?\n');
});

test(
  'a request for a demo model that is off gets the reason and available models',
  async () => {
    const model = (id: string, feature?: string) => ({
      ...{ id, name: id, input_modalities: ['text'], output_modalities: ['text'] },
      ...(feature && { features: [feature] }),
      endpoints: [{ provider: 'mine', model: 'any', pricing: { prompt: '1', completion: '1' } }],
    });
    const provider = { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1', api_key: null };
    const ids = ['acme/one', 'acme/two', 'acme/three', 'acme/four', 'demo/speech'];
    await using gateway = await startGateway({
      config: {
        catalogue: 'none',
        providers: { mine: provider },
        models: [model('acme/embed', 'embeddings'), ...ids.map((id) => model(id))],
      },
    });
    const rejection = async (id: string) => {
      const messages = [{ role: 'user', content: 'Hello!' }];
      const { status, body } = await gateway.chat({ model: id, messages });
      return { status, message: isObject(body.error) ? body.error.message : undefined };
    };
    const off = 'is off because a provider is configured; set demo: true to keep it';
    expect(await rejection('demo/chat')).toEqual({
      status: 404,
      message: `The model "demo/chat" ${off}; use "acme/one" or "acme/two" or "acme/three".`,
    });
    expect((await rejection('demo/embed')).message).toBe(
      `The model "demo/embed" ${off}; use "acme/embed".`,
    );
    expect((await rejection('demo/image')).message).toBe(
      `The model "demo/image" ${off}; GET /v1/models lists the available models.`,
    );
    const key = gateway.keys.api;
    const shown = await gateway.call('GET', '/v1/models/demo/embed', { key });
    expect(shown.status).toBe(404);
    expect(isObject(shown.body.error) && shown.body.error.message).toBe(
      `The model "demo/embed" ${off}; use "acme/embed".`,
    );
    // The configuration has a model with the name of this demo model.
    expect((await rejection('demo/speech')).status).toBe(502);

    const { body } = await gateway.call('GET', '/v1/models', { key });
    expect(idsOf(body)).toEqual(['acme/embed', ...ids].toSorted());
  },
  startMs,
);
