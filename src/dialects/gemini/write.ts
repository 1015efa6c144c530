/** A dialogue as a request to Gemini's `generateContent`. */
import type { Dialogue, JsonWish, Tool, Turn } from '../../core/dialogue.ts';
import { type Fields, fieldsOf, isObject } from '../../core/json.ts';
import { cacheMarkNames } from '../ask/cache-marks.ts';
import { detailNames } from '../ask/content/picture-detail.ts';
import { jsonInstruction, unlessCalling } from '../ask/json-wish.ts';
import { leaveOut } from '../ask/leave-out.ts';
import { outputLimit } from '../ask/output-limit.ts';
import { isForced } from '../ask/tools/tool-choice.ts';
import type { Target, UpstreamRequest } from '../dialect.ts';
import { modelPath, pictureModalities } from './model.ts';
import { References } from './references.ts';
import { thinksInLevels, writeThinking } from './thinking.ts';
import { type Content, writeContents } from './write-contents.ts';

/** Parameters that Gemini lacks, or whose answers cannot be told in our words. */
const unspoken = [
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

export function writeRequest(dialogue: Dialogue, target: Target): UpstreamRequest {
  const { dialogue: kept, dropped } = leaveOut(dialogue, unspokenIn(dialogue, target));
  const told = mustInstruct(kept, target) ? kept.json : null;
  const instructions = told ? [jsonInstruction(told.schema, unlessCalling)] : [];
  const system = [...systemTexts(kept.turns), ...instructions];
  const contents = writeContents(kept.turns, target);
  // Gemini refuses a request without contents, so instructions alone are sent as the contents.
  const isOnlySystem = contents.length === 0;
  const parts = system.map((text) => ({ text }));
  const body = {
    systemInstruction: parts.length === 0 || isOnlySystem ? undefined : { parts },
    contents: isOnlySystem ? [onlySystem(parts)] : contents,
    ...writeTools(kept),
    generationConfig: writeConfig(kept, target, told ? null : kept.json),
  };
  const verb = dialogue.stream ? 'streamGenerateContent?alt=sse' : 'generateContent';
  return {
    path: modelPath(target.upstreamModel, verb),
    body: JSON.stringify(body),
    dropped: [
      ...dropped,
      ...cacheMarkNames(dialogue),
      ...detailNames(dialogue),
      ...(kept.stop.length > stopSequencesMax ? ['stop'] : []),
    ],
  };
}

function* unspokenIn(
  { sampling, reasoning }: Dialogue,
  { quirks, thinking }: Target,
): Iterable<string> {
  yield* unspoken;
  yield* quirks.drop_params ?? [];
  // To a model that does not think, the wish not to think is no loss.
  if (thinking === null && reasoning?.effort !== 'none') yield 'reasoning';
  // Gemini refuses a larger seed.
  if (sampling.seed !== undefined && Math.abs(sampling.seed) > seedMax) yield 'seed';
}

function systemTexts(turns: readonly Turn[]): readonly string[] {
  const texts = turns.flatMap((turn) => (turn.role === 'system' ? turn.parts : []));
  return texts.map(({ text }) => text).filter((text) => text !== '');
}

function onlySystem(parts: readonly { text: string }[]): Content {
  return { role: 'user', parts: parts.length > 0 ? [...parts] : [{ text: ' ' }] };
}

/** Models before Gemini 3 refuse JSON output beside tools; all refuse it beside forced calls. */
function mustInstruct({ json, tools, toolChoice }: Dialogue, target: Target): boolean {
  if (json === null || tools.length === 0) return false;
  return isForced(toolChoice) || !thinksInLevels(target);
}

function writeTools({ tools, toolChoice }: Dialogue) {
  if (tools.length === 0) return {};
  const config = writeToolChoice(tools, toolChoice);
  const references = new References();
  return {
    tools: [{ functionDeclarations: tools.map((tool) => writeTool(tool, references)) }],
    toolConfig: config ? { functionCallingConfig: config } : undefined,
  };
}

/** Gemini's `parameters` takes only a part of OpenAPI; `parametersJsonSchema`, JSON Schema. */
function writeTool({ name, description, parameters }: Tool, references: References) {
  const schema = references.resolveIn(parameters ?? {});
  const parametersJsonSchema = takesNothing(schema) ? undefined : objectSchema(schema);
  return { name, description, parametersJsonSchema };
}

const shapes = ['$ref', 'anyOf', 'oneOf', 'allOf', 'patternProperties'];

/** Whether the tool takes no arguments: Gemini refuses an object without properties. */
function takesNothing(schema: Readonly<Fields>): boolean {
  const { properties, additionalProperties } = schema;
  if (Object.keys(fieldsOf(properties)).length > 0) return false;
  return !isObject(additionalProperties) && !shapes.some((name) => name in schema);
}

/** Gemini refuses parameters without a `type`, but also a `type` beside a `$ref`. */
function objectSchema(schema: Readonly<Fields>) {
  const plain = plainSchema(schema);
  return shapes.some((name) => name in plain) ? plain : { type: 'object', ...plain };
}

function answerSchema(schema: Readonly<Fields>) {
  return plainSchema(new References().resolveIn(schema));
}

function plainSchema({ $schema: _, ...rest }: Readonly<Fields>) {
  return rest;
}

function writeToolChoice(tools: readonly Tool[], choice: Dialogue['toolChoice']) {
  if (choice === 'none') return { mode: 'NONE' };
  if (choice === 'required') return { mode: 'ANY' };
  if (choice !== null && choice !== 'auto') {
    return { mode: 'ANY', allowedFunctionNames: [choice.name] };
  }
  // The model may call or not, but its arguments are held to their schemas.
  if (tools.some(({ strict }) => strict === true)) return { mode: 'VALIDATED' };
  return choice === 'auto' ? { mode: 'AUTO' } : undefined;
}

function writeConfig(dialogue: Dialogue, target: Target, json: JsonWish | null) {
  const { sampling, stop } = dialogue;
  const makesPictures = target.outputModalities?.includes('image');
  return {
    candidateCount: dialogue.choices > 1 ? dialogue.choices : undefined,
    maxOutputTokens: outputLimit(dialogue.outputTokensMax, target) ?? undefined,
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK,
    seed: sampling.seed,
    presencePenalty: sampling.presencePenalty,
    frequencyPenalty: sampling.frequencyPenalty,
    stopSequences: stop.length > 0 ? stop.slice(0, stopSequencesMax) : undefined,
    responseMimeType: json === null ? undefined : 'application/json',
    responseJsonSchema: json?.schema ? answerSchema(json.schema) : undefined,
    thinkingConfig: writeThinking(dialogue.reasoning, target),
    responseModalities: makesPictures ? pictureModalities(target) : undefined,
  };
}
