import { expect, test } from 'bun:test';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
import { listedModels } from './config.ts';

test('listedModels lists callable endpoints for configured models and keyless endpoints for others', () => {
  const providers = new Map([
    ['ours', providerNamed('ours')],
    ['theirs', providerNamed('theirs', { shared: false })],
  ]);
  const models = [
    modelAt('acme/configured', [{ provider: 'theirs' }, { provider: 'ours' }]),
    modelAt('acme/keyless', [{ provider: 'theirs' }]),
  ];
  const listed = listedModels({ models, providers });
  expect(
    listed.map(({ isConfigured, endpoints }) => [isConfigured, endpoints.map((at) => at.provider)]),
  ).toEqual([
    [true, ['ours']],
    [false, ['theirs']],
  ]);
});
