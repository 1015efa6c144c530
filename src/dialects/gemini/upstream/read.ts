import type { AnswerSink, FinishReason } from '../../../core/answer.ts';
import {
  type Fields,
  fieldsOf,
  isObject,
  isText,
  itemsOf,
  objectsIn,
  textOf,
} from '../../../core/json.ts';
import type { Usage } from '../../../core/usage.ts';
import type { SseMessage, StreamReader, UpstreamFailure } from '../../dialect.ts';
import {
  finishReasonFailure,
  invalidJsonAnswer,
  invalidJsonEvent,
  malformed,
  readErrorObject,
} from '../../failure.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { readCount, uncachedAudio } from '../../normalize/responses/counts.ts';
import { newCallId } from '../../normalize/responses/identity.ts';
import { markSignature } from '../../normalize/signature.ts';
import { PartialArguments } from './partial-arguments.ts';

/** A reason that is not listed is new. Since there is an answer, it counts as `stop`. */
const reasons: ReadonlyMap<string, FinishReason> = new Map([
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['SAFETY', 'content_filter'],
  ['RECITATION', 'content_filter'],
  ['LANGUAGE', 'content_filter'],
  // Blocked for a reason that Google does not name: an empty answer must not look like success.
  ['OTHER', 'content_filter'],
  ['BLOCKLIST', 'content_filter'],
  ['PROHIBITED_CONTENT', 'content_filter'],
  ['SPII', 'content_filter'],
  ['MODEL_ARMOR', 'content_filter'],
  ['IMAGE_SAFETY', 'content_filter'],
  ['IMAGE_PROHIBITED_CONTENT', 'content_filter'],
  ['IMAGE_RECITATION', 'content_filter'],
  ['IMAGE_OTHER', 'content_filter'],
]);

/** Reasons without an answer, mostly mistakes of the model; another attempt may well succeed. */
const mistakes: ReadonlySet<string> = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MALFORMED_RESPONSE',
  // The conversation began with another model and lacks the signatures that this one demands.
  'MISSING_THOUGHT_SIGNATURE',
]);

/** Gemini says `STOP` even after calls, but clients run tools only if the reason says so. */
export function finishReasonOf(word: string, hasCalls: boolean): FinishReason {
  const reason = reasons.get(word) ?? 'stop';
  return reason === 'stop' && hasCalls ? 'tool_calls' : reason;
}

function mistakeFailure(word: string, detail: unknown): UpstreamFailure | undefined {
  if (!mistakes.has(word)) return undefined;
  const more = isText(detail) ? ` ${detail.slice(0, 300)}` : '';
  return finishReasonFailure('server', word, more);
}

/**
 * Gemini's `usageMetadata` in classes that do not overlap. Undefined when the numbers cannot be
 * trusted, or when there are none yet: most chunks of Vertex tell the traffic type only.
 */
export function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const prompt = readCount(raw.promptTokenCount);
  // Results of the provider's own tools are input that the prompt's count does not include.
  const toolUse = readCount(raw.toolUsePromptTokenCount);
  const candidates = readCount(raw.candidatesTokenCount);
  const thoughts = readCount(raw.thoughtsTokenCount);
  const cached = readCount(raw.cachedContentTokenCount);
  const total = readCount(raw.totalTokenCount);
  const counted = prompt + toolUse + candidates + thoughts;
  // No request has an empty prompt: a report with 0 has not counted yet.
  if (Number.isNaN(counted + cached + total) || prompt === 0) return undefined;
  const cacheReadTokens = Math.min(cached, prompt);
  const audio = uncachedAudio(
    audioTokensIn(raw.promptTokensDetails),
    audioTokensIn(raw.cacheTokensDetails),
    {
      prompt,
      cacheRead: cacheReadTokens,
      uncached: prompt - cacheReadTokens,
    },
  );
  return {
    inputTokens: prompt - cacheReadTokens - audio + toolUse,
    inputAudioTokens: audio || undefined,
    cacheReadTokens,
    cacheWriteTokens: 0,
    // Tokens that only the total includes were made by the model.
    outputTokens: candidates + thoughts + Math.max(0, total - counted),
    reasoningTokens: thoughts,
  };
}

/** The audio tokens in counts by modality, which Gemini lists for prompts and cached parts. */
function audioTokensIn(counts: unknown): number {
  const audioCounts = objectsIn(counts).filter(({ modality }) => modality === 'AUDIO');
  return audioCounts.reduce((sum, { tokenCount }) => sum + readCount(tokenCount), 0);
}

/** Tells what one candidate of Gemini's says, piece by piece or at once. */

