import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { invalidRequest } from '../../core/errors.ts';
import {
  duplicateField,
  formListName,
  parseFormFlag,
  parseFormList,
  parseFormNumber,
} from '../../core/form.ts';
import { fieldsOf, isObject, type JsonObject, parseJson } from '../../core/json.ts';
import {
  rejectUnsupportedTimestamps,
  type TranscriptFormat,
  transcriptFields,
  transcriptFormats,
} from '../../core/media/audio.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { optional, validationError } from '../../core/schema.ts';
import type { ReadResult } from '../dialect.ts';
import { failureInside, malformed, readAnswer } from '../failure.ts';
import type { Transcript, TranscriptionDialect, TranscriptionOptions } from '../media.ts';
import { label, nonStreamingRequest, routingFields } from '../normalize/requests/routing.ts';
import { toVendorParameters } from '../normalize/requests/vendor-parameters.ts';
import { removeCharges, removePrivateFields } from '../normalize/responses/private-fields.ts';
import { writeForm } from '../streamed-body.ts';
import { type FormFields, sortForm } from './form-routing.ts';

// Transcription requests in OpenAI's format, as the fields of a form.

export const transcriptionSchema = Type.Object({
  ...routingFields,
  ...transcriptFields,
  stream: optional(Type.Boolean()),
  user: label,
});

const validator = Compile(transcriptionSchema);

export interface TranscriptionRequest {
  readonly request: RequestInfo;
  readonly options: TranscriptionOptions;
}

export function readTranscriptionRequest(fields: FormFields): TranscriptionRequest {
  const { value, extraFields } = valuesOf(fields);
  if (!validator.Check(value)) throw validationError(transcriptionSchema, value);
  if (value.stream) {
    throw invalidRequest('stream is not supported for transcripts. Leave it out.', 'stream');
  }
  const granularities = value.timestamp_granularities ?? [];
  rejectUnsupportedTimestamps(value.response_format, granularities);
  return {
    request: nonStreamingRequest('transcription', value, extraFields),
    options: {
      format: value.response_format ?? 'json',
      language: value.language ?? null,
      prompt: value.prompt ?? null,
      temperature: value.temperature ?? null,
      granularities,
      extraFields,
    },
  };
}

/**
 * Fields that vendors (Groq, Mistral) read the URL or ID of an audio file from. They are rejected,
 * because only the duration of the uploaded file is measured, and an ID may belong to another
 * tenant.
 */
const otherAudioField = /^(?:ur[il]|(?:audio|file|media)_?(?:ur[il]|id|data))s?(?:\[\])?$/i;

function valuesOf(fields: FormFields) {
  const { routing, rest } = sortForm(fields);
  const value: Record<string, unknown> = { ...routing };
  const extraFields: Record<string, readonly string[]> = {};
  const times: unknown[] = [];
  for (const [name, texts] of rest) {
    if (formListName(name) === 'timestamp_granularities') times.push(...parseFormList(texts));
    else if (otherAudioField.test(name)) {
      throw invalidRequest(`${name} is not supported. Upload the audio in file.`, name);
    } else if (!Object.hasOwn(transcriptionSchema.properties, name)) extraFields[name] = texts;
    else if (texts.length > 1) throw duplicateField(name);
    else value[name] = readValue(name, texts[0] ?? '');
  }
  if (times.length > 0) value.timestamp_granularities = times;
  return { value, extraFields };
}

/** Forms send blank fields, which count as unset. */
function readValue(name: string, text: string): unknown {
  if (text === '') return undefined;
  if (name === 'temperature') return parseFormNumber(text);
  if (name === 'stream') return parseFormFlag(text);
  return text;
}

// Transcription of OpenAI-style upstreams, in the format that the client requested.

export const openAiTranscription: TranscriptionDialect = {
  formats: transcriptFormats,
  write({ format, language, prompt, temperature, granularities, extraFields }, audio, target) {
    const times = granularities.length > 0 ? granularities : null;
    const { fields, dropped } = toVendorParameters(
      { ...extraFields, language, prompt, temperature, 'timestamp_granularities[]': times },
      target,
    );
    const all = { model: target.upstreamModel, response_format: format, ...fields };
    const form = writeForm(all, [{ name: 'file', ...audio }]);
    return { path: '/audio/transcriptions', ...form, dropped };
  },
  read: readTranscript,
};

const htmlPage = /^\s*<(?:!doctype|html)/i;

/**
 * Reads a transcript. Formats other than JSON are plain text, but some servers always send JSON.
 */
export function readTranscript(text: string, format: TranscriptFormat): ReadResult<Transcript> {
  if (format === 'json' || format === 'verbose_json') return readAnswer(text, readFields);
  const body = text.trimStart().startsWith('{') ? parseJson(text) : undefined;
  if (!isObject(body)) {
    if (!htmlPage.test(text)) return { ok: true, value: { kind: 'text', text } };
    return { ok: false, failure: malformed('The provider returned a web page.') };
  }
  const read = readFields(body);
  if (!read.ok || format === 'text') return read;
  const message = `The provider returned JSON instead of ${format}.`;
  return { ok: false, failure: malformed(message) };
}

function readFields(body: JsonObject): ReadResult<Transcript> {
  const failure = failureInside(body);
  if (failure) return { ok: false, failure };
  // Drop the raw `duration`: clients get the duration that `readSeconds` read, or none. `provider`
  // is the one that another gateway chose.
  const { text, duration: _, provider: __, ...fields } = body;
  if (typeof text !== 'string') {
    return { ok: false, failure: malformed('The provider returned no transcript.') };
  }
  const seconds = readSeconds(body);
  removePrivateFields(fields);
  removeCharges(fields.usage);
  return { ok: true, value: { kind: 'fields', text, seconds, fields } };
}

/**
 * Reads the duration from `duration` or the usage. Returns null if neither has a number, and 0 if
 * all numbers are 0 or negative.
 */
function readSeconds({ duration, usage }: Readonly<JsonObject>): number | null {
  const used = fieldsOf(usage);
  let found: number | null = null;
  // Mistral has its own name for the duration.
  for (const value of [duration, used.seconds, used.prompt_audio_seconds]) {
    // OpenAI sent the duration as a string for a while.
    const isText = typeof value === 'string' && /^-?\d+(?:\.\d+)?$/.test(value);
    const seconds = isText ? Number(value) : value;
    if (typeof seconds !== 'number' || !Number.isFinite(seconds)) continue;
    if (seconds > 0) return seconds;
    found = 0;
  }
  return found;
}
