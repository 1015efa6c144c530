import { GatewayError } from '../../core/errors.ts';
import { type Fields, isObject, objectsIn, parseJson } from '../../core/json.ts';
import type { TranscriptFormat } from '../../core/media/audio-formats.ts';
import { readCues, writeSubtitles } from '../../core/media/subtitles.ts';

export interface TimedText {
  readonly body: string;
  /** Added to every time in the body. */
  readonly startMs: number;
}

/** The transcripts of the parts of one recording as the transcript of the whole. */
export function joinTranscripts(format: TranscriptFormat, parts: readonly TimedText[]): string {
  const [only] = parts;
  if (only && parts.length === 1) return only.body;
  switch (format) {
    case 'text':
      return `${joinWords(parts.map(({ body }) => body))}\n`;
    case 'srt':
    case 'vtt':
      return writeSubtitles(format, parts.flatMap(movedCues));
    case 'json':
    case 'verbose_json':
      return JSON.stringify(joinJson(parts));
  }
}

function movedCues({ body, startMs }: TimedText) {
  return readCues(body).map((cue) => ({
    ...cue,
    startMs: cue.startMs + startMs,
    endMs: cue.endMs + startMs,
  }));
}

interface ReadPart {
  readonly fields: Fields;
  readonly startMs: number;
}

function joinJson(parts: readonly TimedText[]): Fields {
  const read = parts.map(({ body, startMs }, index) => ({
    fields: readObject(body, index),
    startMs,
  }));
  const first = read[0]?.fields ?? {};
  const segments = timed(read, 'segments').map((segment, id) => ({ ...segment, id }));
  const words = timed(read, 'words');
  const seconds = sum(read.map(({ fields }) => fields.duration));
  const used = sum(read.map(({ fields: { usage } }) => (isObject(usage) ? usage.seconds : null)));
  const { usage: _, ...rest } = first;
  return {
    ...rest,
    text: joinWords(read.map(({ fields }) => String(fields.text ?? ''))),
    ...(seconds === null ? {} : { duration: seconds }),
    ...(segments.length > 0 ? { segments } : {}),
    ...(words.length > 0 ? { words } : {}),
    ...(used === null ? {} : { usage: { type: 'duration', seconds: used } }),
  };
}

function readObject(body: string, index: number): Fields {
  const value = parseJson(body);
  if (isObject(value)) return value;
  const message = `The transcript of part ${index + 1} came back as something else than JSON.`;
  throw new GatewayError('upstream_error', message);
}

/** Everything of one kind that has times, moved to its place in the recording. */
function timed(parts: readonly ReadPart[], name: 'segments' | 'words'): Fields[] {
  return parts.flatMap(({ fields, startMs }) =>
    objectsIn(fields[name]).map((entry) => ({
      ...entry,
      ...('start' in entry ? { start: later(entry.start, startMs) } : {}),
      ...('end' in entry ? { end: later(entry.end, startMs) } : {}),
    })),
  );
}

function later(seconds: unknown, startMs: number): unknown {
  return typeof seconds === 'number' ? Math.round(seconds * 1000 + startMs) / 1000 : seconds;
}

/** Null as soon as one is missing: half a sum would be a lie. */
function sum(values: readonly unknown[]): number | null {
  let ms = 0;
  for (const value of values) {
    if (typeof value !== 'number') return null;
    ms += Math.round(value * 1000);
  }
  return ms / 1000;
}

const unspaced = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}。！？、，]/u;

/** With a space between, where the language has spaces. */
function joinWords(texts: readonly string[]): string {
  return texts
    .map((text) => text.trim())
    .filter((text) => text !== '')
    .reduce((whole, text) => {
      const isUnspaced = unspaced.test(whole.slice(-1)) || unspaced.test(text.slice(0, 1));
      return whole === '' ? text : `${whole}${isUnspaced ? '' : ' '}${text}`;
    }, '');
}
