import { describe, expect, test } from 'bun:test';
import { chatAsk, noNeeds } from '../../tests/support/question.ts';
import type { Model } from '../config/config.ts';
import type { ChatAsk, ModelNeeds } from '../core/ask.ts';
import { chatMisfit, imageMisfit, keepEntitled, keepFitting } from './capability.ts';

const shared = { provider: { baseUrl: 'https://vendor.test/v1' }, own: null };

const able: Model = {
  id: 'acme/all',
  name: 'All',
  input_modalities: ['text', 'image', 'audio', 'file'],
  output_modalities: ['text'],
  features: ['tools', 'json_mode', 'reasoning'],
  endpoints: [],
};

function ask(needs: Partial<ModelNeeds> = {}, images: ChatAsk['images'] = []): ChatAsk {
  return chatAsk({ models: ['acme/all'], needs: { ...noNeeds, ...needs }, images });
}

describe('a model fits', () => {
  test('when it can do all that is needed', () => {
    const everything = { tools: true, json: true, images: true, audio: true, files: true };
    expect(chatMisfit(able, ask(everything))).toBeNull();
    expect(chatMisfit(able, ask({ thinkingBudget: true }))).toBeNull();
    const strict: Model = { ...able, features: ['json_schema'] };
    expect(chatMisfit(strict, ask({ json: true }))).toBeNull();
  });

  test.each<[Partial<ModelNeeds>, string]>([
    [{ tools: true }, 'tools'],
    [{ json: true }, 'JSON'],
    [{ images: true }, 'images'],
    [{ audio: true }, 'audio'],
    [{ files: true }, 'files'],
  ])('not when it lacks %j', (needs, word) => {
    const plain: Model = { ...able, input_modalities: ['text'], features: [] };
    expect(chatMisfit(plain, ask(needs))).toContain(word);
    expect(chatMisfit(plain, ask())).toBeNull();
  });

  test.each(['embeddings', 'speech', 'transcription'] as const)(
    'not when it is for %s',
    (feature) => {
      expect(chatMisfit({ ...able, features: [feature] }, ask())).toContain('not a chat model');
    },
  );

  test('not when it makes pictures only', () => {
    const painter: Model = { ...able, output_modalities: ['image'] };
    expect(chatMisfit(painter, ask())).toBe('is not a chat model');
  });
});

test('a budget goes past models that think adaptively; none left is a refusal of the field', () => {
  const adaptive = {
    ...shared,
    model: { ...able, id: 'acme/adaptive', thinking: 'adaptive' as const },
  };
  const other = { ...shared, model: able };
  const asked = ask({ thinkingBudget: true });
  expect(keepFitting([adaptive, other], asked)).toEqual([other]);
  expect(keepFitting([adaptive], ask())).toEqual([adaptive]);
  const picture = { param: 'messages[0].content[0].image_url.url', url: 'https://a.test/a.png' };
  expect(keepFitting([adaptive], ask({ images: true }, [picture]))).toEqual([adaptive]);
  expect(() => keepFitting([adaptive], asked)).toThrow('use reasoning.effort');
});

test('images whose size cannot be known here are left to the provider', () => {
  const limited: Model = { ...able, image_limits: { long_edge_px: 1 } };
  const images = ['https://example.test/huge.png', 'data:image/png;base64,AAAA'].map((url) => ({
    param: 'messages[0].content[0].image_url.url',
    url,
  }));
  expect(imageMisfit(limited, ask({}, images))).toBeNull();
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
  expect(keepFitting([small, large], ask({}, images))).toEqual([large]);
  expect(() => keepFitting([small], ask({}, images))).toThrow('100x50');
  expect(() => keepFitting([small], ask({}, picture(50, 100)))).toThrow('50x100');
  // Its 5,000 pixels are 0.005 megapixels.
  const few = {
    ...shared,
    model: { ...able, id: 'acme/few', image_limits: { megapixels: 0.004 } },
  };
  const many = {
    ...shared,
    model: { ...able, id: 'acme/many', image_limits: { megapixels: 0.005 } },
  };
  expect(keepFitting([few, many], ask({}, images))).toEqual([many]);
  expect(() => keepFitting([few], ask({}, images))).toThrow('at most 0.004 megapixels');
});

describe('what lies in an account', () => {
  const offer = { ...shared, model: able };
  const own = { ...offer, own: {} };
  const param = 'messages[0].content[0].file.file_id';

  test('is asked of the tenant’s own; none left is a refusal of the field', () => {
    const asked = { ...ask(), ownAccount: { param, why: 'is kept there: send it' } };
    expect(keepEntitled([offer, own], asked)).toEqual([own]);
    const refusal = `${param} is kept there: send it, or call with an account of your own.`;
    expect(() => keepEntitled([offer], asked)).toThrow(refusal);
  });

  test('has the addresses of its provider', () => {
    const at = (url: string) => ({ ...ask(), addresses: [{ param, url }] });
    expect(keepEntitled([offer, own], at('https://vendor.test/v1/files/a'))).toEqual([own]);
    expect(keepEntitled([offer, own], at('HTTPS://Vendor.test:443/b'))).toEqual([own]);
    expect(() => keepEntitled([offer], at('https://vendor.test/v1/files/a'))).toThrow(param);
    expect(keepEntitled([offer], at('https://elsewhere.test/v1/files/a'))).toEqual([offer]);
    expect(keepEntitled([offer], at('https://'))).toEqual([offer]);
  });

  test('may be shown as a picture', () => {
    const shown = (url: string) => ask({}, [{ param, url }]);
    const kept = shown('https://vendor.test/v1/files/a');
    expect(keepEntitled([offer, own], kept)).toEqual([own]);
    expect(() => keepEntitled([offer], kept)).toThrow(`${param} leads into the account`);
    expect(keepEntitled([offer], shown('https://elsewhere.test/a.png'))).toEqual([offer]);
    expect(keepEntitled([offer], shown('data:image/png;base64,AAAA'))).toEqual([offer]);
  });
});
