import type { Citation, FinishReason, ReasoningName } from '../../../core/answer.ts';
import type { GatewayError } from '../../../core/errors.ts';
import type { JsonObject } from '../../../core/json.ts';
import {
  type ClientDialect,
  costForClient,
  type ReplyIdentity,
  type SettledUsage,
  type StreamFormat,
  type StreamIdentity,
  type StreamWriter,
} from '../../dialect.ts';
import { keepAlive } from '../../event-stream.ts';
import { splitEncrypted } from '../../normalize/signature.ts';
import { signedCall } from '../tool-calls.ts';
import { writeUsage } from '../usage.ts';
import {
  annotationOf,
  finishName,
  imageOf,
  isRequestedChoice,
  type OpenAiClientOptions,
  OpenAiReplyWriter,
} from './reply-writer.ts';
import { CustomCalls } from './tool-formats.ts';

/** Returns writers that convert provider-neutral events to OpenAI's format. */
export function openAiClient(options: OpenAiClientOptions): ClientDialect {
  return {
    writeStream: (identity) => new OpenAiStreamWriter(identity, options),
    writeReply: (identity) => new OpenAiReplyWriter(identity, options),
  };
}

/** Writes neutral events as the chunks of an OpenAI stream. */
export class OpenAiStreamWriter implements StreamWriter {
  readonly #identity: ReplyIdentity;
  readonly #options: OpenAiClientOptions;
  /** The start of every chunk, up to its delta. */
  readonly #head: string;
  #out = '';
  #isOpen = false;
  /** The index of the current reasoning block, and whether it has ended. */
  #block = 0;
  #blockEnded = false;
  /** The last signature, until a call uses it. */
  #signature = '';
  #images = 0;
  readonly #customCalls: CustomCalls | undefined;
  /** The finish chunk, sent last because some upstreams send content after a finish. */
  #finish = '';
  readonly #others: OpenAiStreamWriter[] = [];

  /** `choiceIndex`: the index of the choice that this writer writes. */
  constructor(identity: ReplyIdentity, options: OpenAiClientOptions, choiceIndex = 0) {
    this.#identity = identity;
    this.#options = options;
    this.#customCalls = options.customTools && new CustomCalls(options.customTools);
    const { id, created, model, provider } = identity;
    const object = 'chat.completion.chunk';
    const fields = JSON.stringify({ id, object, created, model, provider });
    this.#head = `data: ${fields.slice(0, -1)},"choices":[{"index":${choiceIndex},"delta":`;
  }

