import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { embeddingsInputsMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import { isObject, itemsOf, type JsonObject } from '../../core/json.ts';
import type { RequestInfo } from '../../core/request-info.ts';
import { explain, oneOf, optional, type ValidationIssue } from '../../core/schema.ts';
import { promptTokens } from '../../core/usage.ts';
import type { ReadResult } from '../dialect.ts';
import { failureInside, malformed, readAnswer } from '../failure.ts';
import {
  type EmbeddingBatch,
  type EmbeddingInput,
  type EmbeddingsDialect,
  type EmbeddingsOptions,
  readVector,
  type Vector,
} from '../media.ts';
import { label, nonStreamingRequest, routingFields } from '../normalize/requests/routing.ts';
import { forwardableFields } from '../normalize/requests/unknown-fields.ts';
import { toVendorParameters } from '../normalize/requests/vendor-parameters.ts';
import { readUsage } from '../openai-chat/usage.ts';

/** No tokenizer has this many tokens. */
const tokenMax = 10_000_000;

/** Returns true for a list of inputs. A list of numbers is a single input. */
function isInputList(
  input: EmbeddingInput | readonly EmbeddingInput[],
): input is readonly EmbeddingInput[] {
  return Array.isArray(input) && typeof input[0] !== 'number';
}

/** Returns what is wrong with an input that the schema rejected, and where. */
function inputProblem(input: unknown): ValidationIssue {
  const path = 'input';
  const kinds = 'a string, a list of strings, a list of token IDs, or a list of token ID lists';
  if (input === undefined || input === null) return { path, message: `is required: ${kinds}` };
  if (input === '') return { path, message: emptyInput };
  if (!Array.isArray(input)) return { path, message: `must be ${kinds}` };
  const [first] = input;
  if (input.length === 0) return { path, message: 'must have at least one item' };
  if (typeof first !== 'number' && input.length > embeddingsInputsMax) {
    const limit = embeddingsInputsMax;
    return { path, message: `has ${input.length} items; at most ${limit} are allowed` };
  }
  // All items must have the type of the first.
  if (typeof first === 'number') return firstProblem(input, path, problemOfToken);
  return firstProblem(input, path, Array.isArray(first) ? problemOfTokens : problemOfText);
}

type ItemCheck = (item: unknown, path: string) => ValidationIssue | undefined;

function firstProblem(items: readonly unknown[], path: string, check: ItemCheck): ValidationIssue {
  for (const [index, item] of items.entries()) {
    const problem = check(item, `${path}[${index}]`);
    if (problem) return problem;
  }
  return { path, message: 'is not valid' };
}

const emptyInput = 'is empty';

function problemOfText(item: unknown, path: string): ValidationIssue | undefined {
  if (typeof item !== 'string') return { path, message: 'must be a string' };
  return item === '' ? { path, message: emptyInput } : undefined;
}

function problemOfToken(item: unknown, path: string): ValidationIssue | undefined {
  const isToken = Number.isInteger(item) && Number(item) >= 0 && Number(item) <= tokenMax;
  return isToken ? undefined : { path, message: 'must be a token ID' };
}

function problemOfTokens(item: unknown, path: string): ValidationIssue | undefined {
  if (!Array.isArray(item)) return { path, message: 'must be a list of token IDs' };
  if (item.length === 0) return { path, message: emptyInput };
  const at = item.findIndex((token) => problemOfToken(token, path) !== undefined);
  return at < 0 ? undefined : problemOfToken(item[at], `${path}[${at}]`);
}

// Embeddings requests in OpenAI's format, as clients send them.

/** Far above any model's maximum. This bound only rejects absurd numbers. */
const dimensionsMax = 65_536;

const tokens = Type.Array(Type.Integer({ minimum: 0, maximum: tokenMax }), { minItems: 1 });

export const embeddingsSchema = Type.Object({
  ...routingFields,
  input: Type.Union([
    Type.String({ minLength: 1 }),
    Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: embeddingsInputsMax }),
    tokens,
    Type.Array(tokens, { minItems: 1, maxItems: embeddingsInputsMax }),
  ]),
  encoding_format: optional(oneOf('float', 'base64')),
  dimensions: optional(Type.Integer({ minimum: 1, maximum: dimensionsMax })),
  user: label,
});
const validator = Compile(embeddingsSchema);

