import type { AnswerSink, Citation, WebSearch } from '../../core/answer.ts';
import { isObject, parseJson } from '../../core/json.ts';
import { openAiFinishReasons } from '../../dialects/normalize/responses/answer-metrics.ts';

/**
 * The recorded methods. Answers with searches have one choice, and their images are bytes or
 * Markdown images, so `choice` and `imageAt` are left out.
 */
type SinkMethod = Exclude<keyof AnswerSink, 'choice' | 'imageAt'>;
type SinkCall = readonly [SinkMethod, ...unknown[]];
type UntypedMethod = (...args: unknown[]) => void;

/** Returns a sink that forwards every call to another sink, after calling `observe`. */
export function forwardTo(sink: AnswerSink, observe?: (line: SinkCall) => void): AnswerSink {
  const forward = (name: SinkMethod): readonly [SinkMethod, UntypedMethod] => [
    name,
    (...args) => {
      // JSON has no undefined. Optional arguments are last, so omitting them doesn't shift others.
      observe?.([name, ...args.filter((value) => value !== undefined)]);
      (sink[name] as UntypedMethod | undefined)?.apply(sink, args);
    },
  ];
  const methods = (Object.keys(argumentChecks) as SinkMethod[]).map(forward);
  return Object.fromEntries(methods) as Readonly<Record<SinkMethod, UntypedMethod>>;
}

/**
 * Returns a sink that forwards an answer to the client and records it in the neutral format: one
 * line of JSON for each call. Used for answers that combine several upstream answers.
 */
export function recordingSink(sink: AnswerSink, write: (line: string) => void): AnswerSink {
  return forwardTo(sink, (line) => write(`${JSON.stringify(line)}\n`));
}

/**
 * Replays a recording. Returns false if the text isn't a valid recording, because other programs
 * may write to the same Redis.
 */
export function replayCalls(text: string, sink: AnswerSink): boolean {
  const lines = text.trimEnd().split('\n').map(parseJson);
  if (!lines.every(isSinkCall)) return false;
  for (const [name, ...args] of lines) {
    (sink[name] as UntypedMethod).apply(sink, args);
  }
  return true;
}

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === 'string';
const isNumber: Check = (value) => Number.isSafeInteger(value);
const isCitation: Check = (value) => {
  if (!isObject(value)) return false;
  const { url, title, quote, range } = value as Partial<Record<keyof Citation, unknown>>;
  const isRange = range === null || (isObject(range) && isNumber(range.start));
  return [url, title, quote].every(isText) && isRange;
};

const isOptionalText: Check = (value) => value === undefined || isText(value);
const isPage: Check = (value) => {
  if (!isObject(value)) return false;
  return isText(value.url) && isText(value.title) && isOptionalText(value.date);
};
const isSearch: Check = (value) => {
  if (!isObject(value)) return false;
  const { query, pages, error } = value as Partial<Record<keyof WebSearch, unknown>>;
  const isOutcome = error === null || error === 'failed' || error === 'limit';
  return isText(query) && Array.isArray(pages) && pages.every(isPage) && isOutcome;
};

const argumentChecks: Readonly<Record<SinkMethod, readonly Check[]>> = {
  text: [isText],
  reasoning: [isText, (name) => name === undefined || name === 'reasoning_content'],
  reasoningSignature: [isText],
  redactedReasoning: [isText],
  toolCall: [isNumber, isText, isText],
  toolArguments: [isNumber, isText],
  refusal: [isText],
  citation: [isCitation],
  webSearch: [isSearch],
  image: [isText, isText],
  finish: [
    (value) => isText(value) && Object.hasOwn(openAiFinishReasons, String(value)),
    (value) => value === null || isText(value),
  ],
  usage: [(value) => isObject(value) && Object.values(value).every(isNumber)],
};

function isSinkCall(line: unknown): line is SinkCall {
  if (!Array.isArray(line) || !isText(line[0]) || !Object.hasOwn(argumentChecks, line[0]))
    return false;
  const [name, ...args] = line as unknown as SinkCall;
  const checks = argumentChecks[name];
  return args.length <= checks.length && checks.every((check, index) => check(args[index]));
}