  choice(choiceIndex: number): OpenAiStreamWriter | undefined {
    if (!isRequestedChoice(choiceIndex, this.#options)) return undefined;
    const other = new OpenAiStreamWriter(this.#identity, this.#options, choiceIndex);
    this.#others.push(other);
    return other;
  }

  text(text: string): void {
    this.#emit(`{"content":${JSON.stringify(text)}}`);
  }

  reasoning(text: string, name?: ReasoningName): void {
    if (this.#options.hidesReasoning) return;
    this.#nextBlock();
    const encoded = JSON.stringify(text);
    const detail = `{"type":"reasoning.text","text":${encoded},"index":${this.#block}}`;
    const same = name === undefined ? '' : `"${name}":${encoded},`;
    this.#emit(`{"reasoning":${encoded},${same}"reasoning_details":[${detail}]}`);
  }

  reasoningSignature(signature: string): void {
    this.#signature = signature;
    this.#endBlock({ type: 'reasoning.text', signature });
  }

  redactedReasoning(data: string): void {
    this.#endBlock({ type: 'reasoning.encrypted', ...splitEncrypted(data) });
  }

  toolCall(call: number, id: string, name: string): void {
    if (this.#options.usesLegacyFunctions) {
      if (call === 0) this.#emit(JSON.stringify({ function_call: { name, arguments: '' } }));
      return;
    }
    const opening = {
      index: call,
      id,
      type: 'function',
      function: { name, arguments: '' },
      ...signedCall(this.#signature),
    };
    this.#signature = '';
    this.#emitCalls([opening]);
  }

  toolArguments(call: number, json: string): void {
    const encoded = JSON.stringify(json);
    if (this.#customCalls) {
      this.#emitCalls([{ index: call, function: { arguments: json } }]);
    } else if (!this.#options.usesLegacyFunctions) {
      this.#emit(`{"tool_calls":[{"index":${call},"function":{"arguments":${encoded}}}]}`);
    } else if (call === 0) {
      this.#emit(`{"function_call":{"arguments":${encoded}}}`);
    }
  }

  refusal(text: string): void {
    this.#emit(`{"refusal":${JSON.stringify(text)}}`);
  }

  citation(citation: Citation): void {
    this.#emit(JSON.stringify({ annotations: [annotationOf(citation)] }));
  }

  image(mediaType: string, base64: string): void {
    this.imageAt(`data:${mediaType};base64,${base64}`);
  }

  imageAt(url: string): void {
    this.#emit(JSON.stringify({ images: [imageOf(url, this.#images)] }));
    this.#images += 1;
  }

  finish(reason: FinishReason, _?: string | null, nativeFinishReason?: string): void {
    this.#open();
    const reasonJson = JSON.stringify(nativeFinishReason ?? finishName(reason, this.#options));
    this.#finish = `${this.#head}{},"finish_reason":${reasonJson}}]}\n\n`;
  }

  take(): string {
    let out = this.#out;
    this.#out = '';
    for (const other of this.#others) out += other.take();
    return out;
  }

  close(settled: SettledUsage): string {
    const choices = [this, ...this.#others];
    for (const choice of choices) choice.#emitCalls([], true);
    const output = this.take() + choices.map((choice) => choice.#finish).join('');
    return output + closingEvents(this.#identity, this.#options.includeUsage ? settled : null);
  }

  fail(error: GatewayError): string {
    return openAiStreamFormat(this.#options).fail(error, this.#identity);
  }

  keepAlive(): string {
    return keepAlive;
  }

  #emit(delta: string): void {
    this.#open();
    this.#out += `${this.#head}${delta},"finish_reason":null}]}\n\n`;
  }

  #emitCalls(calls: readonly JsonObject[], isEnd = false): void {
    const converted = this.#customCalls?.convert(calls, isEnd) ?? calls;
    if (converted.length > 0) this.#emit(JSON.stringify({ tool_calls: converted }));
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#out += `${this.#head}{"role":"assistant","content":""},"finish_reason":null}]}\n\n`;
  }

  #nextBlock(): void {
    if (this.#blockEnded) this.#block += 1;
    this.#blockEnded = false;
  }

  #endBlock(detail: object): void {
    this.#nextBlock();
    this.#blockEnded = true;
    this.#emit(JSON.stringify({ reasoning_details: [{ ...detail, index: this.#block }] }));
  }
}

/**
 * Writes errors as OpenAI does: as an event without choices. A chunk with an error and a finish
 * reason would be taken for the end of a complete answer by clients that ignore its `error`.
 */
export function openAiStreamFormat({
  usesTextCodes = false,
}: Pick<OpenAiClientOptions, 'usesTextCodes'>): StreamFormat {
  return {
    fail({ message, symbol: type, status, param }) {
      const error = { message, type, code: usesTextCodes ? type : status, param };
      return `data: ${JSON.stringify({ error })}\n\n`;
    },
  };
}

/**
 * Returns the last events of a complete answer. `settled` is null if the client didn't request
 * usage.
 */
export function closingEvents(
  identity: StreamIdentity,
  settled: SettledUsage | null,
  outputDetails?: JsonObject,
): string {
  const done = 'data: [DONE]\n\n';
  if (settled === null) return done;
  const usage = writeUsage(settled.usage, costForClient(settled), outputDetails);
  return `data: ${JSON.stringify({ ...identityFields(identity), choices: [], usage })}\n\n${done}`;
}

function identityFields({ id, created, model }: StreamIdentity) {
  return { id, object: 'chat.completion.chunk', created, model };
}