export interface EmbeddingsRequest {
  readonly request: RequestInfo;
  readonly options: EmbeddingsOptions;
}

export function readEmbeddingsRequest(value: Record<string, unknown>): EmbeddingsRequest {
  if (!validator.Check(value)) throw validationError(value);
  const { input, encoding_format, dimensions, user } = value;
  const extraFields = forwardableFields(value, embeddingsSchema.properties);
  return {
    request: nonStreamingRequest('embeddings', value, extraFields),
    options: {
      inputs: isInputList(input) ? input : [input],
      isList: isInputList(input),
      encoding: encoding_format === 'base64' ? 'base64' : 'float',
      dimensions: dimensions ?? null,
      user: user ?? null,
      extraFields,
    },
  };
}

/** Explains `input` separately, because the schema can't explain a union of 4 types. */
function validationError(value: Record<string, unknown>): GatewayError {
  const { input, ...rest } = value;
  const [problem] = explain(Type.Omit(embeddingsSchema, ['input']), rest);
  const { path, message } = problem ?? inputProblem(input);
  return invalidRequest(`${path} ${message}.`, path);
}

// Embeddings of OpenAI-style upstreams.

/** OpenAI's maximum number of inputs per call. */
const inputsMax = 2_048;
/**
 * Vectors written as decimal numbers are longer: more than 512 of 3,072 dimensions would exceed the
 * maximum response size.
 */
const decimalInputsMax = 512;

export const openAiEmbeddings: EmbeddingsDialect = {
  acceptsTokens: true,
  batchMax: ({ encoding }) => (encoding === 'base64' ? inputsMax : decimalInputsMax),
  write({ inputs, isList, encoding, dimensions, user, extraFields }, target) {
    const [only] = inputs;
    const { fields, dropped } = toVendorParameters(
      { ...extraFields, encoding_format: encoding, dimensions, user },
      target,
    );
    const body = { ...fields, model: target.upstreamModel, input: isList ? inputs : only };
    return {
      path: '/embeddings',
      body: JSON.stringify(body),
      // The client doesn't need to know which encoding the upstream uses.
      dropped: dropped.filter((name) => name !== 'encoding_format'),
    };
  },
  readBatch: (text) => readAnswer(text, read),
};

function read(body: JsonObject): ReadResult<EmbeddingBatch> {
  const failure = failureInside(body);
  if (failure !== undefined) return { ok: false, failure };
  const data = itemsOf(body.data);
  const vectors: Vector[] = [];
  for (const [position, item] of data.entries()) {
    if (!isObject(item)) {
      const message = 'The provider returned an item that is not an object.';
      return { ok: false, failure: malformed(message) };
    }
    const vector = readVector(item.embedding);
    const index = Number.isInteger(item.index) ? Number(item.index) : position;
    const isFree = index >= 0 && index < data.length && vectors[index] === undefined;
    if (vector === undefined || !isFree) {
      const message = `The provider returned an invalid embedding or index in item ${position}.`;
      return { ok: false, failure: malformed(message) };
    }
    vectors[index] = vector;
  }
  return { ok: true, value: { vectors, promptTokens: promptTokensIn(body.usage) } };
}

/**
 * Returns the prompt tokens. Voyage reports only the total, which is the same number, because
 * embeddings have no output tokens.
 */
function promptTokensIn(raw: unknown): number | null {
  const isTotal = isObject(raw) && (raw.prompt_tokens ?? null) === null;
  const usage = readUsage(isTotal ? { prompt_tokens: raw.total_tokens } : raw);
  return usage ? promptTokens(usage) : null;
}
