/** Tests speech and transcription with OpenAI's SDK. */
import { afterAll, afterEach, describe, expect, test } from 'bun:test';
import OpenAI, { toFile } from 'openai';
import { wavFile } from '../support/audio-files.ts';
import { AudioGateway } from '../support/audio-gateway.ts';
import { json, replay, speech, status } from '../support/fake-upstream.ts';
import { rejectionOf } from '../support/sdk-gateway.ts';

const audio = await AudioGateway.start();
const { url, keys } = audio.gateway;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: keys.routing, maxRetries: 0 });
afterAll(() => audio.stop());
afterEach(() => audio.reset());

const recording = wavFile(5);
const file = () => toFile(recording, 'talk.wav');
const model = 'openai/stt-1';

describe('audio.speech.create of the OpenAI SDK', () => {
  test('returns bytes in the requested format', async () => {
    audio.openai.script('tts-1', speech({ audioBytes: 5000, contentType: 'audio/flac' }));
    const response = await client.audio.speech.create({
      model: 'openai/tts-1',
      voice: 'nova',
      input: 'Good morning!',
      response_format: 'flac',
      speed: 0.5,
    });
    expect(response.headers.get('content-type')).toBe('audio/flac');
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect([bytes.length, bytes[250], bytes[251]]).toEqual([5000, 250, 0]);
    expect(audio.openai.requests[0]?.json).toEqual({
      model: 'tts-1',
      voice: 'nova',
      input: 'Good morning!',
      response_format: 'flac',
      speed: 0.5,
    });
    const requestId = response.headers.get('x-request-id') ?? '';
    // 13 characters at 15 credits.
    expect((await audio.bill({ requestId })).credits).toBe(195);
  });

  test('throws a BadRequestError for an unknown voice', async () => {
    const request = { model: 'openai/tts-1', voice: 'gandalf', input: 'a' };
    const error = await rejectionOf(client.audio.speech.create(request));
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error).toMatchObject({ status: 400, param: 'voice' });
  });

  test('throws an InternalServerError if all providers failed', async () => {
    audio.openai.script('tts-1-hd', status(500));
    const request = { model: 'openai/tts-1-hd', voice: 'alloy', input: 'a' };
    const error = await rejectionOf(client.audio.speech.create(request));
    expect(error).toBeInstanceOf(OpenAI.InternalServerError);
  });
});

describe('audio.transcriptions.create of the OpenAI SDK', () => {
  test('returns JSON', async () => {
    audio.openai.script('whisper-1', json(200, { text: 'Hallo', duration: 1.2 }));
    const transcription = await client.audio.transcriptions.create({ model, file: await file() });
    expect(transcription.text).toBe('Hallo');
    expect(transcription).toMatchObject({ duration: 1.2 });
    const { form } = audio.openai.requests[0] ?? {};
    const [sent] = form?.files ?? [];
    expect(Buffer.from(sent?.bytes ?? []).equals(recording)).toBe(true);
    expect(form?.fields).toEqual({ model: ['whisper-1'], response_format: ['json'] });
  });

  test('returns segments and words', async () => {
    const verbose = {
      task: 'transcribe',
      language: 'german',
      duration: 1.2,
      text: 'Hallo',
      segments: [{ id: 0, start: 0, end: 1.2, text: 'Hallo' }],
      words: [{ word: 'Hallo', start: 0, end: 1.2 }],
    };
    audio.openai.script('whisper-1', json(200, verbose));
    const transcription = await client.audio.transcriptions.create({
      model,
      file: await file(),
      response_format: 'verbose_json',
      timestamp_granularities: ['word', 'segment'],
      language: 'de',
      prompt: 'Hallo',
      temperature: 0.3,
    });
    expect(transcription).toMatchObject(verbose);
    expect(audio.openai.requests[0]?.form?.fields).toEqual({
      model: ['whisper-1'],
      response_format: ['verbose_json'],
      'timestamp_granularities[]': ['word', 'segment'],
      language: ['de'],
      prompt: ['Hallo'],
      temperature: ['0.3'],
    });
  });

  test.each([
    ['text', 'Hallo\n'],
    ['srt', '1\n00:00:00,000 --> 00:00:01,200\nHallo\n\n'],
    ['vtt', 'WEBVTT\n\n00:00:00.000 --> 00:00:01.200\nHallo\n\n'],
  ] as const)('returns %s', async (format, text) => {
    audio.openai.script('whisper-1', replay(text, { contentType: 'text/plain' }));
    const request = { model, file: await file(), response_format: format };
    const transcription: unknown = await client.audio.transcriptions.create(request);
    expect(transcription).toBe(text);
    expect(audio.openai.requests[0]?.form?.fields.response_format).toEqual([format]);
  });

  test('throws a BadRequestError for a file that is not audio', async () => {
    const request = { model, file: await toFile(Buffer.from('#!/bin/sh'), 'talk.mp3') };
    const error = await rejectionOf(client.audio.transcriptions.create(request));
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error).toMatchObject({ status: 400, param: 'file' });
  });

  test('transcribes speech of the demo model with the demo model', async () => {
    const speechResponse = await client.audio.speech.create({
      model: 'demo/speech',
      voice: 'alloy',
      input: 'A sentence.',
      response_format: 'wav',
    });
    const audioFile = await toFile(await speechResponse.arrayBuffer(), 'melody.wav');
    const transcription = await client.audio.transcriptions.create({
      model: 'demo/transcribe',
      file: audioFile,
      response_format: 'verbose_json',
    });
    expect(transcription.duration).toBeGreaterThan(0.2);
    expect(transcription.segments).toHaveLength(2);
  });
});
