import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { Caller } from '../../src/core/caller.ts';
import { mp3File, wavFile } from '../support/audio-files.ts';
import { JobHarness } from '../support/job-harness.ts';

let harness: JobHarness;
let caller: Caller;

beforeEach(async () => {
  harness = await JobHarness.open();
  caller = await harness.newCaller();
});

afterEach(() => harness.close());

describe('transcription job', () => {
  test('sends a small file in one piece, with the detected extension', async () => {
    const audio = wavFile(3);
    const id = await harness.transcription(caller, audio, {
      ...{ language: 'de', prompt: 'Namen', temperature: '0.2', response_format: 'verbose_json' },
      'timestamp_granularities[]': 'word',
    });
    harness.runner.transcribe = () => '{"text":"Eins.","duration":0.72}';
    await harness.runJobs();
    const [sent] = harness.runner.transcriptionPieces;
    expect(sent).toMatchObject({
      ...{ extension: 'wav', language: 'de', prompt: 'Namen', temperature: 0.2 },
      ...{ format: 'verbose_json', granularities: ['word'], provider: null },
    });
    expect(Buffer.from(sent?.audio ?? []).equals(audio)).toBe(true);
    expect((await harness.output(caller, id)).toString()).toBe('{"text":"Eins.","duration":0.72}');
    expect(await harness.job(caller, id)).toMatchObject({ costCredits: 50, units: 1_500 });
  });

  test('splits a large file and shifts the timestamps of its parts', async () => {
    // 2 hours of MP3 in 28.8 MB: parts of 50, 50, and 20 minutes.
    const id = await harness.transcription(caller, mp3File(30_000), { response_format: 'srt' });
    const started: number[] = [];
    harness.runner.transcribe = () => {
      started.push(harness.runner.transcriptionPieces.length);
      return '1\n00:00:01,000 --> 00:00:02,000\nHello\n\n';
    };
    await harness.runJobs();
    // One at a time, because each is held in memory.
    expect(started).toEqual([1, 2, 3]);
    expect((await harness.output(caller, id)).toString()).toBe(
      '1\n00:00:01,000 --> 00:00:02,000\nHello\n\n' +
        '2\n00:50:01,000 --> 00:50:02,000\nHello\n\n' +
        '3\n01:40:01,000 --> 01:40:02,000\nHello\n\n',
    );
    expect(harness.runner.transcriptionPieces.map(({ extension }) => extension)).toEqual(
      Array(3).fill('mp3'),
    );
    const job = await harness.job(caller, id);
    expect(job).toMatchObject({ costCredits: 150, piecesTotal: 3, units: 4_500 });
    expect(job.output?.key).toEndWith('.srt');
  }, 120_000);

  test('fails for a large file in a format that cannot be split', async () => {
    const flac = Buffer.alloc(26 * 1024 * 1024);
    flac.write('fLaC');
    const id = await harness.transcription(caller, flac);
    await harness.runJobs();
    expect((await harness.job(caller, id)).failure).toEqual({
      message: "Files over 25 MiB must be wav or mp3, because other formats can't be split.",
      type: 'invalid_request_error',
      code: 400,
    });
    expect(harness.runner.transcriptionPieces).toEqual([]);
  }, 120_000);
});