/** Whether a part is only the signature of what came before, without even an empty text. */
function isBare(part: Fields): boolean {
  return Object.keys(part).every((name) => name === 'thoughtSignature' || name === 'thought');
}

/** False for an empty text, which may carry a signature but no words. */
function hasContent(part: Fields): boolean {
  return part.text !== '' && !isBare(part);
}

class CandidateEmitter {
  finished = false;
  readonly #sink: AnswerSink;
  #calls = 0;
  /** The last call, while pieces of its arguments may follow. */
  #openCall: PartialArguments | undefined;
  #isThinking = false;
  /** Why the candidate ended. */
  #reason: string | undefined;
  /** The signature of the current text, which is told after that text. */
  #textSignature: string | undefined;

  constructor(sink: AnswerSink) {
    this.#sink = sink;
  }

  take(candidate: Fields): UpstreamFailure | undefined {
    const { content, finishReason, finishMessage, groundingMetadata } = candidate;
    const parts = objectsIn(fieldsOf(content).parts);
    // Gemini's older models say STOP in every chunk: it is the end only if nothing else follows.
    const isStop = finishReason === undefined || finishReason === 'STOP';
    const isOver = this.finished && isStop && !parts.some(hasContent);
    const hasMore =
      groundingMetadata !== undefined || parts.some((part) => isText(part.thoughtSignature));
    if (isOver && !hasMore) return undefined;
    for (const part of parts) this.#takePart(part);
    if (this.#openCall?.isTooLarge) {
      return malformed('The upstream sent arguments of a tool that are too large.');
    }
    if (groundingMetadata !== undefined) this.#cite(groundingMetadata);
    // Sources and signatures may come after the end; the finish reason stays the earlier one.
    const reason = isOver ? this.#reason : finishReason;
    if (!isText(reason) || reason === 'FINISH_REASON_UNSPECIFIED') return undefined;
    const mistake = mistakeFailure(reason, finishMessage);
    if (mistake !== undefined) return mistake;
    this.#endCall();
    this.#endText();
    this.finished = true;
    this.#reason = reason;
    this.#sink.finish(finishReasonOf(reason, this.#calls > 0), null);
    return undefined;
  }

  #takePart(part: Fields): void {
    const { text, functionCall, inlineData } = part;
    if (isObject(functionCall)) this.#takeCall(functionCall, part.thoughtSignature);
    else if (typeof text === 'string') this.#takeText(text, part);
    else if (isBare(part)) this.#takeText('', part);
    // A picture that the model drew while thinking is a draft.
    else if (isObject(inlineData) && part.thought !== true) this.#takeMedia(inlineData);
  }

  #takeText(text: string, { thought, thoughtSignature }: Fields): void {
    const signature = isText(thoughtSignature) ? thoughtSignature : undefined;
    if (thought === true) {
      this.#endText();
      this.#isThinking = true;
      if (text !== '') this.#sink.reasoning(text);
      if (signature !== undefined) this.#sign(signature);
      return;
    }
    // A signature right after a thought belongs to that thought. Any other waits: a client that
    // never asked for thoughts must find the text first.
    if (signature !== undefined && this.#isThinking) this.#sign(signature);
    else if (signature !== undefined) this.#textSignature = signature;
    if (text === '') return;
    this.#isThinking = false;
    this.#sink.text(text);
  }

  #takeCall(call: Fields, signature: unknown): void {
    if (isText(call.name)) this.#openNext(call.name, call, signature);
    const open = this.#openCall;
    if (open === undefined) return;
    open.add(call.partialArgs);
    if (call.willContinue !== true) this.#endCall();
  }

  #openNext(name: string, call: Fields, signature: unknown): void {
    this.#endCall();
    this.#endText();
    if (isText(signature)) this.#sign(signature);
    this.#isThinking = false;
    const number = this.#calls;
    this.#calls += 1;
    this.#sink.toolCall(number, isText(call.id) ? call.id : newCallId(), name);
    if (isObject(call.args)) this.#sink.toolArguments(number, JSON.stringify(call.args));
    else this.#openCall = new PartialArguments();
  }

  #endCall(): void {
    if (this.#openCall === undefined) return;
    this.#sink.toolArguments(this.#calls - 1, this.#openCall.toJson());
    this.#openCall = undefined;
  }

  /** Signatures of pictures are left out: they run to megabytes, and cannot be sent back. */
  #takeMedia({ mimeType, data }: Fields): void {
    if (!isText(data) || !isText(mimeType) || !mimeType.startsWith('image/')) return;
    this.#endText();
    this.#isThinking = false;
    this.#sink.image(mimeType, data);
  }

  #endText(): void {
    if (this.#textSignature === undefined) return;
    this.#sign(this.#textSignature);
    this.#textSignature = undefined;
  }

  #sign(signature: string): void {
    this.#isThinking = false;
    this.#sink.reasoningSignature(markSignature('gemini', signature));
  }

  /** Tells sources without their positions: those count bytes of a text that is not kept. */
  #cite(grounding: unknown): void {
    for (const { web } of objectsIn(fieldsOf(grounding).groundingChunks)) {
      const { uri: url, title } = fieldsOf(web);
      if (isText(url)) this.#sink.citation({ url, title: textOf(title), quote: '', range: null });
    }
  }
}

