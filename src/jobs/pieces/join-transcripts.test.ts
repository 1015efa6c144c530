import { describe, expect, test } from 'bun:test';
import { joinTranscripts } from './join-transcripts.ts';

/** The second part starts after ten minutes and a half second. */
const startMs = 600_500;

function join(format: Parameters<typeof joinTranscripts>[0], first: string, second: string) {
  return joinTranscripts(format, [
    { body: first, startMs: 0 },
    { body: second, startMs },
  ]);
}

describe('transcripts of parts are joined', () => {
  test('as text with a space, except in languages that have none', () => {
    expect(join('text', ' Hello there.\n', 'And goodbye.\n')).toBe('Hello there. And goodbye.\n');
    expect(join('text', '今天天气很好。', '再见。')).toBe('今天天气很好。再见。\n');
    expect(join('text', '', 'Only this.')).toBe('Only this.\n');
  });

  test('as JSON with the sum of the durations', () => {
    const first = JSON.stringify({ text: 'One.', duration: 600.5, usage: { seconds: 601 } });
    const second = JSON.stringify({ text: 'Two.', duration: 0.1, usage: { seconds: 1 } });
    expect(JSON.parse(join('json', first, second))).toEqual({
      text: 'One. Two.',
      duration: 600.6,
      usage: { type: 'duration', seconds: 602 },
    });
  });

  test('as JSON without a duration when one part has none', () => {
    const joined = join('json', '{"text":"One.","duration":600.5}', '{"text":"Two."}');
    expect(JSON.parse(joined)).toEqual({ text: 'One. Two.', duration: 600.5 });
  });

  test('as verbose JSON with times that go on and segments numbered through', () => {
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

  test('as verbose JSON with what only a later part has: the first may be silent', () => {
    const spoken = { start: 0, end: 1, text: 'Two.' };
    const word = { word: 'Two.', start: 0, end: 1 };
    const second = JSON.stringify({ text: 'Two.', segments: [spoken], words: [word] });
    expect(JSON.parse(join('verbose_json', '{"text":""}', second))).toEqual({
      text: 'Two.',
      segments: [{ id: 0, start: 600.5, end: 601.5, text: 'Two.' }],
      words: [{ word: 'Two.', start: 600.5, end: 601.5 }],
    });
  });

  test('as SRT with cues numbered through', () => {
    const first =
      '1\n00:00:00,000 --> 00:00:03,320\nHello\nthere\n\n2\n00:00:03,320 --> 00:00:04,000\nyou\n\n';
    const second = '1\r\n00:49:30,000 --> 01:00:00,999\r\nagain\r\n\r\n';
    expect(join('srt', first, second)).toBe(
      '1\n00:00:00,000 --> 00:00:03,320\nHello\nthere\n\n' +
        '2\n00:00:03,320 --> 00:00:04,000\nyou\n\n' +
        '3\n00:59:30,500 --> 01:10:01,499\nagain\n\n',
    );
  });

  test('as WebVTT under one header, also from short times', () => {
    const first = 'WEBVTT\n\n00:00:00.000 --> 00:00:03.320 align:start\nHello\n\n';
    const second = 'WEBVTT\n\nNOTE nothing\n\n00:01.000 --> 00:02.000\nagain\n';
    expect(join('vtt', first, second)).toBe(
      'WEBVTT\n\n00:00:00.000 --> 00:00:03.320 align:start\nHello\n\n' +
        '00:10:01.500 --> 00:10:02.500\nagain\n\n',
    );
  });

  test('without cues are nothing, however many empty lines they have', () => {
    expect(join('srt', ' \n'.repeat(500_000), '\t\r\n '.repeat(300_000))).toBe('');
  });

  test('of one part alone are left as they came', () => {
    const body = '{"text":"One.","logprobs":[1e-7]}';
    expect(joinTranscripts('json', [{ body, startMs: 0 }])).toBe(body);
  });

  test('unless a part came back as something else', () => {
    expect(() => join('json', '{"text":"One."}', '<html>')).toThrow(
      'The transcript of part 2 came back as something else than JSON.',
    );
  });
});
