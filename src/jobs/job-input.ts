import { Compile } from 'typebox/schema';
import {
  metadataNameLengthMax,
  type SpeechInput,
  speechJobSchema,
  transcriptionJobSchema,
} from '../contract/jobs.ts';
import { jobTextLengthMax } from '../core/bounds.ts';
import { invalidRequest } from '../core/errors.ts';
import { duplicateField, formListName, parseFormList, parseFormNumber } from '../core/form.ts';
import { fieldsOf, isObject, parseJson } from '../core/json.ts';
import { rejectInvalidSpeechInput, rejectUnsupportedTimestamps } from '../core/media/audio.ts';
import { validate } from '../core/schema.ts';
import { countCharacters } from '../core/text.ts';

/** Reads and validates the requests that create jobs. */

const metadataEntriesMax = 16;

const speechCheck = Compile(speechJobSchema);
const transcriptionCheck = Compile(transcriptionJobSchema);

export function readSpeechInput(body: unknown): SpeechInput {
  rejectRouting(body);
  rejectMetadata(body);
  const input = validate(speechCheck, speechJobSchema, body);
  if (countCharacters(input.input) > jobTextLengthMax) {
    const message = `input is too long: a job accepts at most ${jobTextLengthMax} characters.`;
    throw invalidRequest(message, 'input');
  }
  rejectInvalidSpeechInput(input.input);
  return input;
}

/** Reads the text fields of a form, converting each to the type of its schema. */
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
  rejectRouting(body);
  rejectMetadata(body);
  const input = validate(transcriptionCheck, transcriptionJobSchema, body);
  rejectUnsupportedTimestamps(input.response_format, input.timestamp_granularities);
  return input;
}

function readField(name: string, text: string): unknown {
  // Browsers also send the fields that the user left blank.
  if (text === '') return undefined;
  if (name === 'temperature') return parseFormNumber(text);
  return name === 'metadata' ? (parseJson(text) ?? text) : text;
}

/** Also matches the form notation, such as `provider[only][]`. */
const routing = /^(?:models|provider|route)(?:\[|$)/;

/**
 * Rejects routing fields, which jobs don't support. Ignoring them could send the input to a
 * provider that the client meant to exclude.
 */
function rejectRouting(body: unknown): void {
  for (const [name, value] of Object.entries(fieldsOf(body))) {
    if (!routing.test(name) || (value ?? null) === null) continue;
    const message = `${name} isn't supported for jobs. Remove it and set model to one model.`;
    throw invalidRequest(message, name);
  }
}

/** Runs before the schema check, which would report a key of invalid length as an unknown field. */
function rejectMetadata(body: unknown): void {
  const names = isObject(body) && isObject(body.metadata) ? Object.keys(body.metadata) : [];
  if (names.length > metadataEntriesMax) {
    throw invalidRequest(`metadata can have at most ${metadataEntriesMax} entries.`, 'metadata');
  }
  const invalidName = names.find(({ length }) => length === 0 || length > metadataNameLengthMax);
  if (invalidName === undefined) return;
  const message =
    `metadata keys must have 1 to ${metadataNameLengthMax} characters; ` +
    `one has ${invalidName.length}.`;
  throw invalidRequest(message, 'metadata');
}
