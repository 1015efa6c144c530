import { jsonDepthMax } from '../../../core/bounds.ts';
import { fieldsOf, isObject, type JsonObject } from '../../../core/json.ts';
import type { JsonFormat, Prompt, Tool, Turn } from '../../../core/prompt.ts';
import type { Target, UpstreamRequest } from '../../dialect.ts';
import { detailNames, dropParameters } from '../../normalize/requests/drop-parameters.ts';
import {
  jsonInstruction,
  outputLimit,
  unlessCallingTools,
} from '../../normalize/requests/generation-options.ts';
import { cacheBreakpointNames } from '../../normalize/requests/prompt-cache.ts';
import { schemasByName } from '../../normalize/requests/tool-schema.ts';
import { isForced } from '../../normalize/requests/tools.ts';
import { type Content, writeContents } from './contents.ts';
import { imageModalities, isGemini3OrLater, modelPath, writeThinking } from './model.ts';

// Writes a prompt as a `generateContent` request.

/** Parameters that Gemini doesn't have, or whose output has no neutral form. */
const unsupportedParameters = [
  'logprobs',
  'top_logprobs',
  'logit_bias',
  'parallel_tool_calls',
  'user',
  'verbosity',
  'prompt_cache_key',
];

const stopSequencesMax = 5;
const seedMax = 2 ** 31 - 1;

export function writeRequest(prompt: Prompt, target: Target): UpstreamRequest {
  const { prompt: reduced, dropped } = dropParameters(prompt, unsupportedIn(prompt, target));
  const instructedFormat = mustInstruct(reduced, target) ? reduced.json : null;
  const instructions = instructedFormat
    ? [jsonInstruction(instructedFormat.schema, unlessCallingTools)]
    : [];
  const system = [...systemTexts(reduced.turns), ...instructions];
  const contents = writeContents(reduced.turns, target);
  // Gemini rejects a request without contents. If there are only instructions, send them as
  // contents.
  const isOnlySystem = contents.length === 0;
  const parts = system.map((text) => ({ text }));
  const body = {
    systemInstruction: parts.length === 0 || isOnlySystem ? undefined : { parts },
    contents: isOnlySystem ? [onlySystem(parts)] : contents,
    ...writeTools(reduced),
    generationConfig: writeConfig(reduced, target, instructedFormat ? null : reduced.json),
  };
  const verb = prompt.stream ? 'streamGenerateContent?alt=sse' : 'generateContent';
  return {
    path: modelPath(target.upstreamModel, verb),
    body: JSON.stringify(body),
    dropped: [
      ...dropped,
      ...cacheBreakpointNames(prompt),
      ...detailNames(prompt),
      ...(reduced.stop.length > stopSequencesMax ? ['stop'] : []),
    ],
  };
}

function* unsupportedIn(
  { sampling, reasoning }: Prompt,
  { quirks, thinking }: Target,
): Iterable<string> {
  yield* unsupportedParameters;
  yield* quirks.drop_params ?? [];
  // Disabling reasoning has no effect on a model that doesn't reason, so don't report it.
  if (thinking === null && reasoning?.effort !== 'none') yield 'reasoning';
  // Gemini rejects a larger seed.
  if (sampling.seed !== undefined && Math.abs(sampling.seed) > seedMax) yield 'seed';
}

function systemTexts(turns: readonly Turn[]): readonly string[] {
  const texts = turns.flatMap((turn) => (turn.role === 'system' ? turn.parts : []));
  return texts.map(({ text }) => text).filter((text) => text !== '');
}

function onlySystem(parts: readonly { text: string }[]): Content {
  return { role: 'user', parts: parts.length > 0 ? [...parts] : [{ text: ' ' }] };
}

/**
 * Returns true if the JSON format must be written as an instruction. Models before Gemini 3 reject
 * JSON output in requests with tools, and all models reject it with forced calls.
 */
function mustInstruct({ json, tools, toolChoice }: Prompt, target: Target): boolean {
  if (json === null || tools.length === 0) return false;
  return isForced(toolChoice) || !isGemini3OrLater(target);
}

function writeTools({ tools, toolChoice }: Prompt) {
  if (tools.length === 0) return {};
  const config = writeToolChoice(tools, toolChoice);
  const references = new References();
  return {
    tools: [{ functionDeclarations: tools.map((tool) => writeTool(tool, references)) }],
    toolConfig: config ? { functionCallingConfig: config } : undefined,
  };
}

/**
 * Writes a tool. Gemini's `parameters` accepts only a subset of OpenAPI schemas, but
 * `parametersJsonSchema` accepts JSON Schema.
 */
function writeTool({ name, description, parameters }: Tool, references: References) {
  const schema = references.resolveIn(parameters ?? {});
  const parametersJsonSchema = hasNoParameters(schema) ? undefined : objectSchema(schema);
  return { name, description, parametersJsonSchema };
}

const shapes = ['$ref', 'anyOf', 'oneOf', 'allOf', 'patternProperties'];

/**
 * Returns true for a tool without parameters. Its schema is omitted, because Gemini rejects an
 * object without properties.
 */
function hasNoParameters(schema: Readonly<JsonObject>): boolean {
  const { properties, additionalProperties } = schema;
  if (Object.keys(fieldsOf(properties)).length > 0) return false;
  return !isObject(additionalProperties) && !shapes.some((name) => name in schema);
}

/**
 * Adds the `type` that Gemini requires. A schema with a union or a `$ref` gets no `type`, because
 * Gemini rejects a `type` next to those keywords.
 */
function objectSchema(schema: Readonly<JsonObject>) {
  const plain = plainSchema(schema);
  return shapes.some((name) => name in plain) ? plain : { type: 'object', ...plain };
}

