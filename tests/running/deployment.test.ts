/**
 * The deployment artifacts: the executable runs in an empty folder, and the container files match
 * the documentation. The container files are only parsed, so no container engine is needed.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { firstStartSecrets } from '../support/gateway.ts';
import { within } from '../support/wait-until.ts';

const root = join(import.meta.dir, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

describe('the executable', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-executable-'));
  const program = join(folder, 'tollgate');
  let running: Bun.Subprocess<'ignore', 'pipe', 'ignore'>;
  let url = '';
  let key = '';

  beforeAll(async () => {
    const built = join(root, 'dist', `tollgate-test-${process.pid}`);
    const words = ['deploy/build.ts', '--outfile', built];
    const build = Bun.spawnSync([process.execPath, ...words], {
      cwd: root,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    expect(build.exitCode).toBe(0);
    await copyFile(built, program);
    rmSync(built);
    running = Bun.spawn([program, 'serve', '--port', '0'], {
      cwd: folder,
      env: { PATH: '' },
      stdout: 'pipe',
      stderr: 'ignore',
      stdin: 'ignore',
    });
    let banner = '';
    const decoder = new TextDecoder();
    for await (const bytes of running.stdout) {
      banner += decoder.decode(bytes);
      if (banner.includes('demo/chat')) break;
    }
    url = /ready at (http:\S+)/.exec(banner)?.[1] ?? '';
    key = /sk-tg-\S+/.exec(firstStartSecrets(banner))?.[0] ?? '';
  }, 120_000);

  afterAll(async () => {
    running?.kill('SIGTERM');
    expect(await running?.exited).toBe(0);
    rmSync(folder, { recursive: true });
  });

  const authorization = () => ({ authorization: `Bearer ${key}` });

  test('answers a chat, logs it, and serves the dashboard', async () => {
    const chat = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { ...authorization(), 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] }),
    });
    expect(chat.status).toBe(200);
    const logs = await fetch(`${url}/v1/customer/logs`, { headers: authorization() });
    expect(await logs.json()).toMatchObject({ pagination: { total: 1 } });
    const page = await (await fetch(`${url}/dashboard`)).text();
    const [script = ''] = /\/dashboard\/assets\/[\w.-]+\.js/.exec(page) ?? [];
    expect((await fetch(url + script)).status).toBe(200);
  });

  const runProgram = (...args: string[]) =>
    Bun.spawnSync([program, ...args], { cwd: folder, env: { PATH: '' }, timeout: 100_000 });

  test('ignores the bunfig.toml of the current folder', () => {
    const project = mkdtempSync(join(folder, 'project-'));
    writeFileSync(join(project, 'bunfig.toml'), 'preload = ["./theirs.ts"]');
    writeFileSync(join(project, 'theirs.ts'), 'console.log("theirs");');
    const { stdout } = Bun.spawnSync([program, '--version'], { cwd: project, env: { PATH: '' } });
    expect(stdout.toString()).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test('runs the commands health and ledger verify', () => {
    expect(runProgram('health', '--url', url).exitCode).toBe(0);
    expect(runProgram('health', '--url', 'http://127.0.0.1:1').exitCode).toBe(1);
    expect(runProgram('ledger', 'verify').exitCode).toBe(0);
  });

  test('ignores the .env of the current folder', async () => {
    const cwd = join(folder, 'with-env-file');
    await Bun.write(join(cwd, '.env'), 'MISTRAL_API_KEY=x\nBUN_BE_BUN=1\n');
    const env = { PATH: '' };
    const listed = Bun.spawnSync([program, 'models'], { cwd, env, timeout: 100_000 });
    expect(String(listed.stdout)).toContain('demo/chat');
    expect(String(listed.stdout)).not.toContain('mistral');
  });

  test('prints a command that creates keys without npm', async () => {
    const second = Bun.spawn([program, 'serve', '--port', '0'], {
      cwd: folder,
      env: { PATH: '' },
      stdout: 'pipe',
      stderr: 'ignore',
      stdin: 'ignore',
    });
    const { value } = await second.stdout.getReader().read();
    second.kill('SIGTERM');
    expect(new TextDecoder().decode(value)).toEndWith(
      '\nCreate a key: tollgate keys create --name "my app"\n',
    );
    expect(await within(second.exited, 'the second process to exit', 60_000)).toBe(0);
    expect(runProgram('keys', 'create', '--name', 'my app').exitCode).toBe(0);
  }, 120_000);
});

interface Container {
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}

describe('the container files', () => {
  test('run as an unprivileged user, with a health check and SIGTERM', () => {
    const lines = read('Dockerfile').split('\n');
    const [base = '', ...rest] = lines.slice(
      lines.findLastIndex((line) => line.startsWith('FROM')),
    );
    expect(base).toEndWith(':nonroot');
    for (const word of ['USER nonroot', 'HEALTHCHECK', 'STOPSIGNAL SIGTERM', 'VOLUME /data']) {
      expect(rest.some((line) => line.startsWith(word))).toBe(true);
    }
  });

  test('exclude local secrets and data from the build', () => {
    const ignored = read('.dockerignore').split('\n');
    for (const name of ['.env', 'tollgate.yaml', 'data', '.git']) expect(ignored).toContain(name);
  });

  test('set only variables that exist, and pass on the API key of every provider', () => {
    const known = new Set(
      [...read('docs/configuration.md').matchAll(/`([A-Z][A-Z0-9_]+)`/g)].map(([, name]) => name),
    );
    const compose = parse(read('compose.yaml')) as {
      services: { tollgate: { environment: object } };
    };
    for (const name of Object.keys(compose.services.tollgate.environment))
      expect(known).toContain(name);
    for (const [, name] of read('.env.example').matchAll(/^([A-Z0-9_]+)=/gm)) {
      expect(read('compose.yaml')).toContain(`\${${name}`);
    }
    for (const { api_key_env } of builtinCatalog.providers) {
      expect(compose.services.tollgate.environment).toHaveProperty(api_key_env);
      expect(read('.env.example')).toContain(`\n${api_key_env}=\n`);
    }
    for (const [, name] of read('Dockerfile').matchAll(/(?:^ENV| )([A-Z_]+)=/gm))
      expect(known).toContain(name);
  });

  test('publish ports only on loopback, because the gateway has no TLS', () => {
    const { services } = parse(read('compose.yaml')) as {
      services: Record<string, { ports?: string[] }>;
    };
    const ports = Object.values(services).flatMap((service) => service.ports ?? []);
    expect([...new Set(ports.map((port) => port.split(':')[0]))]).toEqual(['127.0.0.1']);
  });

  test('contain valid Kubernetes documents and reference existing files', () => {
    const documents = parseAllDocuments(read('deploy/kubernetes/tollgate.yaml'));
    expect(documents.flatMap((document) => ('errors' in document ? document.errors : []))).toEqual(
      [],
    );
    const kinds = documents.map((document) => (document.toJS() as { kind: string }).kind);
    expect(kinds).toEqual([
      'StatefulSet',
      'Service',
      'Service',
      'PodDisruptionBudget',
      'NetworkPolicy',
    ]);
    const { resources } = parse(read('deploy/kubernetes/kustomization.yaml')) as {
      resources: string[];
    };
    for (const file of resources)
      expect(existsSync(join(root, 'deploy/kubernetes', file))).toBe(true);
  });

  test('give pods no Kubernetes credentials, no metadata service, and no public admin port', () => {
    const documents = parseAllDocuments(read('deploy/kubernetes/tollgate.yaml'));
    const objects = documents.map((document) => document.toJS());
    const [statefulSet] = objects;
    const policy = objects.find(({ kind }) => kind === 'NetworkPolicy');
    const pod = statefulSet.spec.template;
    expect(pod.spec.automountServiceAccountToken).toBe(false);
    expect(policy.spec.podSelector.matchLabels).toEqual(pod.metadata.labels);
    const [anyone, ownNamespace] = policy.spec.ingress;
    expect(anyone).toEqual({ ports: [{ protocol: 'TCP', port: 8080 }] });
    expect(ownNamespace).toMatchObject({ from: [{ podSelector: {} }], ports: [{ port: 8081 }] });
    expect(pod.spec.containers[0].env).toContainEqual({ name: 'ADMIN_PORT', value: '8081' });
    const service = objects.find(({ kind }) => kind === 'Service');
    expect(service.spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
    expect(policy.spec.policyTypes).toEqual(['Ingress', 'Egress']);
    expect(JSON.stringify(policy.spec.egress)).toContain('"except":["169.254.0.0/16"');
  });

  test('set TOLLGATE_CONFIG to the mounted configuration in a pod', () => {
    const documents = parseAllDocuments(read('deploy/kubernetes/tollgate.yaml'));
    const [statefulSet] = documents.map((document) => document.toJS()) as [
      { spec: { template: { spec: { containers: [Container] } } } },
    ];
    const [{ env, volumeMounts }] = statefulSet.spec.template.spec.containers;
    const folder = volumeMounts.find(({ name }) => name === 'config')?.mountPath ?? '';
    const { configMapGenerator } = parse(read('deploy/kubernetes/kustomization.yaml')) as {
      configMapGenerator: [{ files: [string] }];
    };
    const [file = ''] = configMapGenerator[0].files[0].split('=');
    expect(env).toContainEqual({ name: 'TOLLGATE_CONFIG', value: join(folder, file) });
  });

  test('include a valid configuration', () => {
    const words = ['src/main.ts', 'models', '--config', 'deploy/kubernetes/config.yaml'];
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-config-'));
    const checked = Bun.spawnSync([process.execPath, ...words, '--data-dir', folder], {
      cwd: root,
      env: { PATH: '' },
    });
    rmSync(folder, { recursive: true });
    expect(checked.stderr.toString()).toBe('');
    expect(checked.exitCode).toBe(0);
  });
});
