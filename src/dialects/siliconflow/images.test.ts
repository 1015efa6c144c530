import { expect, test } from 'bun:test';
import type { ImagesWish } from '../media/images-wish.ts';
import { siliconFlowImages } from './images.ts';

function write(size: string | null, more: Record<string, unknown> = {}) {
  const parameters = { size, quality: null, background: null, output_format: null, user: 'u' };
  const wish: ImagesWish = { prompt: 'A cat', images: [], mask: null, parameters, more };
  const { path, body, dropped } = siliconFlowImages.write(wish, {
    upstreamModel: 'm',
    quirks: {},
  });
  return { path, body: JSON.parse(String(body)), dropped };
}

test('a picture from words has its size by another name, and fields of the model’s own', () => {
  expect(write('1024x1024', { seed: 7 })).toEqual({
    path: '/images/generations',
    body: { model: 'm', prompt: 'A cat', image_size: '1024x1024', seed: 7 },
    dropped: ['user'],
  });
});

test('a size that is left to the model is not said', () => {
  expect(write('auto')).toMatchObject({
    body: { model: 'm', prompt: 'A cat' },
    dropped: ['size', 'user'],
  });
  expect(write('auto').body).not.toHaveProperty('image_size');
  expect(write(null)).toMatchObject({ body: { prompt: 'A cat' }, dropped: ['user'] });
});