function answerSchema(schema: Readonly<JsonObject>) {
  return plainSchema(new References().resolveIn(schema));
}

function plainSchema({ $schema: _, ...rest }: Readonly<JsonObject>) {
  return rest;
}

function writeToolChoice(tools: readonly Tool[], choice: Prompt['toolChoice']) {
  if (choice === 'none') return { mode: 'NONE' };
  if (choice === 'required') return { mode: 'ANY' };
  if (choice !== null && choice !== 'auto') {
    return { mode: 'ANY', allowedFunctionNames: [choice.name] };
  }
  // The model decides whether to call tools, but the arguments must match the tools' schemas.
  if (tools.some(({ strict }) => strict === true)) return { mode: 'VALIDATED' };
  return choice === 'auto' ? { mode: 'AUTO' } : undefined;
}

function writeConfig(prompt: Prompt, target: Target, json: JsonFormat | null) {
  const { sampling, stop } = prompt;
  const generatesImages = target.outputModalities?.includes('image');
  return {
    candidateCount: prompt.choices > 1 ? prompt.choices : undefined,
    maxOutputTokens: outputLimit(prompt.outputTokensMax, target) ?? undefined,
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK,
    seed: sampling.seed,
    presencePenalty: sampling.presencePenalty,
    frequencyPenalty: sampling.frequencyPenalty,
    stopSequences: stop.length > 0 ? stop.slice(0, stopSequencesMax) : undefined,
    responseMimeType: json === null ? undefined : 'application/json',
    responseJsonSchema: json?.schema ? answerSchema(json.schema) : undefined,
    thinkingConfig: writeThinking(prompt.reasoning, target),
    responseModalities: generatesImages ? imageModalities(target) : undefined,
  };
}

// Resolves references in schemas. Gemini resolves only references into `$defs` and rejects most
// keys next to a reference. Generated tool schemas often violate both rules.

type Schema = Readonly<JsonObject>;

/** Keywords whose value is a schema, or a list of schemas. */
const schemaKeys = new Set([
  ...['anyOf', 'oneOf', 'allOf', 'not', 'if', 'then', 'else', 'items', 'prefixItems', 'contains'],
  ...['propertyNames', 'additionalProperties', 'unevaluatedItems', 'unevaluatedProperties'],
]);

/** The keys that Gemini accepts next to a reference, apart from those that start with `$`. */
const besideReference = new Set(['description', 'default']);

/**
 * The maximum total length of the schemas that replace references, per request. A short reference
 * may stand for a long schema.
 */
const copiedLengthMax = 300_000;

export class References {
  #copiedLength = 0;
  /** True if a reference can't be resolved. */
  #isUnresolvable = false;

  /**
   * Returns the schema with all references resolved. If a reference is recursive or unresolvable,
   * or if the result would be too long, all references stay.
   */
  resolveIn(root: Schema): Schema {
    this.#isUnresolvable = false;
    const { $defs: _, definitions: __, ...rest } = root;
    const resolved = this.#resolve(rest, root, [], 0);
    return this.#isUnresolvable ? withoutReferenceSiblings(root) : resolved;
  }

  /** `open` contains the references that led to this schema. */
  #resolve(schema: Schema, root: Schema, open: readonly string[], depth: number): Schema {
    if (depth > jsonDepthMax) this.#isUnresolvable = true;
    if (this.#isUnresolvable) return schema;
    const { $ref: reference, ...rest } = schema;
    const ownKeys = changeInside(rest, (inner) => this.#resolve(inner, root, open, depth + 1));
    if (typeof reference !== 'string') return ownKeys;
    const target = open.includes(reference) ? undefined : find(root, reference);
    if (target !== undefined) this.#copiedLength += JSON.stringify(target).length;
    if (target === undefined || this.#copiedLength > copiedLengthMax) {
      this.#isUnresolvable = true;
      return schema;
    }
    const found = this.#resolve(target, root, [...open, reference], depth + 1);
    // Keys next to a reference apply only to this use of the schema, so they override its keys.
    return { ...found, ...ownKeys };
  }
}

/** Removes the keys that Gemini rejects next to references. */
function withoutReferenceSiblings(schema: Schema): Schema {
  const isReference = typeof schema.$ref === 'string';
  const mayStay = (key: string) => key.startsWith('$') || besideReference.has(key);
  const fields = Object.entries(schema).filter(([key]) => !isReference || mayStay(key));
  return changeInside(Object.fromEntries(fields), withoutReferenceSiblings);
}

/**
 * Applies `change` to all schemas inside a schema. Values of other keys are data, never schemas.
 */
function changeInside(schema: Schema, change: (inner: Schema) => Schema): Schema {
  const changeOne = (value: unknown) => (isObject(value) ? change(value) : value);
  const fields = Object.entries(schema).map(([key, value]): [string, unknown] => {
    if (schemasByName.has(key) && isObject(value)) {
      const inner = Object.entries(value).map(([name, child]) => [name, changeOne(child)]);
      return [key, Object.fromEntries(inner)];
    }
    if (!schemaKeys.has(key)) return [key, value];
    return [key, Array.isArray(value) ? value.map(changeOne) : changeOne(value)];
  });
  return Object.fromEntries(fields);
}

/**
 * Returns the target of a reference such as `#/$defs/City`; undefined if it isn't in this schema.
 */
function find(root: Schema, reference: string): Schema | undefined {
  if (!reference.startsWith('#/')) return undefined;
  let at: unknown = root;
  for (const step of reference.slice(2).split('/')) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    const exists = typeof at === 'object' && at !== null && Object.hasOwn(at, name);
    at = exists ? (at as Schema)[name] : undefined;
  }
  return isObject(at) ? at : undefined;
}
