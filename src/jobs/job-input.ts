import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { jobTextLengthMax } from '../core/bounds.ts';
import { invalidRequest } from '../core/errors.ts';
import { duplicateField, formListName, parseFormList, parseFormNumber } from '../core/form.ts';
import { fieldsOf, isObject, parseJson } from '../core/json.ts';
import {
  refuseInvalidSpeechInput,
  refuseUnsupportedTimestamps,
  speechFields,
  transcriptFields,
} from '../core/media/audio.ts';
import { optional, validate } from '../core/schema.ts';
import { countCharacters } from '../core/text.ts';

/** What may be asked of a job, and every rule about it that needs no other part. */

const metadataEntriesMax = 16;
const metadataNameLengthMax = 64;

/** As OpenAI bounds it, so that what works there works here. */
const metadata = Type.Record(
  Type.String({ pattern: `^[\\s\\S]{1,${metadataNameLengthMax}}$` }),
  Type.String({ maxLength: 512 }),
  { additionalProperties: false },
);

const alias = Type.String({ minLength: 1, maxLength: 200 });
const webhookUrl = Type.String({
  pattern: '^https?://[\\x21-\\x7e]{1,2000}$',
  expected: 'an http(s) address of at most 2000 characters',
});

export const speechJobSchema = Type.Object({
  model: alias,
  input: Type.String(),
  ...speechFields,
  webhook_url: optional(webhookUrl),
  metadata: optional(metadata),
});

export const transcriptionJobSchema = Type.Object({
  model: alias,
  ...transcriptFields,
  webhook_url: optional(webhookUrl),
  metadata: optional(metadata),
});

const speechCheck = Compile(speechJobSchema);
const transcriptionCheck = Compile(transcriptionJobSchema);

export type SpeechInput = Static<typeof speechJobSchema>;
export type TranscriptionInput = Static<typeof transcriptionJobSchema>;

export function readSpeechInput(body: unknown): SpeechInput {
  refuseRouting(body);
  refuseMetadata(body);
  const input = validate(speechCheck, speechJobSchema, body);
  if (countCharacters(input.input) > jobTextLengthMax) {
    const message = `input is longer than the ${jobTextLengthMax} characters that a job takes.`;
    throw invalidRequest(message, 'input');
  }
  refuseInvalidSpeechInput(input.input);
  return input;
}

/** The fields of a form; each value is text until it is known what it should be. */
export function readTranscriptionInput(fields: ReadonlyMap<string, readonly string[]>) {
  const body: Record<string, unknown> = {};
  const granularities: unknown[] = [];
  for (const [name, values] of fields) {
    const field = formListName(name);
    if (field === 'timestamp_granularities') {
      granularities.push(...parseFormList(values));
      body[field] = granularities;
    } else if (values.length > 1 || Object.hasOwn(body, field)) {
      throw duplicateField(name);
    } else body[field] = readField(field, values[0] ?? '');
  }
  refuseRouting(body);
  refuseMetadata(body);
  const input = validate(transcriptionCheck, transcriptionJobSchema, body);
  refuseUnsupportedTimestamps(input.response_format, input.timestamp_granularities);
  return input;
}

function readField(name: string, text: string): unknown {
  // Forms send fields that were left blank.
  if (text === '') return undefined;
  if (name === 'temperature') return parseFormNumber(text);
  return name === 'metadata' ? (parseJson(text) ?? text) : text;
}

/** `provider[only][]` is how forms write it. */
const routing = /^(?:models|provider|route)(?:\[|$)/;

/**
 * Jobs do not follow these fields, so they are refused: a client that shuts a provider out must not
 * find that it got the text all the same.
 */
function refuseRouting(body: unknown): void {
  for (const [name, value] of Object.entries(fieldsOf(body))) {
    if (!routing.test(name) || (value ?? null) === null) continue;
    const message = `${name} must be left out: a job names one model, and no way to it.`;
    throw invalidRequest(message, name);
  }
}

/** Checked before the schema, which can only say that a name of a wrong length is unknown. */
function refuseMetadata(body: unknown): void {
  const names = isObject(body) && isObject(body.metadata) ? Object.keys(body.metadata) : [];
  if (names.length > metadataEntriesMax) {
    throw invalidRequest(`metadata has more than ${metadataEntriesMax} entries.`, 'metadata');
  }
  const invalidName = names.find(({ length }) => length === 0 || length > metadataNameLengthMax);
  if (invalidName === undefined) return;
  const bound = `names have 1 to ${metadataNameLengthMax}`;
  throw invalidRequest(
    `metadata has a name of ${invalidName.length} characters; ${bound}.`,
    'metadata',
  );
}