/** Answers of Gemini in our own words. Every chunk of a stream is shaped like a whole answer. */

/** Errors may come inside a list, and all chunks do if Gemini sends no event stream. */
function chunksIn(text: string): readonly unknown[] {
  const body = parseExact(text);
  return Array.isArray(body) && body.length > 0 ? body : [body];
}

function isInteger(value: unknown): value is number {
  return Number.isInteger(value);
}

/** The index 0 is often left out; if no candidate has an index, its place in the list counts. */
function numberOf({ index }: Fields, at: number, list: readonly unknown[]): number {
  if (isInteger(index)) return index;
  return list.some((one) => isObject(one) && isInteger(one.index)) ? 0 : at;
}

export class GeminiStreamReader implements StreamReader {
  /** Gemini sends no terminator. */
  readonly ended = false;
  readonly #sink: AnswerSink;
  /** By their numbers; only candidates that have a listener. */
  readonly #candidates = new Map<number, CandidateEmitter>();
  #isBlocked = false;

  constructor(sink: AnswerSink) {
    this.#sink = sink;
  }

  /** Whether every candidate that began has ended. */
  get finished(): boolean {
    if (this.#isBlocked) return true;
    for (const { finished } of this.#candidates.values()) if (!finished) return false;
    return this.#candidates.size > 0;
  }

  push({ data }: SseMessage): UpstreamFailure | undefined {
    for (const chunk of chunksIn(data)) {
      const failure = isObject(chunk) ? this.take(chunk) : this.#takeGarbage(data);
      if (failure !== undefined) return failure;
    }
    return undefined;
  }

  /** A connection cut after the finish reason loses at most the usage: the answer is whole. */
  #takeGarbage(data: string): UpstreamFailure | undefined {
    return this.finished ? undefined : invalidJsonEvent(data);
  }

  /** Tells what one chunk, or a whole answer, says. */
  take(chunk: Fields): UpstreamFailure | undefined {
    const { error, usageMetadata } = chunk;
    if (error !== undefined && error !== null) return readErrorObject(chunk);
    const failure = this.#takeCandidates(chunk);
    const usage = usageMetadata === undefined ? undefined : readUsage(usageMetadata);
    // Usage is told after the words that it counts.
    if (usage !== undefined) this.#sink.usage?.(usage);
    return failure;
  }

  #takeCandidates({ candidates, promptFeedback }: Fields): UpstreamFailure | undefined {
    const list = itemsOf(candidates);
    for (const [at, candidate] of list.entries()) {
      if (!isObject(candidate)) continue;
      const failure = this.#emitterFor(numberOf(candidate, at, list))?.take(candidate);
      if (failure !== undefined) return failure;
    }
    if (isObject(list[0]) || this.finished) return undefined;
    if (isText(fieldsOf(promptFeedback).blockReason)) {
      this.#isBlocked = true;
      this.#sink.finish('content_filter', null);
    }
    return undefined;
  }

  #emitterFor(number: number): CandidateEmitter | undefined {
    const known = this.#candidates.get(number);
    if (known !== undefined) return known;
    const sink = number === 0 ? this.#sink : this.#sink.choice?.(number);
    if (sink === undefined) return undefined;
    const emitter = new CandidateEmitter(sink);
    this.#candidates.set(number, emitter);
    return emitter;
  }
}

/** Tells a whole answer; returns the failure if the text is none. */
export function emitReply(text: string, sink: AnswerSink): UpstreamFailure | undefined {
  const reader = new GeminiStreamReader(sink);
  for (const chunk of chunksIn(text)) {
    const failure = isObject(chunk) ? reader.take(chunk) : invalidJsonAnswer(text);
    if (failure !== undefined) return failure;
  }
  if (reader.finished) return undefined;
  return malformed('The upstream answered without a finish reason.');
}
