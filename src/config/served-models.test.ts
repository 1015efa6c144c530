import { describe, expect, test } from 'bun:test';
import { everySection, loadConfig } from './load.ts';

const model = (id: string) => ({
  ...{ id, name: id, input_modalities: ['text'], output_modalities: ['text'] },
  endpoints: [{ provider: 'own', model: 'x', pricing: { prompt: '1', completion: '1' } }],
});

function load(serves: readonly object[], data: object = {}) {
  const server = { dialect: 'openai', base_url: 'http://127.0.0.1:1/v1', api_key: null };
  const providers = { own: server, proxy: { ...server, serves } };
  return loadConfig({}, {}, everySection, { source: 'file', data: { providers, ...data } });
}

/** Returns the endpoint at the proxy of a model. */
function endpointOf(id: string, ...args: Parameters<typeof load>) {
  const found = load(...args).models.find((one) => one.id === id);
  return found?.endpoints.find(({ provider }) => provider === 'proxy');
}

describe('serves', () => {
  const openai = { match: 'openai/*', model: 'vendor--*' };
  const gpt = { match: 'openai/gpt-5*', model: 'gpt-five*' };
  const exact = { match: 'openai/gpt-5-mini', model: 'mini', priority: 3 };

  test.each([
    [[openai, gpt, exact], 'openai/gpt-5-mini', 'mini'],
    [[exact, openai, gpt], 'openai/gpt-5.4-mini', 'gpt-five.4-mini'],
    [[gpt, openai], 'openai/text-embedding-3-small', 'vendor--text-embedding-3-small'],
    [[{ match: 'openai/*' }], 'openai/gpt-5-mini', 'gpt-5-mini'],
    [[gpt], 'openai/text-embedding-3-small', undefined],
    [[gpt], 'openai/gpt-5-unknown', undefined],
  ])('%j serves %s as %s', (serves, id, name) => {
    expect(endpointOf(id, serves)?.model).toBe(name);
  });

  test("has the catalog's price and its source", () => {
    const served = load([exact]).models.find(({ id }) => id === 'openai/gpt-5-mini')?.endpoints;
    const [vendor] = served?.filter(({ provider }) => provider === 'openai') ?? [];
    const added = served?.find(({ provider }) => provider === 'proxy');
    expect(vendor?.pricing.prompt).toBeDefined();
    expect(added).toMatchObject({ pricing: vendor?.pricing ?? {}, priority: 3 });
    expect(added?.price_source?.name).toBeString();
  });

  test('leaves a model of the file as it is', () => {
    const models = [model('openai/gpt-5-mini')];
    expect(endpointOf('openai/gpt-5-mini', [openai], { models })).toBeUndefined();
  });

  test.each([
    [{ match: 'opnai/*' }, 'match is "opnai/*", but the catalog has no such model; add the model'],
    [{ match: 'openai/gpt-5-mimi' }, 'did you mean "openai/gpt-5-mini"?'],
    [{ match: 'openai/*-mini' }, 'match must be the ID of a model, or its start and'],
    [{ match: '*' }, 'match must be the ID of a model, or its start and'],
    [{ match: '(a+)+$*' }, 'match is "(a+)+$*", but the catalog has no such model'],
    [{ match: 'openai/gpt-5-mini', model: 'a*' }, 'model can only have "*" if match ends in "*"'],
    [{ match: 'openai/*', model: '*/*' }, 'model must be a name with at most one "*"'],
  ])('%j is rejected', (served, message) => {
    expect(() => load([served])).toThrow(message);
  });

  test('has no model without a catalog', () => {
    expect(() => load([openai], { catalogue: 'none', models: [model('acme/a')] })).toThrow(
      'providers.proxy.serves[0].match is "openai/*", but the catalog has no such model',
    );
  });
});
