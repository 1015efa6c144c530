/** Transcription of an OpenAI-style upstream, asked for the format that the client wants. */

import { type Fields, fieldsOf, isObject, parseJson } from '../../../core/json.ts';
import { type TranscriptFormat, transcriptFormats } from '../../../core/media/audio-formats.ts';
import type { UpstreamFailure } from '../../dialect.ts';
import { failureInside, malformed } from '../../failure.ts';
import { writeForm } from '../../long-body.ts';
import { spell } from '../../media/spell.ts';
import type { Transcript, TranscriptionDialect } from '../../media/transcription.ts';
import { readAnswer } from '../../read-answer.ts';

export const openAiTranscription: TranscriptionDialect = {
  formats: transcriptFormats,
  write({ format, language, prompt, temperature, granularities, more }, audio, target) {
    const times = granularities.length > 0 ? granularities : null;
    const { fields, dropped } = spell(
      { ...more, language, prompt, temperature, 'timestamp_granularities[]': times },
      target,
    );
    const all = { model: target.upstreamModel, response_format: format, ...fields };
    const form = writeForm(all, [{ name: 'file', ...audio }]);
    return { path: '/audio/transcriptions', ...form, dropped };
  },
  read: readTranscript,
};

const isPage = /^\s*<(?:!doctype|html)/i;

/** Text formats come as they are; but some servers know only JSON, whatever was asked for. */
export function readTranscript(
  text: string,
  format: TranscriptFormat,
): Transcript | UpstreamFailure {
  if (format === 'json' || format === 'verbose_json') return readAnswer(text, readFields);
  const body = text.trimStart().startsWith('{') ? parseJson(text) : undefined;
  if (!isObject(body)) {
    if (isPage.test(text)) return malformed('The provider answered with a web page.');
    return { kind: 'text', text };
  }
  const read = readFields(body);
  if (!('fields' in read) || format === 'text') return read;
  return malformed(`The provider answered with JSON where ${format} was asked for.`);
}

function readFields(body: Fields): Transcript | UpstreamFailure {
  const failure = failureInside(body);
  if (failure) return failure;
  // The raw `duration` is taken out: clients get the one that `readSeconds` could read, or none.
  const { text, duration: _, ...fields } = body;
  if (typeof text !== 'string') return malformed('The provider answered without a transcript.');
  return { kind: 'fields', text, seconds: readSeconds(body), fields };
}

/** `duration`, or what the usage says; null when neither is a length. */
function readSeconds({ duration, usage }: Readonly<Fields>): number | null {
  const used = fieldsOf(usage);
  // Mistral has a name of its own for the length.
  for (const value of [duration, used.seconds, used.prompt_audio_seconds]) {
    // OpenAI wrote the duration in quotes for a while.
    const isText = typeof value === 'string' && /^\d+(?:\.\d+)?$/.test(value);
    const seconds = isText ? Number(value) : value;
    if (typeof seconds === 'number' && Number.isFinite(seconds) && seconds >= 0) return seconds;
  }
  return null;
}
