import { GatewayError } from '../../core/errors.ts';
import { isObject, type JsonObject, objectsIn, parseJson } from '../../core/json.ts';
import type { TranscriptFormat } from '../../core/media/audio.ts';
import { readCues, writeSubtitles } from '../../core/media/subtitles.ts';

export interface TranscriptPiece {
  readonly body: string;
  /** Added to every time in the body. */
  readonly startMs: number;
}

/** Joins the transcripts of the pieces of an audio file. */
export function joinTranscripts(
  format: TranscriptFormat,
  pieces: readonly TranscriptPiece[],
): string {
  const [only] = pieces;
  if (only && pieces.length === 1) return only.body;
  switch (format) {
    case 'text':
      return `${joinTexts(pieces.map(({ body }) => body))}\n`;
    case 'srt':
    case 'vtt':
      return writeSubtitles(format, pieces.flatMap(shiftedCues));
    case 'json':
    case 'verbose_json':
      return JSON.stringify(joinJson(pieces));
  }
}

function shiftedCues({ body, startMs }: TranscriptPiece) {
  return readCues(body).map((cue) => ({
    ...cue,
    startMs: cue.startMs + startMs,
    endMs: cue.endMs + startMs,
  }));
}

interface ParsedPiece {
  readonly fields: JsonObject;
  readonly startMs: number;
}

function joinJson(pieces: readonly TranscriptPiece[]): JsonObject {
  const parsed = pieces.map(({ body, startMs }, index) => ({
    fields: readObject(body, index),
    startMs,
  }));
  const first = parsed[0]?.fields ?? {};
  const segments = shiftedEntries(parsed, 'segments').map((segment, id) => ({ ...segment, id }));
  const words = shiftedEntries(parsed, 'words');
  const seconds = sum(parsed.map(({ fields }) => fields.duration));
  const usedSeconds = sum(
    parsed.map(({ fields: { usage } }) => (isObject(usage) ? usage.seconds : null)),
  );
  const { usage: _, ...rest } = first;
  return {
    ...rest,
    text: joinTexts(parsed.map(({ fields }) => String(fields.text ?? ''))),
    ...(seconds === null ? {} : { duration: seconds }),
    ...(segments.length > 0 ? { segments } : {}),
    ...(words.length > 0 ? { words } : {}),
    ...(usedSeconds === null ? {} : { usage: { type: 'duration', seconds: usedSeconds } }),
  };
}

function readObject(body: string, index: number): JsonObject {
  const value = parseJson(body);
  if (isObject(value)) return value;
  const message = `The provider's transcript of piece ${index + 1} isn't valid JSON.`;
  throw new GatewayError('upstream_error', message);
}

/** Returns the timed entries of all pieces, with times relative to the full audio file. */
function shiftedEntries(pieces: readonly ParsedPiece[], name: 'segments' | 'words'): JsonObject[] {
  return pieces.flatMap(({ fields, startMs }) =>
    objectsIn(fields[name]).map((entry) => ({
      ...entry,
      ...('start' in entry ? { start: shifted(entry.start, startMs) } : {}),
      ...('end' in entry ? { end: shifted(entry.end, startMs) } : {}),
    })),
  );
}

function shifted(seconds: unknown, startMs: number): unknown {
  return typeof seconds === 'number' ? Math.round(seconds * 1000 + startMs) / 1000 : seconds;
}

/** Returns null if any value is missing, because a partial sum would be wrong. */
function sum(values: readonly unknown[]): number | null {
  let ms = 0;
  for (const value of values) {
    if (typeof value !== 'number') return null;
    ms += Math.round(value * 1000);
  }
  return ms / 1000;
}

const unspaced = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}。！？、，]/u;

/** Joins texts with a space, unless the language doesn't use spaces. */
function joinTexts(texts: readonly string[]): string {
  return texts
    .map((text) => text.trim())
    .filter((text) => text !== '')
    .reduce((joined, text) => {
      const isUnspaced = unspaced.test(joined.slice(-1)) || unspaced.test(text.slice(0, 1));
      return joined === '' ? text : `${joined}${isUnspaced ? '' : ' '}${text}`;
    }, '');
}
