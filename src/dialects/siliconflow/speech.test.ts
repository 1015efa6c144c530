import { expect, test } from 'bun:test';
import type { SpeechWish } from '../media/speech.ts';
import { siliconFlowSpeech } from './speech.ts';

function write(given: Partial<SpeechWish>) {
  const wish: SpeechWish = {
    ...{ input: 'Hi', voice: 'alex', format: 'mp3', speed: null, instructions: null },
    asEvents: false,
    more: {},
    ...given,
  };
  const { body, dropped } = siliconFlowSpeech.write(wish, { upstreamModel: 'a/b', quirks: {} });
  return { body: JSON.parse(String(body)), dropped };
}

test('a voice is named after its model, one of the client’s own by its whole name', () => {
  const plain = { model: 'a/b', input: 'Hi', response_format: 'mp3', stream: true };
  expect(write({}).body).toEqual({ ...plain, voice: 'a/b:alex' });
  expect(write({ voice: 'speech:mine:x' }).body.voice).toBe('speech:mine:x');
});

test('raw audio is asked for at OpenAI’s sample rate, other formats without a rate', () => {
  expect(write({ format: 'pcm' }).body.sample_rate).toBe(24_000);
  expect(write({ format: 'wav' }).body).not.toHaveProperty('sample_rate');
});

test('instructions are told as left out', () => {
  expect(write({ instructions: 'Softly.' }).dropped).toEqual(['instructions']);
  expect(write({ speed: 1.5 })).toMatchObject({ body: { speed: 1.5 }, dropped: [] });
});
