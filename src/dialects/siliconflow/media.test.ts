import { expect, test } from 'bun:test';
import type { ImageOptions, SpeechOptions } from '../media.ts';
import { siliconFlowImages, siliconFlowSpeech } from './media.ts';

function writeSpeech(changes: Partial<SpeechOptions>) {
  const options: SpeechOptions = {
    ...{ input: 'Hi', voice: 'alex', format: 'mp3', speed: null, instructions: null },
    asEvents: false,
    extraFields: {},
    ...changes,
  };
  const { body, dropped } = siliconFlowSpeech.write(options, { upstreamModel: 'a/b', quirks: {} });
  return { body: JSON.parse(String(body)), dropped };
}

test("siliconFlowSpeech prefixes voices with the model, except the customer's own voices", () => {
  const plain = { model: 'a/b', input: 'Hi', response_format: 'mp3', stream: true };
  expect(writeSpeech({}).body).toEqual({ ...plain, voice: 'a/b:alex' });
  expect(writeSpeech({ voice: 'speech:mine:x' }).body.voice).toBe('speech:mine:x');
});

test("siliconFlowSpeech requests OpenAI's sample rate for raw audio only", () => {
  expect(writeSpeech({ format: 'pcm' }).body.sample_rate).toBe(24_000);
  expect(writeSpeech({ format: 'wav' }).body).not.toHaveProperty('sample_rate');
});

test('siliconFlowSpeech reports instructions as dropped', () => {
  expect(writeSpeech({ instructions: 'Softly.' }).dropped).toEqual(['instructions']);
  expect(writeSpeech({ speed: 1.5 })).toMatchObject({ body: { speed: 1.5 }, dropped: [] });
});

function writeImages(size: string | null, extraFields: Record<string, unknown> = {}) {
  const parameters = { size, quality: null, background: null, output_format: null, user: 'u' };
  const options: ImageOptions = {
    prompt: 'A cat',
    images: [],
    mask: null,
    parameters,
    extraFields,
  };
  const { path, body, dropped } = siliconFlowImages.write(options, {
    upstreamModel: 'm',
    quirks: {},
  });
  return { path, body: JSON.parse(String(body)), dropped };
}

test('siliconFlowImages renames size and forwards unknown fields', () => {
  expect(writeImages('1024x1024', { seed: 7 })).toEqual({
    path: '/images/generations',
    body: { model: 'm', prompt: 'A cat', image_size: '1024x1024', seed: 7 },
    dropped: ['user'],
  });
});

test('siliconFlowImages omits an automatic size', () => {
  expect(writeImages('auto')).toMatchObject({
    body: { model: 'm', prompt: 'A cat' },
    dropped: ['size', 'user'],
  });
  expect(writeImages('auto').body).not.toHaveProperty('image_size');
  expect(writeImages(null)).toMatchObject({ body: { prompt: 'A cat' }, dropped: ['user'] });
});
