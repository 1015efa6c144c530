import { beforeEach, describe, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { everySection, loadConfig } from '../config/load.ts';
import { Secret } from '../core/secret.ts';
import { deleteObject, patchObject, putObject } from './config-service.ts';
import type { AuditedChange, ConfigChanges, ConfigSnapshot, ConfigStore } from './config-store.ts';
import { importConfig } from './config-transfer.ts';
import { ConfigVault } from './config-vault.ts';

// Changes of what has prices in effect, and of these prices.

class MemoryStore implements ConfigStore {
  snapshot: ConfigSnapshot = { version: 0, objects: [] };
  audited: AuditedChange[] = [];
  async version() {
    return this.snapshot.version;
  }
  async read() {
    return this.snapshot;
  }
  async change(
    _: number,
    ownKey: string,
    plan: (current: ConfigSnapshot, sealingKey: string) => ConfigChanges,
  ) {
    const { saved, removed, audited } = plan(this.snapshot, ownKey);
    const version = this.snapshot.version + 1;
    const times = { createdAt: 0, createdBy: '', updatedAt: 0, updatedBy: '' };
    const gone = [...saved, ...removed];
    const kept = this.snapshot.objects.filter(
      (one) => !gone.some(({ kind, name }) => kind === one.kind && name === one.name),
    );
    const objects = [...kept, ...saved.map((object) => ({ ...object, ...times, version }))];
    this.snapshot = { version, objects };
    this.audited.push(...audited);
    return this.snapshot;
  }
  get names() {
    return this.snapshot.objects.map(({ name }) => name).sort();
  }
}

const providers = Object.fromEntries(
  ['north', 'south'].map((name) => [
    name,
    { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1', api_key: null },
  ]),
);
const configWith = (models: readonly object[]) => {
  const data = { catalogue: 'none', demo: false, providers, models };
  return loadConfig({}, {}, everySection, { source: 'tollgate.yaml', data });
};
const pricing = { prompt: '1', completion: '1' };
const at = (provider: string) => ({ provider, model: 'a', pricing });
const model = (...endpoints: readonly object[]) => ({
  ...{ name: 'A', input_modalities: ['text'], output_modalities: ['text'] },
  endpoints,
});
const modelId = { kind: 'model', name: 'acme/a' } as const;
const start = Date.UTC(2030, 0, 1);
const priceId = { kind: 'price', name: 'acme/a@north@2030-01-01T00:00:00Z' } as const;
const laterId = { kind: 'price', name: 'acme/a@north@2040-01-01T00:00:00Z' } as const;

let store: MemoryStore;
let now: number;
let base = configWith([]);
const vault = new ConfigVault([new Secret('a secret key of at least 32 characters')]);
const deps = () => ({ store, vault: () => vault, base: () => base, now: () => now, changed });
const changed = async () => undefined;
beforeEach(async () => {
  store = new MemoryStore();
  base = configWith([]);
  now = start - 60_000;
  await putObject(deps(), modelId, model(at('north'), at('south')));
  await putObject(deps(), priceId, { pricing });
});

describe('a price in effect', () => {
  beforeEach(() => {
    now = start;
  });

  test('is deleted together with its model', async () => {
    await deleteObject(deps(), modelId);
    expect(store.names).toEqual([]);
    expect(store.audited.slice(-2)).toMatchObject([
      { action: 'model.delete', target: modelId.name, after: null },
      { action: 'price.delete', target: priceId.name, before: { pricing }, after: null },
    ]);
  });

  test('is deleted with its provider of the model', async () => {
    await patchObject(deps(), modelId, { endpoints: [at('south')] });
    expect(store.names).toEqual(['acme/a']);
    expect(store.audited.at(-1)).toMatchObject({ action: 'price.delete', target: priceId.name });
  });

  test('keeps its model from being deleted while another one is scheduled', async () => {
    await putObject(deps(), laterId, { pricing });
    const { message } = await failureOf(deleteObject(deps(), modelId));
    expect(message).toBe(
      `The model "acme/a" is used by price "${laterId.name}". Change or delete what uses it first.`,
    );
    expect(store.names).toHaveLength(3);
  });

  test('can be deleted when its model was removed from the file', async () => {
    await deleteObject(deps(), modelId);
    base = configWith([{ id: modelId.name, ...model(at('north')) }]);
    now = start - 60_000;
    await putObject(deps(), priceId, { pricing });
    now = start;
    await expect(deleteObject(deps(), priceId)).rejects.toThrow('has taken effect');
    base = configWith([]);
    await deleteObject(deps(), priceId);
    expect(store.names).toEqual([]);
  });

  test('is neither changed nor deleted by an import', async () => {
    const options = { replace: true, dryRun: false, variables: {} };
    const models = [{ id: modelId.name, ...model(at('north')) }];
    const price = { model: 'acme/a', provider: 'north', from: '2030-01-01T00:00:00Z' };
    const dearer = [{ ...price, pricing: { prompt: '9', completion: '9' } }];
    for (const prices of [dearer, []]) {
      const failure = await failureOf(importConfig(deps(), { models, prices }, options));
      expect(failure).toMatchObject({ status: 409 });
      expect(failure.message).toContain(`"${priceId.name}" has taken effect`);
    }
    await importConfig(deps(), { models, prices: [{ ...price, pricing }] }, options);
    expect(store.names).toEqual([modelId.name, priceId.name]);
    await importConfig(deps(), {}, options);
    expect(store.names).toEqual([]);
  });
});

test('a price that starts before all processes have read a change is not changed', async () => {
  now = start - 1_999;
  const change = { pricing: { prompt: '2' } };
  await expect(patchObject(deps(), priceId, change)).rejects.toThrow('is about to take effect');
  await expect(deleteObject(deps(), priceId)).rejects.toThrow('is about to take effect');
  now = start - 2_000;
  await patchObject(deps(), priceId, change);
  expect(store.snapshot.objects.at(-1)?.document).toMatchObject(change);
});
