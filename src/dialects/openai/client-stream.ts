/** An answer told in our words, as the chunks of an OpenAI stream. */
import type { Citation, FinishReason, ReasoningName } from '../../core/answer.ts';
import type { GatewayError } from '../../core/errors.ts';
import type { Fields } from '../../core/json.ts';
import type {
  ClientWords,
  ReplyClosing,
  ReplyIdentity,
  StreamIdentity,
  StreamWriter,
} from '../dialect.ts';
import { keepAlive } from '../event-stream.ts';
import { splitEncrypted } from '../signature.ts';
import type { OpenAiClientOptions } from './client.ts';
import { annotationOf, finishWord, imageOf, isWanted } from './client-reply.ts';
import { CustomCalls } from './custom-calls.ts';
import { signedCall } from './google-signature.ts';
import { writeUsage } from './usage.ts';

export class OpenAiStreamWriter implements StreamWriter {
  readonly #identity: ReplyIdentity;
  readonly #options: OpenAiClientOptions;
  /** Every chunk begins alike, up to its delta. */
  readonly #head: string;
  #out = '';
  #isOpen = false;
  /** Number of the thought being told, and whether it is over. */
  #thought = 0;
  #thoughtEnded = false;
  /** The last signature told, until a call takes it. */
  #signature = '';
  #images = 0;
  readonly #customCalls: CustomCalls | undefined;
  /** The finish chunk, sent last because some upstreams go on after a finish. */
  #finish = '';
  readonly #others: OpenAiStreamWriter[] = [];

  /** `number`: the number of the choice that this writer writes. */
  constructor(identity: ReplyIdentity, options: OpenAiClientOptions, number = 0) {
    this.#identity = identity;
    this.#options = options;
    this.#customCalls = options.customTools && new CustomCalls(options.customTools);
    const { id, created, model, provider } = identity;
    const object = 'chat.completion.chunk';
    const fields = JSON.stringify({ id, object, created, model, provider });
    this.#head = `data: ${fields.slice(0, -1)},"choices":[{"index":${number},"delta":`;
  }

  choice(number: number): OpenAiStreamWriter | undefined {
    if (!isWanted(number, this.#options)) return undefined;
    const other = new OpenAiStreamWriter(this.#identity, this.#options, number);
    this.#others.push(other);
    return other;
  }

  text(text: string): void {
    this.#say(`{"content":${JSON.stringify(text)}}`);
  }

  reasoning(text: string, name?: ReasoningName): void {
    if (this.#options.hidesReasoning) return;
    this.#nextThought();
    const words = JSON.stringify(text);
    const detail = `{"type":"reasoning.text","text":${words},"index":${this.#thought}}`;
    const same = name === undefined ? '' : `"${name}":${words},`;
    this.#say(`{"reasoning":${words},${same}"reasoning_details":[${detail}]}`);
  }

  reasoningSignature(signature: string): void {
    this.#signature = signature;
    this.#endThought({ type: 'reasoning.text', signature });
  }

  redactedReasoning(data: string): void {
    this.#endThought({ type: 'reasoning.encrypted', ...splitEncrypted(data) });
  }

  toolCall(call: number, id: string, name: string): void {
    if (this.#options.knowsFunctions) {
      if (call === 0) this.#say(JSON.stringify({ function_call: { name, arguments: '' } }));
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
    this.#sayCalls([opening]);
  }

  toolArguments(call: number, json: string): void {
    const words = JSON.stringify(json);
    if (this.#customCalls) {
      this.#sayCalls([{ index: call, function: { arguments: json } }]);
    } else if (!this.#options.knowsFunctions) {
      this.#say(`{"tool_calls":[{"index":${call},"function":{"arguments":${words}}}]}`);
    } else if (call === 0) {
      this.#say(`{"function_call":{"arguments":${words}}}`);
    }
  }

  refusal(text: string): void {
    this.#say(`{"refusal":${JSON.stringify(text)}}`);
  }

  citation(citation: Citation): void {
    this.#say(JSON.stringify({ annotations: [annotationOf(citation)] }));
  }

  image(mediaType: string, base64: string): void {
    this.imageAt(`data:${mediaType};base64,${base64}`);
  }

  imageAt(url: string): void {
    this.#say(JSON.stringify({ images: [imageOf(url, this.#images)] }));
    this.#images += 1;
  }

  finish(reason: FinishReason, _?: string | null, own?: string): void {
    this.#open();
    const word = JSON.stringify(own ?? finishWord(reason, this.#options));
    this.#finish = `${this.#head}{},"finish_reason":${word}}]}\n\n`;
  }

  take(): string {
    let out = this.#out;
    this.#out = '';
    for (const other of this.#others) out += other.take();
    return out;
  }

  close(closing: ReplyClosing): string {
    const choices = [this, ...this.#others];
    for (const choice of choices) choice.#sayCalls([], true);
    const said = this.take() + choices.map((choice) => choice.#finish).join('');
    return said + lastWords(this.#identity, this.#options.includeUsage ? closing : null);
  }

  fail(error: GatewayError): string {
    return openAiWords.fail(error, this.#identity);
  }

  keepAlive(): string {
    return keepAlive;
  }

  #say(delta: string): void {
    this.#open();
    this.#out += `${this.#head}${delta},"finish_reason":null}]}\n\n`;
  }

  #sayCalls(calls: readonly Fields[], isEnd = false): void {
    const told = this.#customCalls?.tell(calls, isEnd) ?? calls;
    if (told.length > 0) this.#say(JSON.stringify({ tool_calls: told }));
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#out += `${this.#head}{"role":"assistant","content":""},"finish_reason":null}]}\n\n`;
  }

  #nextThought(): void {
    if (this.#thoughtEnded) this.#thought += 1;
    this.#thoughtEnded = false;
  }

  #endThought(detail: object): void {
    this.#nextThought();
    this.#thoughtEnded = true;
    this.#say(JSON.stringify({ reasoning_details: [{ ...detail, index: this.#thought }] }));
  }
}

/** What an OpenAI client hears from us outside of an upstream's answer. */
export const openAiWords: ClientWords = {
  fail(error, identity) {
    const { message, symbol: type, status: code, param } = error;
    const choices = [{ index: 0, delta: {}, finish_reason: 'error' }];
    const chunk = { ...ownFields(identity), error: { message, type, code, param }, choices };
    return `data: ${JSON.stringify(chunk)}\n\n`;
  },
};

/** How a complete answer ends; `told` are the numbers, for a client that wants them. */
export function lastWords(
  identity: StreamIdentity,
  told: ReplyClosing | null,
  outputDetails?: Fields,
): string {
  const done = 'data: [DONE]\n\n';
  if (told === null) return done;
  const usage = writeUsage(told.usage, told.costCredits, outputDetails);
  return `data: ${JSON.stringify({ ...ownFields(identity), choices: [], usage })}\n\n${done}`;
}

function ownFields({ id, created, model }: StreamIdentity) {
  return { id, object: 'chat.completion.chunk', created, model };
}
