/**
 * Random conversations for round trips: written in a dialect and read back they must be the same.
 * Each dialect says what it can carry; what it cannot carry is tested where it is dropped.
 */
import fc from 'fast-check';
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
import { markSignature, type SignatureOrigin } from '../../src/dialects/normalize/signature.ts';

export interface PromptFeatures {
  /** The maker whose signed thoughts the dialect carries; null if it carries none. */
  readonly signatureOrigin: SignatureOrigin | null;
  /** Whether thoughts may stand before every call, or only at the beginning of a turn. */
  readonly reasoningPosition: 'anywhere' | 'front';
  readonly redactedReasoning: boolean;
  /** Whether a thought without text keeps its place before a text. */
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

/** What OpenAI's Responses endpoint can carry. */
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
/** Ends in a letter: some dialects trim texts that are only white space. */
const text = word.map((said) => `${said}a`);
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

/** Leaves out fields that are undefined, as JSON does. */
export function compact<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined)) as T;
}

const textPart = text.map((said) => ({ kind: 'text' as const, text: said }));

function address(mediaTypes: readonly string[], carries: PromptFeatures): fc.Arbitrary<string> {
  const inline = fc
    .tuple(fc.constantFrom(...mediaTypes), base64)
    .map(([mediaType, data]) => `data:${mediaType};base64,${data}`);
  if (!carries.remoteFiles) return inline;
  return fc.oneof(
    inline,
    name.map((path) => `https://files.example/${path}`),
  );
}

function imagePart(carries: PromptFeatures): fc.Arbitrary<ImagePart> {
  const detail = carries.imageDetail
    ? fc.constantFrom('low', 'high', 'auto')
    : fc.constant(undefined);
  return fc
    .tuple(address(['image/png', 'image/jpeg', 'image/webp'], carries), detail)
    .map(([url, how]) => compact({ kind: 'image' as const, url, detail: how }));
}

function documentPart(carries: PromptFeatures): fc.Arbitrary<DocumentPart> {
  return fc.tuple(address(['application/pdf'], carries), name).map(([url, title]) =>
    compact({
      kind: 'document' as const,
      source: { url },
      name: carries.documentNames && url.startsWith('data:') ? `${title}.pdf` : undefined,
    }),
  );
}

function saidPart(carries: PromptFeatures): fc.Arbitrary<UserPart> {
  const audio = fc
    .tuple(base64, fc.constantFrom('wav', 'mp3'))
    .map(([data, format]) => ({ kind: 'audio' as const, data, format }));
  return fc.oneof(
    { weight: 4, arbitrary: textPart },
    { weight: 1, arbitrary: imagePart(carries) },
    { weight: 1, arbitrary: documentPart(carries) },
    ...(carries.audio ? [{ weight: 1, arbitrary: audio }] : []),
  );
}

function thought(carries: PromptFeatures): fc.Arbitrary<ReasoningPart | undefined> {
  const { signatureOrigin } = carries;
  if (signatureOrigin === null) return fc.constant(undefined);
  const signature = fc.tuple(name, base64).map(([id, proof]) =>
    // OpenAI's encrypted thoughts are sent back together with the id of their item.
    markSignature(signatureOrigin, signatureOrigin === 'responses' ? `rs_${id}:${proof}` : proof),
  );
  const signed = fc
    .tuple(fc.oneof(text, fc.constant('')), signature)
    .map(([said, proof]) => ({ kind: 'reasoning' as const, text: said, signature: proof }));
  const redacted = base64.map((data) => ({
    kind: 'reasoning' as const,
    text: '',
    redacted: data,
  }));
  return optional(carries.redactedReasoning ? fc.oneof(signed, redacted) : signed);
}

interface PlannedCall {
  readonly tool: number;
  readonly arguments: object;
  readonly thought: ReasoningPart | undefined;
  readonly output: string;
  readonly files: readonly (ImagePart | DocumentPart)[];
  readonly isError: boolean;
}

interface Exchange {
  readonly said: readonly UserPart[];
  /** After tool results, the user may have nothing to add. */
  readonly isSilent: boolean;
  readonly system: string | undefined;
  readonly thought: ReasoningPart | undefined;
  readonly answer: string | undefined;
  readonly calls: readonly PlannedCall[];
}

function exchange(carries: PromptFeatures): fc.Arbitrary<Exchange> {
  const files = fc.array(fc.oneof(imagePart(carries), documentPart(carries)), { maxLength: 2 });
  const call: fc.Arbitrary<PlannedCall> = fc.record({
    tool: fc.nat(2),
    arguments: jsonObject,
    thought: carries.reasoningPosition === 'anywhere' ? thought(carries) : fc.constant(undefined),
    output: text,
    files: carries.resultFiles ? files : fc.constant([]),
    isError: isAllowed(carries.resultErrors),
  });
  return fc.record({
    said: fc.array(saidPart(carries), { minLength: 1, maxLength: 3 }),
    isSilent: fc.boolean(),
    system: carries.systemTurns ? optional(text) : fc.constant(undefined),
    thought: thought(carries),
    answer: optional(text),
    calls: fc.array(call, { maxLength: 3 }),
  });
}

