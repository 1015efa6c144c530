/** Writes neutral events as a chat completion. */
import type { Citation, FinishReason, ReasoningName } from '../../../core/answer.ts';
import type { JsonObject } from '../../../core/json.ts';
import {
  costForClient,
  type ReplyIdentity,
  type ReplyWriter,
  type SettledUsage,
} from '../../dialect.ts';
import { openAiFinishReasons } from '../../normalize/responses/answer-metrics.ts';
import { splitEncrypted } from '../../normalize/signature.ts';
import { signedCall } from '../tool-calls.ts';
import { writeUsage } from '../usage.ts';
import { convertCustomCalls } from './tool-formats.ts';

/** How an OpenAI client wants its answer written. */
export interface OpenAiClientOptions {
  readonly includeUsage: boolean;
  /** True if reasoning is billed but not shown. */
  readonly hidesReasoning?: boolean;
  /** The number of choices that the client requested. */
  readonly choices?: number;
  /**
   * True if the client sent `functions`, OpenAI's older form of tools. It expects one
   * `function_call`.
   */
  readonly usesLegacyFunctions?: boolean;
  /** Names of the client's custom tools, whose calls have text instead of JSON arguments. */
  readonly customTools?: ReadonlySet<string> | undefined;
  /** Names of all of the client's tools. */
  readonly toolNames?: readonly string[] | undefined;
  /** True if `error.code` is the error's name instead of the HTTP status. */
  readonly usesTextCodes?: boolean;
}

/** Options for a non-streaming response, which always includes the usage. */
export type ReplyOptions = Omit<OpenAiClientOptions, 'includeUsage'>;

interface Call {
  readonly id: string;
  readonly name: string;
  readonly signed: object;
  arguments: string;
}

/** A reasoning block with its signature in OpenRouter's format, which most clients send back. */
interface ReasoningBlock {
  readonly type: 'reasoning.text';
  readonly index: number;
  text: string;
  signature?: string;
}

export class OpenAiReplyWriter implements ReplyWriter {
  readonly #identity: ReplyIdentity;
  readonly #options: ReplyOptions;
  readonly #choiceIndex: number;
  readonly #others: OpenAiReplyWriter[] = [];
  readonly #calls: Call[] = [];
  readonly #details: object[] = [];
  readonly #annotations: object[] = [];
  readonly #images: object[] = [];
  #text = '';
  #reasoning = '';
  #reasoningName: ReasoningName | undefined;
  #refusal = '';
  #block: ReasoningBlock | undefined;
  /** The last signature, until a call uses it. */
  #signature = '';
  #finishReason: string | null = null;

  /** `choiceIndex`: the index of the choice that this writer writes. */
  constructor(identity: ReplyIdentity, options: ReplyOptions, choiceIndex = 0) {
    this.#identity = identity;
    this.#options = options;
    this.#choiceIndex = choiceIndex;
  }

  choice(choiceIndex: number): OpenAiReplyWriter | undefined {
    if (!isRequestedChoice(choiceIndex, this.#options)) return undefined;
    const other = new OpenAiReplyWriter(this.#identity, this.#options, choiceIndex);
    this.#others.push(other);
    return other;
  }

  text(text: string): void {
    this.#text += text;
  }

  reasoning(text: string, name?: ReasoningName): void {
    if (this.#options.hidesReasoning) return;
    this.#reasoning += text;
    this.#reasoningName ??= name;
    this.#ensureBlock().text += text;
  }

  reasoningSignature(signature: string): void {
    this.#signature = signature;
    this.#ensureBlock().signature = signature;
    this.#block = undefined;
  }

  redactedReasoning(data: string): void {
    this.#block = undefined;
    const index = this.#details.length;
    this.#details.push({ type: 'reasoning.encrypted', ...splitEncrypted(data), index });
  }

  toolCall(call: number, id: string, name: string): void {
    this.#calls[call] = { id, name, arguments: '', signed: signedCall(this.#signature) };
    this.#signature = '';
  }

  toolArguments(call: number, json: string): void {
    const open = this.#calls[call];
    if (open) open.arguments += json;
  }

  refusal(text: string): void {
    this.#refusal += text;
  }

  citation(citation: Citation): void {
    this.#annotations.push(annotationOf(citation));
  }

  image(mediaType: string, base64: string): void {
    this.imageAt(`data:${mediaType};base64,${base64}`);
  }

  imageAt(url: string): void {
    this.#images.push(imageOf(url, this.#images.length));
  }

  finish(reason: FinishReason, _?: string | null, nativeFinishReason?: string): void {
    this.#finishReason = nativeFinishReason ?? finishName(reason, this.#options);
  }

  #ensureBlock(): ReasoningBlock {
    if (this.#block) return this.#block;
    this.#block = { type: 'reasoning.text', index: this.#details.length, text: '' };
    this.#details.push(this.#block);
    return this.#block;
  }

  write(settled: SettledUsage): string {
    const { id, created, model, provider } = this.#identity;
    const others = this.#others.toSorted((a, b) => a.#choiceIndex - b.#choiceIndex);
    const choices = [this, ...others].map((choice) => choice.#write());
    const usage = writeUsage(settled.usage, costForClient(settled));
    const completion = { id, object: 'chat.completion', created, model, provider, choices };
    // Clients that validate an answer's shape require `system_fingerprint`.
    return JSON.stringify({ ...completion, system_fingerprint: null, usage });
  }

  #write(): object {
    const { usesLegacyFunctions, customTools } = this.#options;
    const calls = this.#calls.map((call) => ({
      id: call.id,
      type: 'function',
      function: { name: call.name, arguments: call.arguments || '{}' },
      ...call.signed,
    }));
    const message: JsonObject = {
      role: 'assistant',
      content: this.#text === '' && (calls.length > 0 || this.#refusal !== '') ? null : this.#text,
      refusal: this.#refusal || null,
      reasoning: this.#reasoning || undefined,
      ...(this.#reasoningName && { [this.#reasoningName]: this.#reasoning }),
      reasoning_details: nonEmpty(this.#details),
      ...(usesLegacyFunctions
        ? { function_call: calls[0]?.function }
        : { tool_calls: nonEmpty(calls) }),
      annotations: nonEmpty(this.#annotations),
      images: nonEmpty(this.#images),
    };
    convertCustomCalls(message, customTools);
    // OpenAI's schema requires `refusal` and `logprobs`, even if they are null.
    const finish_reason = this.#finishReason;
    return { index: this.#choiceIndex, message, logprobs: null, finish_reason };
  }
}

function nonEmpty(list: readonly object[]): readonly object[] | undefined {
  return list.length > 0 ? list : undefined;
}

/** True if the client requested this choice in addition to the first one. */
export function isRequestedChoice(choiceIndex: number, { choices = 1 }: ReplyOptions): boolean {
  return choiceIndex > 0 && choiceIndex < choices;
}

export function finishName(reason: FinishReason, { usesLegacyFunctions }: ReplyOptions): string {
  return usesLegacyFunctions && reason === 'tool_calls'
    ? 'function_call'
    : openAiFinishReasons[reason];
}

export function annotationOf({ url, title, quote, range }: Citation): object {
  // Clients that validate an answer's shape require a range, even if the upstream sent none.
  const { start, end } = range ?? { start: 0, end: 0 };
  const content = quote === '' ? {} : { content: quote };
  const indexes = { start_index: start, end_index: end };
  return { type: 'url_citation', url_citation: { url, title, ...content, ...indexes } };
}

export function imageOf(url: string, index: number): object {
  return { type: 'image_url', image_url: { url }, index };
}
