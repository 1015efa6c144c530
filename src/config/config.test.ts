import { expect, test } from 'bun:test';
import { modelAt, providerNamed } from '../../tests/support/offers.ts';
import { listedModels } from './config.ts';

test('listedModels lists callable endpoints for live models and keyless endpoints for others', () => {
  const providers = new Map([
    ['ours', providerNamed('ours')],
    ['theirs', providerNamed('theirs', { shared: false })],
  ]);
  const models = [
    modelAt('acme/live', [{ provider: 'theirs' }, { provider: 'ours' }]),
    modelAt('acme/asleep', [{ provider: 'theirs' }]),
  ];
  const listed = listedModels({ models, providers });
  expect(
    listed.map(({ isLive, endpoints }) => [isLive, endpoints.map((at) => at.provider)]),
  ).toEqual([
    [true, ['ours']],
    [false, ['theirs']],
  ]);
});
