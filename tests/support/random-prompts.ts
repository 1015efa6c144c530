/**
 * Generates random prompts for round trips: a prompt that is written in a dialect and read back
 * must be unchanged. Each dialect lists the features it supports. Other tests check what it drops.
 */

import type {
  AssistantPart,
  DocumentPart,
  Effort,
  ImagePart,
  Prompt,
  ReasoningPart,
  Sampling,
  Tool,
  ToolCallPart,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../src/core/prompt.ts';
import { prefixSignature, type SignatureOrigin } from '../../src/dialects/normalize/signature.ts';
import { fc } from './random.ts';

export interface PromptFeatures {
  /** The vendor whose signed reasoning the dialect supports. Null if it supports none. */
  readonly signatureOrigin: SignatureOrigin | null;
  /** Whether reasoning is allowed before every tool call, or only at the beginning of a turn. */
  readonly reasoningPosition: 'anywhere' | 'front';
  readonly redactedReasoning: boolean;
  /** Whether reasoning without text stays in front of a text. */
  readonly emptyReasoningBeforeText: boolean;
  readonly systemTurns: boolean;
  readonly remoteFiles: boolean;
  readonly imageDetail: boolean;
  readonly documentNames: boolean;
  readonly audio: boolean;
  readonly resultFiles: boolean;
  readonly resultErrors: boolean;
  readonly strictTools: boolean;
  readonly jsonNames: boolean;
  readonly forcedJson: boolean;
  readonly parallelTools: boolean;
  readonly stop: boolean;
  readonly user: boolean;
  readonly efforts: readonly Effort[];
  readonly sampling: readonly (keyof Sampling)[];
}

/** What OpenAI's Responses endpoint supports. */
export const responsesFeatures: PromptFeatures = {
  signatureOrigin: 'responses',
  reasoningPosition: 'anywhere',
  redactedReasoning: false,
  emptyReasoningBeforeText: true,
  systemTurns: true,
  remoteFiles: true,
  imageDetail: true,
  documentNames: true,
  audio: true,
  resultFiles: true,
  resultErrors: true,
  strictTools: true,
  jsonNames: true,
  forcedJson: true,
  parallelTools: true,
  stop: false,
  user: true,
  efforts: ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'],
  sampling: ['temperature', 'topP'],
};

const word = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 24 });
/** The text ends in a letter, because some dialects drop text that is only white space. */
const text = word.map((start) => `${start}a`);
const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,20}$/);
const base64 = fc
  .uint8Array({ minLength: 1, maxLength: 24 })
  .map((bytes) => Buffer.from(bytes).toString('base64'));
const jsonObject = fc.dictionary(
  fc.stringMatching(/^[a-z]{1,8}$/),
  fc.oneof(fc.integer(), fc.boolean(), word, fc.array(word, { maxLength: 3 }), fc.constant(null)),
  { maxKeys: 4 },
);
const schema = fc
  .dictionary(name, fc.constantFrom({ type: 'string' }, { type: 'integer', minimum: 3 }), {
    minKeys: 1,
    maxKeys: 3,
  })
  .map((properties) => ({
    type: 'object',
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  }));

const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(value, { nil: undefined, freq: 2 });
const isAllowed = (allowed: boolean) => (allowed ? fc.boolean() : fc.constant(false));

/** Removes undefined fields, as JSON does. */
export function compact<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined)) as T;
}

const textPart = text.map((content) => ({ kind: 'text' as const, text: content }));

function address(mediaTypes: readonly string[], features: PromptFeatures): fc.Arbitrary<string> {
  const inline = fc
    .tuple(fc.constantFrom(...mediaTypes), base64)
    .map(([mediaType, data]) => `data:${mediaType};base64,${data}`);
  if (!features.remoteFiles) return inline;
  return fc.oneof(
    inline,
    name.map((path) => `https://files.example/${path}`),
  );
}

function imagePart(features: PromptFeatures): fc.Arbitrary<ImagePart> {
  const detail = features.imageDetail
    ? fc.constantFrom('low', 'high', 'auto')
    : fc.constant(undefined);
  return fc
    .tuple(address(['image/png', 'image/jpeg', 'image/webp'], features), detail)
    .map(([url, level]) => compact({ kind: 'image' as const, url, detail: level }));
}

function documentPart(features: PromptFeatures): fc.Arbitrary<DocumentPart> {
  return fc.tuple(address(['application/pdf'], features), name).map(([url, title]) =>
    compact({
      kind: 'document' as const,
      source: { url },
      name: features.documentNames && url.startsWith('data:') ? `${title}.pdf` : undefined,
    }),
  );
}

