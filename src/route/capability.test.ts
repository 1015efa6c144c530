import { describe, expect, test } from 'bun:test';
import { chatRequestInfo, noNeeds } from '../../tests/support/prompts.ts';
import type { Model } from '../config/config.ts';
import type { SpeechSettings } from '../config/model-schema.ts';
import type { ChatRequestInfo, ModelNeeds } from '../core/request-info.ts';
import {
  chatIncompatibility,
  compatibleOffers,
  entitledOffers,
  imageIncompatibility,
  textLimitOf,
} from './capability.ts';

const shared = { provider: { baseUrl: 'https://vendor.test/v1' }, own: null };

const able: Model = {
  id: 'acme/all',
  name: 'All',
  input_modalities: ['text', 'image', 'audio', 'file'],
  output_modalities: ['text'],
  features: ['tools', 'json_mode', 'reasoning'],
  endpoints: [],
};

function request(
  needs: Partial<ModelNeeds> = {},
  images: ChatRequestInfo['images'] = [],
): ChatRequestInfo {
  return chatRequestInfo({ models: ['acme/all'], needs: { ...noNeeds, ...needs }, images });
}

describe('a model fits', () => {
  test('when it can do all that is needed', () => {
    const everything = { tools: true, json: true, images: true, audio: true, files: true };
    expect(chatIncompatibility(able, request(everything))).toBeNull();
    expect(chatIncompatibility(able, request({ thinkingBudget: true }))).toBeNull();
    const strict: Model = { ...able, features: ['json_schema'] };
    expect(chatIncompatibility(strict, request({ json: true }))).toBeNull();
  });

  test.each<[Partial<ModelNeeds>, string]>([
    [{ tools: true }, 'tools'],
    [{ json: true }, 'JSON'],
    [{ images: true }, 'images'],
    [{ audio: true }, 'audio'],
    [{ files: true }, 'files'],
  ])('not when it lacks %j', (needs, word) => {
    const plain: Model = { ...able, input_modalities: ['text'], features: [] };
    expect(chatIncompatibility(plain, request(needs))).toContain(word);
    expect(chatIncompatibility(plain, request())).toBeNull();
  });

  test.each(['embeddings', 'speech', 'transcription'] as const)(
    'not when it is for %s',
    (feature) => {
      expect(chatIncompatibility({ ...able, features: [feature] }, request())).toContain(
        'not a chat model',
      );
    },
  );

  test('not when it makes pictures only', () => {
    const painter: Model = { ...able, output_modalities: ['image'] };
    expect(chatIncompatibility(painter, request())).toBe('is not a chat model');
  });
});

test('a budget goes past models that think adaptively; none left is a refusal of the field', () => {
  const adaptive = {
    ...shared,
    model: { ...able, id: 'acme/adaptive', thinking: 'adaptive' as const },
  };
  const other = { ...shared, model: able };
  const asked = request({ thinkingBudget: true });
  expect(compatibleOffers([adaptive, other], asked)).toEqual([other]);
  expect(compatibleOffers([adaptive], request())).toEqual([adaptive]);
  const picture = { param: 'messages[0].content[0].image_url.url', url: 'https://a.test/a.png' };
  expect(compatibleOffers([adaptive], request({ images: true }, [picture]))).toEqual([adaptive]);
  expect(() => compatibleOffers([adaptive], asked)).toThrow('use reasoning.effort');
});

test('images whose size cannot be known here are left to the provider', () => {
  const limited: Model = { ...able, image_limits: { long_edge_px: 1 } };
  const images = ['https://example.test/huge.png', 'data:image/png;base64,AAAA'].map((url) => ({
    param: 'messages[0].content[0].image_url.url',
    url,
  }));
  expect(imageIncompatibility(limited, request({}, images))).toBeNull();
});

