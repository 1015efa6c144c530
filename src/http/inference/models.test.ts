import { expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import { modelAt, providerNamed } from '../../../tests/support/offers.ts';
import type { ModelObject } from '../../contract/models.ts';
import type { Caller, Credential } from '../../core/caller.ts';
import { GatewayError } from '../../core/errors.ts';
import { Secret } from '../../core/secret.ts';
import { type CallableModels, Catalog, withProviderKeys } from '../../route/catalog.ts';
import { Health } from '../../route/health.ts';
import { Exchange } from '../routes.ts';
import { modelRoutes } from './models.ts';

const models = [
  modelAt('acme/a', [{ provider: 'north' }]),
  modelAt('acme/b', [{ provider: 'north' }]),
  modelAt('acme/own', [{ provider: 'closed' }]),
];
const providers = [providerNamed('north'), providerNamed('closed', { shared: false })];
const catalog = new Catalog(models, new Map(providers.map((one) => [one.name, one])));

/** Returns the routes' list of models for a caller, as text. */
function listFrom(catalogOf: () => CallableModels, described: string[] = []) {
  const [listRoute] = modelRoutes({
    catalogOf,
    health: new Health(),
    supportedParameters: ({ id }) => {
      described.push(id);
      return [];
    },
    unknownModel: () => new GatewayError('internal_error', 'Not called.'),
  });
  return async (caller: Caller) => {
    if (listRoute?.access !== 'either') throw new Error('The first route is not the list.');
    const response = await listRoute.handle(
      new Exchange(new Request('http://gateway/v1/models')),
      caller,
    );
    return (await response.json()) as { data: readonly ModelObject[] };
  };
}

test('the model list is built once per catalog and allow-list', async () => {
  let credentials: readonly Credential[] = [];
  const tenantCatalog = withProviderKeys(catalog, 500);
  const described: string[] = [];
  const read = listFrom(() => tenantCatalog(credentials), described);
  const list = async (caller: Caller) => {
    const { data } = await read(caller);
    return [data.map(({ id }) => id), described.splice(0)];
  };
  const all = ['acme/a', 'acme/b'];
  expect(await list(callerOf('t'))).toEqual([all, all]);
  expect(await list(callerOf('t', { keyId: 'another' }))).toEqual([all, []]);
  const limited = callerOf('t', { models: ['acme/b'] });
  expect(await list(limited)).toEqual([['acme/b'], ['acme/b']]);
  expect(await list(limited)).toEqual([['acme/b'], []]);
  const apiKey = new Secret('own');
  const own = { provider: 'closed', apiKey, baseUrl: null, mode: 'byok_first' } as const;
  credentials = [{ ...own, credentialVersion: '1' }];
  expect(await list(callerOf('t'))).toEqual([
    [...all, 'acme/own'],
    [...all, 'acme/own'],
  ]);
  expect(await list(callerOf('t'))).toEqual([[...all, 'acme/own'], []]);
});

test('the model list shows each tenant the model that an alias stands for', async () => {
  const small = { ...modelAt('acme/small', [{ provider: 'north' }]), context_length: 1_000 };
  const large = { ...modelAt('acme/large', [{ provider: 'north' }]), context_length: 9_000 };
  const targets = [
    { model: 'acme/small', when: { tenants: ['one'] } },
    { model: 'acme/large', when: { tenants: ['two'] } },
  ];
  const named = new Map([['north', providerNamed('north')]]);
  const aliases = [{ name: 'fast', description: '', targets }];
  const withAlias = new Catalog([small, large], named, 'first', aliases);
  const list = listFrom(() => withAlias);
  const lengthFor = async (tenant: string) => {
    const { data } = await list(callerOf(tenant));
    return data.find(({ id }) => id === 'fast')?.context_length;
  };
  expect([await lengthFor('one'), await lengthFor('two')]).toEqual([1_000, 9_000]);
});