function userPart(features: PromptFeatures): fc.Arbitrary<UserPart> {
  const audio = fc
    .tuple(base64, fc.constantFrom('wav', 'mp3'))
    .map(([data, format]) => ({ kind: 'audio' as const, data, format }));
  return fc.oneof(
    { weight: 4, arbitrary: textPart },
    { weight: 1, arbitrary: imagePart(features) },
    { weight: 1, arbitrary: documentPart(features) },
    ...(features.audio ? [{ weight: 1, arbitrary: audio }] : []),
  );
}

function reasoningPart(features: PromptFeatures): fc.Arbitrary<ReasoningPart | undefined> {
  const { signatureOrigin } = features;
  if (signatureOrigin === null) return fc.constant(undefined);
  const signature = fc.tuple(name, base64).map(([id, data]) =>
    // OpenAI's encrypted reasoning is sent back together with the ID of its item.
    prefixSignature(signatureOrigin, signatureOrigin === 'responses' ? `rs_${id}:${data}` : data),
  );
  const signed = fc
    .tuple(fc.oneof(text, fc.constant('')), signature)
    .map(([content, mark]) => ({ kind: 'reasoning' as const, text: content, signature: mark }));
  const redacted = base64.map((data) => ({
    kind: 'reasoning' as const,
    text: '',
    redacted: data,
  }));
  return optional(features.redactedReasoning ? fc.oneof(signed, redacted) : signed);
}

interface PlannedCall {
  readonly tool: number;
  readonly arguments: object;
  readonly reasoning: ReasoningPart | undefined;
  readonly output: string;
  readonly files: readonly (ImagePart | DocumentPart)[];
  readonly isError: boolean;
}

interface Exchange {
  readonly userParts: readonly UserPart[];
  /** True if a user turn that follows tool calls contains only their results. */
  readonly omitsUserParts: boolean;
  readonly system: string | undefined;
  readonly reasoning: ReasoningPart | undefined;
  readonly answer: string | undefined;
  readonly calls: readonly PlannedCall[];
}

function exchange(features: PromptFeatures): fc.Arbitrary<Exchange> {
  const files = fc.array(fc.oneof(imagePart(features), documentPart(features)), { maxLength: 2 });
  const call: fc.Arbitrary<PlannedCall> = fc.record({
    tool: fc.nat(2),
    arguments: jsonObject,
    reasoning:
      features.reasoningPosition === 'anywhere' ? reasoningPart(features) : fc.constant(undefined),
    output: text,
    files: features.resultFiles ? files : fc.constant([]),
    isError: isAllowed(features.resultErrors),
  });
  return fc.record({
    userParts: fc.array(userPart(features), { minLength: 1, maxLength: 3 }),
    omitsUserParts: fc.boolean(),
    system: features.systemTurns ? optional(text) : fc.constant(undefined),
    reasoning: reasoningPart(features),
    answer: optional(text),
    calls: fc.array(call, { maxLength: 3 }),
  });
}

/** Writes the exchanges as turns. Tool calls are numbered in order. */
function writeTurns(
  exchanges: readonly Exchange[],
  tools: readonly Tool[],
  last: readonly UserPart[],
  features: PromptFeatures,
): readonly Turn[] {
  const turns: Turn[] = [];
  let results: ToolResultPart[] = [];
  let callCount = 0;
  const addUserTurn = (userParts: readonly UserPart[], omitsUserParts: boolean) => {
    turns.push({
      role: 'user',
      parts: [...results, ...(results.length > 0 && omitsUserParts ? [] : userParts)],
    });
    results = [];
  };
  for (const { userParts, omitsUserParts, system, reasoning: first, answer, calls } of exchanges) {
    addUserTurn(userParts, omitsUserParts);
    if (system !== undefined)
      turns.push({ role: 'system', parts: [{ kind: 'text', text: system }] });
    // A turn needs a text or a tool call. Reasoning alone isn't an answer.
    const answerText = answer ?? (calls.length === 0 ? 'Yes.' : undefined);
    const isMisplaced =
      answerText !== undefined && first?.text === '' && !features.emptyReasoningBeforeText;
    const isDuplicate = answerText === undefined && calls[0]?.reasoning !== undefined;
    const parts: AssistantPart[] = first && !isMisplaced && !isDuplicate ? [first] : [];
    if (answerText !== undefined) parts.push({ kind: 'text', text: answerText });
    for (const call of calls) {
      const id = `call_${callCount}`;
      callCount += 1;
      if (call.reasoning) parts.push(call.reasoning);
      parts.push(writeCall(call, id, tools));
      results.push(writeResult(call, id));
    }
    turns.push({ role: 'assistant', parts });
  }
  addUserTurn(last, false);
  return turns;
}