/** Writes the exchanges as turns; calls are numbered in the order in which they are made. */
function writeTurns(
  exchanges: readonly Exchange[],
  tools: readonly Tool[],
  last: readonly UserPart[],
  carries: PromptFeatures,
): readonly Turn[] {
  const turns: Turn[] = [];
  let results: ToolResultPart[] = [];
  let made = 0;
  const say = (said: readonly UserPart[], isSilent: boolean) => {
    turns.push({
      role: 'user',
      parts: [...results, ...(results.length > 0 && isSilent ? [] : said)],
    });
    results = [];
  };
  for (const { said, isSilent, system, thought: first, answer, calls } of exchanges) {
    say(said, isSilent);
    if (system !== undefined)
      turns.push({ role: 'system', parts: [{ kind: 'text', text: system }] });
    // A turn needs a text or a call: a thought alone is no answer.
    const spoken = answer ?? (calls.length === 0 ? 'Yes.' : undefined);
    const isOutOfPlace =
      spoken !== undefined && first?.text === '' && !carries.emptyReasoningBeforeText;
    const isDoubled = spoken === undefined && calls[0]?.thought !== undefined;
    const parts: AssistantPart[] = first && !isOutOfPlace && !isDoubled ? [first] : [];
    if (spoken !== undefined) parts.push({ kind: 'text', text: spoken });
    for (const call of calls) {
      const id = `call_${made}`;
      made += 1;
      if (call.thought) parts.push(call.thought);
      parts.push(writeCall(call, id, tools));
      results.push(writeResult(call, id));
    }
    turns.push({ role: 'assistant', parts });
  }
  say(last, false);
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

function toolList(carries: PromptFeatures): fc.Arbitrary<readonly Tool[]> {
  const tool = fc.record({
    name,
    description: optional(text),
    parameters: schema,
    strict: carries.strictTools ? fc.boolean() : fc.constant(undefined),
  });
  const options = { minLength: 1, maxLength: 3, selector: (one: { name: string }) => one.name };
  return fc.uniqueArray(tool, options).map((tools) => tools.map((one) => compact(one)));
}

function reasoningWish({ efforts }: PromptFeatures): fc.Arbitrary<Prompt['reasoning']> {
  if (efforts.length === 0) return fc.constant(null);
  return fc.option(
    fc.record({
      effort: fc.constantFrom(...efforts),
      budgetTokens: fc.constant(null),
      visible: fc.boolean(),
    }),
  );
}

function jsonWish({ jsonNames, strictTools }: PromptFeatures): fc.Arbitrary<Prompt['json']> {
  return fc.option(
    fc
      .record({
        schema,
        name: jsonNames ? name : fc.constant('response'),
        strict: jsonNames && strictTools ? fc.boolean() : fc.constant(undefined),
      })
      .map((wish) => compact(wish)),
  );
}

/** Dialogues that a client could have written, in the normal form that reading gives back. */
export function randomPrompts(carries: PromptFeatures): fc.Arbitrary<Prompt> {
  const numbers = fc.record({
    outputTokensMax: fc.option(fc.integer({ min: 16, max: 100_000 })),
    parallelTools: carries.parallelTools ? fc.option(fc.boolean()) : fc.constant(null),
    stop: carries.stop ? fc.uniqueArray(text, { maxLength: 4 }) : fc.constant([]),
    user: carries.user ? fc.option(name) : fc.constant(null),
    stream: fc.boolean(),
    sampling: samplings(carries),
    reasoning: reasoningWish(carries),
    json: jsonWish(carries),
  });
  const choices = fc.constantFrom(null, 'auto', 'none', 'required', 'named');
  const parts = fc.tuple(
    numbers,
    toolList(carries),
    choices,
    optional(text),
    fc.array(exchange(carries), { maxLength: 3 }),
    fc.array(saidPart(carries), { minLength: 1, maxLength: 3 }),
  );
  return parts.map(([given, tools, choice, system, exchanges, last]) => {
    const isForced = choice === 'required' || choice === 'named';
    const turns = writeTurns(exchanges, tools, last, carries);
    return {
      ...given,
      turns: system
        ? [{ role: 'system', parts: [{ kind: 'text', text: system }] }, ...turns]
        : turns,
      tools,
      toolChoice: choice === 'named' ? { name: tools[0]?.name ?? '' } : choice,
      json: isForced && !carries.forcedJson ? null : given.json,
      choices: 1,
      foreign: [],
    };
  });
}
