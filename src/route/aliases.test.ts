import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import type { AliasTarget } from '../config/alias-schema.ts';
import { Aliases, type AliasRequest } from './aliases.ts';
import { aliasRequestOf } from './requested-models.ts';

const acme = callerOf('acme');
const plain: AliasRequest = {
  ...{ caller: acme, hasImages: false, hasTools: false, inputTokens: 0 },
  header: () => null,
  random: () => 0,
};

const modelsFor = (targets: readonly AliasTarget[], request: Partial<AliasRequest> = {}) =>
  new Aliases([{ name: 'fast', description: '', targets }]).modelsFor('fast', {
    ...plain,
    ...request,
  });

describe('Aliases.modelsFor', () => {
  test('returns the models in their order, each once', () => {
    const targets = ['acme/a', 'acme/b', 'acme/a'].map((model) => ({ model }));
    expect(modelsFor(targets)).toEqual(['acme/a', 'acme/b']);
  });

  const headerIs = (value: string) => ({ header: () => value });

  test.each<[string, AliasTarget['when'], Partial<AliasRequest>, Partial<AliasRequest>]>([
    ['tenants', { tenants: ['acme'] }, {}, { caller: callerOf('other') }],
    ['keys', { keys: ['key_test'] }, {}, { caller: callerOf('acme', { keyId: 'key_b' }) }],
    ['input_tokens_above', { input_tokens_above: 9 }, { inputTokens: 10 }, { inputTokens: 9 }],
    ['images', { images: true }, { hasImages: true }, {}],
    ['no images', { images: false }, {}, { hasImages: true }],
    ['tools', { tools: true }, { hasTools: true }, {}],
    ['header', { header: { name: 'x-team', value: 'a' } }, headerIs('a'), headerIs('b')],
    ['tag', { tag: 'beta' }, headerIs('alpha, beta'), headerIs('alphabeta')],
    ['percent', { percent: 30 }, { random: () => 0.29 }, { random: () => 0.3 }],
  ])('skips a model whose condition "%s" is not met', (_name, when, met, unmet) => {
    const targets = [{ model: 'acme/a', ...(when && { when }) }, { model: 'acme/b' }];
    expect(modelsFor(targets, met)).toEqual(['acme/a', 'acme/b']);
    expect(modelsFor(targets, unmet)).toEqual(['acme/b']);
  });

  test('returns undefined if no model is for the request, as for an unknown name', () => {
    expect(modelsFor([{ model: 'acme/a', when: { tenants: ['other'] } }])).toBeUndefined();
    expect(new Aliases().modelsFor('fast', plain)).toBeUndefined();
  });

  test('puts the chosen weighted model first and keeps the others as fallbacks', () => {
    const targets = [
      { model: 'acme/long', when: { input_tokens_above: 100 } },
      { model: 'acme/a', weight: 70 },
      { model: 'acme/b', weight: 30 },
      { model: 'acme/spare', weight: 0 },
      { model: 'acme/last' },
    ];
    const rest = ['acme/spare', 'acme/last'];
    expect(modelsFor(targets, { random: () => 0.69 })).toEqual(['acme/a', 'acme/b', ...rest]);
    expect(modelsFor(targets, { random: () => 0.7 })).toEqual(['acme/b', 'acme/a', ...rest]);
    expect(modelsFor(targets, { random: () => 0.99, inputTokens: 101 })).toEqual([
      ...['acme/long', 'acme/b', 'acme/a'],
      ...rest,
    ]);
  });
});

describe('aliasRequestOf', () => {
  const requestAt = (requestId: string, user: string | null = null, key: string | null = null) =>
    aliasRequestOf(
      { caller: acme, requestId, replayOptions: { idempotencyKey: key }, clientHeader: () => null },
      { user },
    );

  test('spreads requests in proportion to the weights', () => {
    const targets = [
      { model: 'acme/a', weight: 70 },
      { model: 'acme/b', weight: 30 },
    ];
    const first = Array.from(
      { length: 10_000 },
      (_, i) => modelsFor(targets, { random: requestAt(`request ${i}`).random })?.[0],
    );
    expect(first.filter((model) => model === 'acme/a').length).toBeWithin(6_800, 7_200);
  });

  test('gives one user, and the repetitions of one request, the same numbers', () => {
    const number = (...of: Parameters<typeof requestAt>) => requestAt(...of).random('weight');
    expect(number('1', 'ann')).toBe(number('2', 'ann'));
    expect(number('1', 'ann')).not.toBe(number('1', 'bob'));
    expect(number('1', null, 'order-1')).toBe(number('2', null, 'order-1'));
    expect(number('1')).not.toBe(number('2'));
  });

  test('counts 4 bytes as a token', () => {
    const call = { caller: acme, requestId: '', clientHeader: () => null };
    const replayOptions = { idempotencyKey: null };
    const request = { user: null, inputBytes: 401 };
    expect(aliasRequestOf({ ...call, replayOptions }, request).inputTokens).toBe(101);
  });
});
