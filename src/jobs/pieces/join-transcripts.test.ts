import { describe, expect, test } from 'bun:test';
import { joinTranscripts } from './join-transcripts.ts';

/** Where the second part starts in the recording: 10 minutes and half a second. */
const startMs = 600_500;

function join(format: Parameters<typeof joinTranscripts>[0], first: string, second: string) {
  return joinTranscripts(format, [
    { body: first, startMs: 0 },
    { body: second, startMs },
  ]);
}

describe('joinTranscripts', () => {
  test('joins text with a space, except in languages without spaces', () => {
    expect(join('text', ' Hello there.\n', 'And goodbye.\n')).toBe('Hello there. And goodbye.\n');
    expect(join('text', '今天天气很好。', '再见。')).toBe('今天天气很好。再见。\n');
    expect(join('text', '', 'Only this.')).toBe('Only this.\n');
  });

  test('sums the durations in JSON', () => {
    const first = JSON.stringify({ text: 'One.', duration: 600.5, usage: { seconds: 601 } });
    const second = JSON.stringify({ text: 'Two.', duration: 0.1, usage: { seconds: 1 } });
    expect(JSON.parse(join('json', first, second))).toEqual({
      text: 'One. Two.',
      duration: 600.6,
      usage: { type: 'duration', seconds: 602 },
    });
  });

  test('keeps the duration in JSON if only one part has one', () => {
    const joined = join('json', '{"text":"One.","duration":600.5}', '{"text":"Two."}');
    expect(JSON.parse(joined)).toEqual({ text: 'One. Two.', duration: 600.5 });
  });

  test('shifts times and renumbers segments in verbose JSON', () => {
    const part = (text: string) =>
      JSON.stringify({
        task: 'transcribe',
        language: 'english',
        duration: 2,
        text,
        segments: [
          { id: 0, start: 0, end: 1.25, text: 'a' },
          { id: 1, start: 1.25, end: 2, text: 'b' },
        ],
        words: [{ word: 'a', start: 0.1, end: 0.2 }],
      });
    const joined = JSON.parse(join('verbose_json', part('One.'), part('Two.')));
    expect(joined).toMatchObject({ task: 'transcribe', language: 'english', duration: 4 });
    expect(joined.segments).toEqual([
      { id: 0, start: 0, end: 1.25, text: 'a' },
      { id: 1, start: 1.25, end: 2, text: 'b' },
      { id: 2, start: 600.5, end: 601.75, text: 'a' },
      { id: 3, start: 601.75, end: 602.5, text: 'b' },
    ]);
    expect(joined.words).toEqual([
      { word: 'a', start: 0.1, end: 0.2 },
      { word: 'a', start: 600.6, end: 600.7 },
    ]);
  });

  test('keeps segments and words in verbose JSON if the first part is silent', () => {
    const spoken = { start: 0, end: 1, text: 'Two.' };
    const word = { word: 'Two.', start: 0, end: 1 };
    const second = JSON.stringify({ text: 'Two.', segments: [spoken], words: [word] });
    expect(JSON.parse(join('verbose_json', '{"text":""}', second))).toEqual({
      text: 'Two.',
      segments: [{ id: 0, start: 600.5, end: 601.5, text: 'Two.' }],
      words: [{ word: 'Two.', start: 600.5, end: 601.5 }],
    });
  });

  test('shifts times and renumbers cues in SRT', () => {
    const first =
      '1\n00:00:00,000 --> 00:00:03,320\nHello\nthere\n\n2\n00:00:03,320 --> 00:00:04,000\nyou\n\n';
    const second = '1\r\n00:49:30,000 --> 01:00:00,999\r\nagain\r\n\r\n';
    expect(join('srt', first, second)).toBe(
      '1\n00:00:00,000 --> 00:00:03,320\nHello\nthere\n\n' +
        '2\n00:00:03,320 --> 00:00:04,000\nyou\n\n' +
        '3\n00:59:30,500 --> 01:10:01,499\nagain\n\n',
    );
  });

  test('writes one WebVTT header and reads times without hours', () => {
    const first = 'WEBVTT\n\n00:00:00.000 --> 00:00:03.320 align:start\nHello\n\n';
    const second = 'WEBVTT\n\nNOTE nothing\n\n00:01.000 --> 00:02.000\nagain\n';
    expect(join('vtt', first, second)).toBe(
      'WEBVTT\n\n00:00:00.000 --> 00:00:03.320 align:start\nHello\n\n' +
        '00:10:01.500 --> 00:10:02.500\nagain\n\n',
    );
  });

  test('returns an empty text for SRT parts that contain only blank lines', () => {
    expect(join('srt', ' \n'.repeat(500_000), '\t\r\n '.repeat(300_000))).toBe('');
  });

  test('returns a single part unchanged', () => {
    const body = '{"text":"One.","logprobs":[1e-7]}';
    expect(joinTranscripts('json', [{ body, startMs: 0 }])).toBe(body);
  });

  test('rejects a part that is not JSON', () => {
    expect(() => join('json', '{"text":"One."}', '<html>')).toThrow(
      "The provider's transcript of piece 2 isn't valid JSON.",
    );
  });
});
