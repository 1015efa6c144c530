/** A request for a transcript in OpenAI's words, as the fields of a form. */
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import type { Ask } from '../../../core/ask.ts';
import { invalidRequest } from '../../../core/errors.ts';
import { flagIn, givenTwice, listIn, listName, numberIn } from '../../../core/form.ts';
import { refuseUntold, transcriptFields } from '../../../core/media/audio-formats.ts';
import { misfit } from '../../../core/misfit.ts';
import { optional } from '../../../core/schema-builders.ts';
import { label, routingFields, wholeAsk } from '../../ask/routing.ts';
import type { TranscriptionWish } from '../../media/transcription.ts';
import { type FormFields, sortForm } from './form-routing.ts';

export const transcriptionSchema = Type.Object({
  ...routingFields,
  ...transcriptFields,
  stream: optional(Type.Boolean()),
  user: label,
});

const validator = Compile(transcriptionSchema);

export interface TranscriptionRequest {
  readonly ask: Ask;
  readonly wish: TranscriptionWish;
}

export function readTranscriptionRequest(fields: FormFields): TranscriptionRequest {
  const { value, more } = valuesOf(fields);
  if (!validator.Check(value)) throw misfit(transcriptionSchema, value);
  if (value.stream) {
    throw invalidRequest('stream must be left out: transcripts are answered whole.', 'stream');
  }
  const granularities = value.timestamp_granularities ?? [];
  refuseUntold(value.response_format, granularities);
  return {
    ask: wholeAsk('transcription', value, more),
    wish: {
      format: value.response_format ?? 'json',
      language: value.language ?? null,
      prompt: value.prompt ?? null,
      temperature: value.temperature ?? null,
      granularities,
      more,
    },
  };
}

/**
 * Fields in which vendors (Groq, Mistral) take the address or the id of a recording. They are
 * refused: only the uploaded file was measured, and an id may be another tenant's.
 */
const otherRecording = /^(?:ur[il]|(?:audio|file|media)_?(?:ur[il]|id|data))s?(?:\[\])?$/i;

function valuesOf(fields: FormFields) {
  const { routing, rest } = sortForm(fields);
  const value: Record<string, unknown> = { ...routing };
  const more: Record<string, readonly string[]> = {};
  const times: unknown[] = [];
  for (const [name, texts] of rest) {
    if (listName(name) === 'timestamp_granularities') times.push(...listIn(texts));
    else if (otherRecording.test(name)) {
      throw invalidRequest(`${name} names another recording than file: leave it out.`, name);
    } else if (!Object.hasOwn(transcriptionSchema.properties, name)) more[name] = texts;
    else if (texts.length > 1) throw givenTwice(name);
    else value[name] = readValue(name, texts[0] ?? '');
  }
  if (times.length > 0) value.timestamp_granularities = times;
  return { value, more };
}

/** Forms also send fields that were left blank; those count as not set. */
function readValue(name: string, text: string): unknown {
  if (text === '') return undefined;
  if (name === 'temperature') return numberIn(text);
  if (name === 'stream') return flagIn(text);
  return text;
}