function writeCall(call: PlannedCall, id: string, tools: readonly Tool[]): ToolCallPart {
  const tool = tools[call.tool % tools.length];
  return {
    kind: 'tool_call',
    id,
    name: tool?.name ?? 'missing',
    arguments: JSON.stringify(call.arguments),
  };
}

function writeResult({ output, files, isError }: PlannedCall, callId: string): ToolResultPart {
  const parts = [{ kind: 'text' as const, text: output }, ...files];
  return { kind: 'tool_result', callId, parts, isError };
}

function samplings({ sampling }: PromptFeatures): fc.Arbitrary<Sampling> {
  const all = {
    temperature: fc.integer({ min: 0, max: 20 }).map((tenths) => tenths / 10),
    topP: fc.integer({ min: 1, max: 10 }).map((tenths) => tenths / 10),
    topK: fc.integer({ min: 1, max: 100 }),
    seed: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
    presencePenalty: fc.integer({ min: -20, max: 20 }).map((tenths) => tenths / 10),
    frequencyPenalty: fc.integer({ min: -20, max: 20 }).map((tenths) => tenths / 10),
    logprobs: fc.boolean(),
    topLogprobs: fc.nat(20),
    logitBias: fc.constant({ '50256': -100 }),
  };
  const chosen = Object.fromEntries(
    sampling.map((field) => [field, optional<unknown>(all[field])]),
  );
  return fc.record(chosen).map((values) => compact(values as Sampling));
}

function toolList(features: PromptFeatures): fc.Arbitrary<readonly Tool[]> {
  const tool = fc.record({
    name,
    description: optional(text),
    parameters: schema,
    strict: features.strictTools ? fc.boolean() : fc.constant(undefined),
  });
  const options = { minLength: 1, maxLength: 3, selector: (tool: { name: string }) => tool.name };
  return fc.uniqueArray(tool, options).map((tools) => tools.map((entry) => compact(entry)));
}

function reasoningOptions({ efforts }: PromptFeatures): fc.Arbitrary<Prompt['reasoning']> {
  if (efforts.length === 0) return fc.constant(null);
  return fc.option(
    fc.record({
      effort: fc.constantFrom(...efforts),
      budgetTokens: fc.constant(null),
      visible: fc.boolean(),
    }),
  );
}

function jsonOptions({ jsonNames, strictTools }: PromptFeatures): fc.Arbitrary<Prompt['json']> {
  return fc.option(
    fc
      .record({
        schema,
        name: jsonNames ? name : fc.constant('response'),
        strict: jsonNames && strictTools ? fc.boolean() : fc.constant(undefined),
      })
      .map((options) => compact(options)),
  );
}

/** Generates prompts that a client could have sent, normalized like the output of the readers. */
export function randomPrompts(features: PromptFeatures): fc.Arbitrary<Prompt> {
  const numbers = fc.record({
    outputTokensMax: fc.option(fc.integer({ min: 16, max: 100_000 })),
    parallelTools: features.parallelTools ? fc.option(fc.boolean()) : fc.constant(null),
    stop: features.stop ? fc.uniqueArray(text, { maxLength: 4 }) : fc.constant([]),
    user: features.user ? fc.option(name) : fc.constant(null),
    stream: fc.boolean(),
    sampling: samplings(features),
    reasoning: reasoningOptions(features),
    json: jsonOptions(features),
  });
  const choices = fc.constantFrom(null, 'auto', 'none', 'required', 'named');
  const parts = fc.tuple(
    numbers,
    toolList(features),
    choices,
    optional(text),
    fc.array(exchange(features), { maxLength: 3 }),
    fc.array(userPart(features), { minLength: 1, maxLength: 3 }),
  );
  return parts.map(([options, tools, choice, system, exchanges, last]) => {
    const isForced = choice === 'required' || choice === 'named';
    const turns = writeTurns(exchanges, tools, last, features);
    return {
      ...options,
      turns: system
        ? [{ role: 'system', parts: [{ kind: 'text', text: system }] }, ...turns]
        : turns,
      tools,
      toolChoice: choice === 'named' ? { name: tools[0]?.name ?? '' } : choice,
      json: isForced && !features.forcedJson ? null : options.json,
      choices: 1,
      unsupported: [],
    };
  });
}
