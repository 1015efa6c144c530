import { describe, expect, test } from 'bun:test';
import type { Config } from '../config/config.ts';
import { everySection, loadConfig } from '../config/load.ts';
import { Secret } from '../core/secret.ts';
import { createLog } from '../telemetry/log.ts';
import type { ConfigSnapshot, ConfigStore, StoredObject } from './config-store.ts';
import { LiveConfig } from './live-config.ts';

const secrets = [new Secret('a secret key of at least 32 characters')] as const;
const provider = { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1', api_key: null };

function fileWith(...providers: readonly string[]): Config {
  const section = Object.fromEntries(providers.map((name) => [name, provider]));
  const data = { catalogue: 'none', demo: false, providers: section };
  return loadConfig({}, {}, everySection, { source: 'tollgate.yaml', data });
}

function stored(kind: string, name: string, document: Record<string, unknown>): StoredObject {
  const times = { createdAt: 0, createdBy: 'admin', updatedAt: 0, updatedBy: 'admin' };
  return { kind, name, document, sealed: null, version: 1, ...times };
}

const model = (id: string, servedBy: string) =>
  stored('model', id, {
    ...{ id, name: id, input_modalities: ['text'], output_modalities: ['text'] },
    endpoints: [{ provider: servedBy, model: 'a', pricing: { prompt: '1', completion: '1' } }],
  });

/** A store whose objects a test sets. */
class FakeStore implements ConfigStore {
  snapshot: ConfigSnapshot = { version: 0, objects: [] };
  isReachable = true;
  async version(): Promise<number> {
    return this.snapshot.version;
  }
  async read(): Promise<ConfigSnapshot> {
    if (!this.isReachable) throw new Error('unreachable');
    return this.snapshot;
  }
  async change(): Promise<ConfigSnapshot> {
    return this.snapshot;
  }
  save(...objects: readonly StoredObject[]): void {
    this.snapshot = { version: this.snapshot.version + 1, objects };
  }
}

function open(store: ConfigStore, file: Config, logged: string[] = []): Promise<LiveConfig> {
  return LiveConfig.open(
    file,
    store,
    secrets,
    createLog((lines) => logged.push(lines)),
  );
}

const modelsOf = ({ current }: LiveConfig) => current.models.map(({ id }) => id);

describe('LiveConfig', () => {
  test('keeps the last valid configuration when the store has an invalid one', async () => {
    const store = new FakeStore();
    store.save(model('acme/a', 'here'));
    const logged: string[] = [];
    const live = await open(store, fileWith('here'), logged);
    const applied: Config[] = [];
    live.onChange((next) => applied.push(next));
    store.save(model('acme/a', 'here'), model('acme/b', 'elsewhere'));
    await live.check();
    expect([modelsOf(live), applied]).toEqual([['acme/a'], []]);
    expect(live.state).toEqual({
      version: 2,
      appliedVersion: 1,
      problems: [
        'the model "acme/b" in the store: endpoints[0].provider names "elsewhere", which is not a configured provider; add it as providers.elsewhere',
      ],
    });
    expect(logged.join('')).toContain('config_rejected');
    store.save(model('acme/c', 'here'));
    await live.check();
    expect([modelsOf(live), applied.length]).toEqual([['acme/c'], 1]);
    expect(live.state).toEqual({ version: 3, appliedVersion: 3, problems: [] });
  });

  test('applies each version once, and none that is older than the one in use', async () => {
    const store = new FakeStore();
    const live = await open(store, fileWith('here'));
    const applied: Config[] = [];
    live.onChange((next) => applied.push(next));
    const older = { version: 1, objects: [model('acme/a', 'here')] };
    store.snapshot = { version: 2, objects: [model('acme/b', 'here')] };
    await live.check();
    await live.check();
    // A read that began earlier may end later.
    store.snapshot = older;
    await live.check();
    expect([modelsOf(live), applied.length]).toEqual([['acme/b'], 1]);
  });

  test('leaves out objects that do not fit the file at startup', async () => {
    const store = new FakeStore();
    store.save(model('acme/a', 'here'), model('acme/b', 'elsewhere'));
    const logged: string[] = [];
    const live = await open(store, fileWith('here'), logged);
    expect(modelsOf(live)).toEqual(['acme/a']);
    expect(live.state.problems).toHaveLength(1);
    expect(logged.join('')).toContain('config_object_ignored');
  });

  test('applies changes and files while an object left out at startup is still invalid', async () => {
    const store = new FakeStore();
    store.save(model('acme/a', 'here'), model('acme/b', 'elsewhere'));
    const live = await open(store, fileWith('here'));
    store.save(model('acme/b', 'elsewhere'), model('acme/c', 'here'));
    await live.check();
    expect(modelsOf(live)).toEqual(['acme/c']);
    expect(live.state).toMatchObject({ version: 2, appliedVersion: 2 });
    expect(live.state.problems).toHaveLength(1);
    expect(live.rebase(fileWith('here', 'more')).providers.size).toBe(2);
    store.save(model('acme/b', 'nowhere'), model('acme/d', 'here'));
    await live.check();
    expect([modelsOf(live), live.state.appliedVersion]).toEqual([['acme/c'], 2]);
    store.save(model('acme/b', 'here'));
    await live.check();
    expect([modelsOf(live), live.state.problems]).toEqual([['acme/b'], []]);
  });

  test('rejects a file that lacks a provider of a stored model', async () => {
    const store = new FakeStore();
    store.save(model('acme/a', 'here'));
    const live = await open(store, fileWith('here', 'other'));
    expect(() => live.rebase(fileWith('other'))).toThrow('names "here"');
    expect([modelsOf(live), live.current.providers.size]).toEqual([['acme/a'], 2]);
    expect(live.rebase(fileWith('here')).providers.size).toBe(1);
  });

  test('uses the file instead of a stored object of the same name', async () => {
    const store = new FakeStore();
    store.save(stored('provider', 'here', { ...provider, timeout_ms: 5 }));
    const live = await open(store, fileWith('here'));
    expect(live.current.providers.get('here')?.timeoutMs).toBe(120_000);
  });

  test('reads the store again after a failure', async () => {
    const store = new FakeStore();
    const live = await open(store, fileWith('here'));
    store.save(model('acme/a', 'here'));
    store.isReachable = false;
    await expect(live.check()).rejects.toThrow('unreachable');
    store.isReachable = true;
    const [task] = live.periodicTasks();
    await task?.run();
    expect(modelsOf(live)).toEqual(['acme/a']);
  });
});