test('of a chain, the models that take the images remain; none left is a refusal', () => {
  // The header of a PNG is all that is read.
  const picture = (width: number, height: number) => {
    const head = Buffer.alloc(33);
    head.write('\x89PNG\r\n\x1a\n', 'latin1');
    head.writeUInt32BE(13, 8);
    head.write('IHDR', 12, 'latin1');
    head.writeUInt32BE(width, 16);
    head.writeUInt32BE(height, 20);
    const url = `data:image/png;base64,${head.toString('base64')}`;
    return [{ param: 'messages[0].content[1].image_url.url', url }];
  };
  const images = picture(100, 50);
  const small = {
    ...shared,
    model: { ...able, id: 'acme/small', image_limits: { long_edge_px: 99 } },
  };
  const large = {
    ...shared,
    model: { ...able, id: 'acme/large', image_limits: { long_edge_px: 100 } },
  };
  expect(compatibleOffers([small, large], request({}, images))).toEqual([large]);
  expect(() => compatibleOffers([small], request({}, images))).toThrow('100x50');
  expect(() => compatibleOffers([small], request({}, picture(50, 100)))).toThrow('50x100');
  // Its 5,000 pixels are 0.005 megapixels.
  const few = {
    ...shared,
    model: { ...able, id: 'acme/few', image_limits: { megapixels: 0.004 } },
  };
  const many = {
    ...shared,
    model: { ...able, id: 'acme/many', image_limits: { megapixels: 0.005 } },
  };
  expect(compatibleOffers([few, many], request({}, images))).toEqual([many]);
  expect(() => compatibleOffers([few], request({}, images))).toThrow('at most 0.004 megapixels');
});

describe('what lies in an account', () => {
  const offer = { ...shared, model: able };
  const own = { ...offer, own: {} };
  const param = 'messages[0].content[0].file.file_id';

  test('is asked of the tenant’s own; none left is a refusal of the field', () => {
    const asked = { ...request(), ownAccount: { param, why: 'is kept there: send it' } };
    expect(entitledOffers([offer, own], asked)).toEqual([own]);
    const refusal = `${param} is kept there: send it, or call with an account of your own.`;
    expect(() => entitledOffers([offer], asked)).toThrow(refusal);
  });

  test('has the addresses of its provider', () => {
    const at = (url: string) => ({ ...request(), addresses: [{ param, url }] });
    expect(entitledOffers([offer, own], at('https://vendor.test/v1/files/a'))).toEqual([own]);
    expect(entitledOffers([offer, own], at('HTTPS://Vendor.test:443/b'))).toEqual([own]);
    expect(() => entitledOffers([offer], at('https://vendor.test/v1/files/a'))).toThrow(param);
    expect(entitledOffers([offer], at('https://elsewhere.test/v1/files/a'))).toEqual([offer]);
    expect(entitledOffers([offer], at('https://'))).toEqual([offer]);
  });

  test('may be shown as a picture', () => {
    const shown = (url: string) => request({}, [{ param, url }]);
    const kept = shown('https://vendor.test/v1/files/a');
    expect(entitledOffers([offer, own], kept)).toEqual([own]);
    expect(() => entitledOffers([offer], kept)).toThrow(`${param} leads into the account`);
    expect(entitledOffers([offer], shown('https://elsewhere.test/a.png'))).toEqual([offer]);
    expect(entitledOffers([offer], shown('data:image/png;base64,AAAA'))).toEqual([offer]);
  });
});

test.each<[string, SpeechSettings | undefined, number, 'characters' | 'bytes']>([
  ['a first-party-style model', { style: 'first_party' }, 4096, 'characters'],
  ['another', { style: 'mapped' }, 1000, 'bytes'],
  ['one that says nothing', undefined, 1000, 'bytes'],
  ['another with a number of characters', { input_characters_max: 300 }, 300, 'characters'],
  ['another with a number of bytes', { input_bytes_max: 2000 }, 2000, 'bytes'],
  [
    'a first-party-style model with a number of characters',
    { style: 'first_party', input_characters_max: 2000 },
    2000,
    'characters',
  ],
  [
    'a first-party-style model with a number of bytes',
    { style: 'first_party', input_bytes_max: 600 },
    600,
    'bytes',
  ],
])('%s: %j takes %d %s', (_, terms, max, unit) => {
  expect(textLimitOf(terms)).toEqual({ unit, max });
});
