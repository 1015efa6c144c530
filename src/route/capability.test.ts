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

const shared = { provider: { baseUrl: 'https://vendor.test/v1' }, ownAccount: null };

const capable: Model = {
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

describe('chatIncompatibility', () => {
  test('accepts a model with all required capabilities', () => {
    const everything = { tools: true, json: true, images: true, audio: true, files: true };
    expect(chatIncompatibility(capable, request(everything))).toBeNull();
    expect(chatIncompatibility(capable, request({ thinkingBudget: true }))).toBeNull();
    const strict: Model = { ...capable, features: ['json_schema'] };
    expect(chatIncompatibility(strict, request({ json: true }))).toBeNull();
  });

  test.each<[Partial<ModelNeeds>, string]>([
    [{ tools: true }, 'tools'],
    [{ json: true }, 'JSON'],
    [{ images: true }, 'images'],
    [{ audio: true }, 'audio'],
    [{ files: true }, 'files'],
  ])('rejects a model without %j', (needs, text) => {
    const plain: Model = { ...capable, input_modalities: ['text'], features: [] };
    expect(chatIncompatibility(plain, request(needs))).toContain(text);
    expect(chatIncompatibility(plain, request())).toBeNull();
  });

  test.each(['embeddings', 'speech', 'transcription'] as const)(
    'rejects a model for %s',
    (feature) => {
      expect(chatIncompatibility({ ...capable, features: [feature] }, request())).toContain(
        'not a chat model',
      );
    },
  );

  test('rejects a model that generates only images', () => {
    const painter: Model = { ...capable, output_modalities: ['image'] };
    expect(chatIncompatibility(painter, request())).toBe('is not a chat model');
  });
});

test('compatibleOffers excludes adaptive models for thinking budgets and names the field', () => {
  const adaptive = {
    ...shared,
    model: { ...capable, id: 'acme/adaptive', thinking: 'adaptive' as const },
  };
  const other = { ...shared, model: capable };
  const withBudget = request({ thinkingBudget: true });
  expect(compatibleOffers([adaptive, other], withBudget)).toEqual([other]);
  expect(compatibleOffers([adaptive], request())).toEqual([adaptive]);
  const image = { param: 'messages[0].content[0].image_url.url', url: 'https://a.test/a.png' };
  expect(compatibleOffers([adaptive], request({ images: true }, [image]))).toEqual([adaptive]);
  expect(() => compatibleOffers([adaptive], withBudget)).toThrow('use reasoning.effort');
});

test('imageIncompatibility accepts images of unknown size', () => {
  const limited: Model = { ...capable, image_limits: { long_edge_px: 1 } };
  const images = ['https://example.test/huge.png', 'data:image/png;base64,AAAA'].map((url) => ({
    param: 'messages[0].content[0].image_url.url',
    url,
  }));
  expect(imageIncompatibility(limited, request({}, images))).toBeNull();
});

test('compatibleOffers keeps the models that accept the images and throws if none does', () => {
  // Only the header of a PNG is read.
  const pngImage = (width: number, height: number) => {
    const head = Buffer.alloc(33);
    head.write('\x89PNG\r\n\x1a\n', 'latin1');
    head.writeUInt32BE(13, 8);
    head.write('IHDR', 12, 'latin1');
    head.writeUInt32BE(width, 16);
    head.writeUInt32BE(height, 20);
    const url = `data:image/png;base64,${head.toString('base64')}`;
    return [{ param: 'messages[0].content[1].image_url.url', url }];
  };
  const images = pngImage(100, 50);
  const small = {
    ...shared,
    model: { ...capable, id: 'acme/small', image_limits: { long_edge_px: 99 } },
  };
  const large = {
    ...shared,
    model: { ...capable, id: 'acme/large', image_limits: { long_edge_px: 100 } },
  };
  expect(compatibleOffers([small, large], request({}, images))).toEqual([large]);
  expect(() => compatibleOffers([small], request({}, images))).toThrow('100x50');
  expect(() => compatibleOffers([small], request({}, pngImage(50, 100)))).toThrow('50x100');
  // The image's 5,000 pixels are 0.005 megapixels.
  const few = {
    ...shared,
    model: { ...capable, id: 'acme/few', image_limits: { megapixels: 0.004 } },
  };
  const many = {
    ...shared,
    model: { ...capable, id: 'acme/many', image_limits: { megapixels: 0.005 } },
  };
  expect(compatibleOffers([few, many], request({}, images))).toEqual([many]);
  expect(() => compatibleOffers([few], request({}, images))).toThrow('at most 0.004 megapixels');
});

describe('entitledOffers for content in a provider account', () => {
  const offer = { ...shared, model: capable };
  const own = { ...offer, ownAccount: {} };
  const param = 'messages[0].content[0].file.file_id';

  test("keeps only offers with the tenant's key and names the field if there are none", () => {
    const withFile = { ...request(), ownAccount: { param, why: 'is stored there: send it' } };
    expect(entitledOffers([offer, own], withFile)).toEqual([own]);
    const message = `${param} is stored there: send it, or use your own provider key.`;
    expect(() => entitledOffers([offer], withFile)).toThrow(message);
  });

  test("recognizes URLs on the provider's host", () => {
    const at = (url: string) => ({ ...request(), urls: [{ param, url }] });
    expect(entitledOffers([offer, own], at('https://vendor.test/v1/files/a'))).toEqual([own]);
    expect(entitledOffers([offer, own], at('HTTPS://Vendor.test:443/b'))).toEqual([own]);
    expect(() => entitledOffers([offer], at('https://vendor.test/v1/files/a'))).toThrow(param);
    expect(entitledOffers([offer], at('https://elsewhere.test/v1/files/a'))).toEqual([offer]);
    expect(entitledOffers([offer], at('https://'))).toEqual([offer]);
  });

  test("recognizes image URLs on the provider's host", () => {
    const withImage = (url: string) => request({}, [{ param, url }]);
    const onProvider = withImage('https://vendor.test/v1/files/a');
    expect(entitledOffers([offer, own], onProvider)).toEqual([own]);
    expect(() => entitledOffers([offer], onProvider)).toThrow(
      `${param} points to the provider's account`,
    );
    expect(entitledOffers([offer], withImage('https://elsewhere.test/a.png'))).toEqual([offer]);
    expect(entitledOffers([offer], withImage('data:image/png;base64,AAAA'))).toEqual([offer]);
  });
});

test.each<[string, SpeechSettings | undefined, number, 'characters' | 'bytes']>([
  ['a first-party-style model', { style: 'first_party' }, 4096, 'characters'],
  ['a mapped model', { style: 'mapped' }, 1000, 'bytes'],
  ['a model without settings', undefined, 1000, 'bytes'],
  ['a model with a character limit', { input_characters_max: 300 }, 300, 'characters'],
  ['a model with a byte limit', { input_bytes_max: 2000 }, 2000, 'bytes'],
  [
    'a first-party-style model with a character limit',
    { style: 'first_party', input_characters_max: 2000 },
    2000,
    'characters',
  ],
  [
    'a first-party-style model with a byte limit',
    { style: 'first_party', input_bytes_max: 600 },
    600,
    'bytes',
  ],
])('textLimitOf returns for %s (%j) %d %s', (_, settings, max, unit) => {
  expect(textLimitOf(settings)).toEqual({ unit, max });
});
