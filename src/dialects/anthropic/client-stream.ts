/** An answer told in our words, as the events of an Anthropic stream. */
import type { Citation, FinishReason } from '../../core/answer.ts';
import { callNamesLengthMax, callsPerAnswerMax, waitingArgumentsMax } from '../../core/bounds.ts';
import type { GatewayError } from '../../core/errors.ts';
import { answerId } from '../answer/answer-ids.ts';
import { EndedCalls } from '../answer/ended-calls.ts';
import { JsonEnd } from '../answer/json-end.ts';
import type { ClientWords, ReplyClosing, ReplyIdentity, StreamWriter } from '../dialect.ts';
import { UnusableAnswer } from '../unusable-answer.ts';
import { anthropicErrorType, anthropicMessage } from './client-error.ts';
import { citationOf, imageBlock } from './client-reply.ts';
import { Stop } from './finish.ts';
import { toolInput } from './tool-input.ts';
import { openingUsage, writeUsage } from './usage.ts';

/** A call whose block has to wait: only one block may be open at a time. */
interface WaitingCall {
  readonly call: number;
  readonly id: string;
  readonly name: string;
  json: string;
  readonly end: JsonEnd;
}

interface OpenTool {
  readonly kind: 'tool';
  readonly call: number;
  readonly end: JsonEnd;
  /** The input so far, while it is blank or not an object; null once an object has begun. */
  held: string | null;
  isBlank: boolean;
}

type OpenBlock = { readonly kind: 'text' | 'thinking' } | OpenTool;

export class AnthropicStreamWriter implements StreamWriter {
  readonly #identity: ReplyIdentity;
  readonly #inputTokensEstimate: number;
  #out = '';
  #hasBegun = false;
  /** The number of the block that is open, or else of the last one. */
  #index = -1;
  #open: OpenBlock | undefined;
  /** Signatures of the text. Clients take the last block for the answer: they never come last. */
  readonly #textProofs: string[] = [];
  readonly #waiting = new Map<number, WaitingCall>();
  readonly #ended = new EndedCalls();
  /** Whether a block was closed before its input was complete. */
  #hasHalfInput = false;
  #waitingLength = 0;
  #namesLength = 0;
  readonly #stop = new Stop();

  constructor(identity: ReplyIdentity, inputTokensEstimate: number) {
    this.#identity = identity;
    this.#inputTokensEstimate = inputTokensEstimate;
  }

  text(text: string): void {
    if (text === '') return;
    this.#enter('text');
    this.#delta(`{"type":"text_delta","text":${JSON.stringify(text)}}`);
  }

  reasoning(text: string): void {
    if (text === '') return;
    this.#enter('thinking');
    this.#delta(`{"type":"thinking_delta","thinking":${JSON.stringify(text)}}`);
  }

  reasoningSignature(signature: string): void {
    if (this.#open?.kind === 'text') this.#textProofs.push(signature);
    else this.#endThought(signature);
  }

  redactedReasoning(data: string): void {
    this.#whole({ type: 'redacted_thinking', data });
  }

  toolCall(call: number, id: string, name: string): void {
    this.#stop.hasTools = true;
    this.#namesLength += id.length + name.length;
    if (this.#waiting.size >= callsPerAnswerMax || this.#namesLength > callNamesLengthMax) {
      throw new UnusableAnswer('more tool calls than anybody could run');
    }
    this.#waiting.set(call, { call, id, name, json: '', end: new JsonEnd() });
    if (this.#open?.kind !== 'tool' || this.#open.end.isOver) this.#openNextTool();
  }

  toolArguments(call: number, json: string): void {
    if (json === '') return;
    const open = this.#open;
    if (open?.kind === 'tool' && open.call === call) {
      this.#sendArguments(json, open);
      if (open.end.isOver) this.#openNextTool();
      return;
    }
    const waiting = this.#waiting.get(call);
    if (!waiting) {
      this.#ended.refuseRest(call, json);
      return;
    }
    waiting.json += json;
    waiting.end.push(json);
    this.#waitingLength += json.length;
    if (this.#waitingLength > waitingArgumentsMax) this.#openNextTool();
  }

  refusal(text: string): void {
    this.#stop.isRefused = true;
    this.text(text);
  }

  citation(citation: Citation): void {
    // A citation belongs in the block of its text, which may be closed by now.
    if (this.#open?.kind !== 'text') return;
    this.#delta(JSON.stringify({ type: 'citations_delta', citation: citationOf(citation) }));
  }

  image(mediaType: string, base64: string): void {
    this.#whole(imageBlock(mediaType, base64));
  }

  finish(reason: FinishReason, stopSequence: string | null): void {
    this.#stop.reason = reason;
    this.#stop.sequence = stopSequence;
    this.#begin();
  }

  /** A stop reason other than `tool_use` says what happened; after this one, clients run tools. */
  get isHalf(): boolean {
    if (this.#stop.fields.stop_reason !== 'tool_use') return false;
    if (this.#hasHalfInput || isHalfInput(this.#open)) return true;
    return [...this.#waiting.values()].some(({ end }) => end.isObject && !end.isOver);
  }

  take(): string {
    const out = this.#out;
    this.#out = '';
    return out;
  }

  close({ usage }: ReplyClosing): string {
    this.#begin();
    this.#closeAll();
    this.#event('message_delta', { delta: this.#stop.fields, usage: writeUsage(usage) });
    this.#event('message_stop', {});
    return this.take();
  }

  fail(error: GatewayError): string {
    return this.take() + anthropicWords.fail(error, this.#identity);
  }

  keepAlive(): string {
    this.#begin();
    this.#event('ping', {});
    return this.take();
  }

  #begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    const { id, model } = this.#identity;
    const message = {
      id: answerId('msg', id),
      type: 'message',
      role: 'assistant',
      model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: openingUsage(this.#inputTokensEstimate),
    };
    this.#event('message_start', { message });
  }

  #event(type: string, fields: object): void {
    this.#out += eventText(type, fields);
  }

  #enter(kind: 'text' | 'thinking'): void {
    // Words after a signature get a new block: the signature must stand between the two.
    if (this.#open?.kind === kind && this.#textProofs.length === 0) return;
    this.#closeAll();
    const empty = kind === 'text' ? { text: '' } : { thinking: '', signature: '' };
    this.#start({ type: kind, ...empty }, { kind });
  }

  /** Tells a block whose content is all in its start event. */
  #whole(block: object): void {
    this.#closeAll();
    this.#start(block, undefined);
    this.#event('content_block_stop', { index: this.#index });
  }

  #endThought(signature: string): void {
    this.#enter('thinking');
    this.#delta(JSON.stringify({ type: 'signature_delta', signature }));
    this.#close();
  }

  #start(block: object, open: OpenBlock | undefined): void {
    for (const proof of this.#textProofs.splice(0)) this.#endThought(proof);
    this.#begin();
    this.#index += 1;
    this.#open = open;
    this.#event('content_block_start', { index: this.#index, content_block: block });
  }

  #delta(delta: string): void {
    const data = `{"type":"content_block_delta","index":${this.#index},"delta":${delta}}`;
    this.#out += `event: content_block_delta\ndata: ${data}\n\n`;
  }

  /**
   * Clients parse an input as an object when its block ends: any other value is put into one, and
   * what some servers send after the object is left out.
   */
  #sendArguments(given: string, open: OpenTool): void {
    const length = open.end.push(given);
    const json = open.end.isObject ? given.slice(0, length) : given;
    if (json === '') return;
    const all = (open.held ?? '') + json;
    const start = open.isBlank ? json.trimStart() : '';
    if (start !== '') open.isBlank = false;
    const isSent = open.held === null || start.startsWith('{') || all.length > waitingArgumentsMax;
    open.held = isSent ? null : all;
    if (isSent) this.#inputDelta(all);
  }

  #inputDelta(json: string): void {
    this.#delta(`{"type":"input_json_delta","partial_json":${JSON.stringify(json)}}`);
  }

  /** Opens the next waiting call, and goes on to the following one while each is complete. */
  #openNextTool(): void {
    for (const { call, id, name, json } of this.#waiting.values()) {
      this.#waiting.delete(call);
      this.#waitingLength -= json.length;
      this.#close();
      const end = new JsonEnd();
      const open: OpenTool = { kind: 'tool', call, end, held: '', isBlank: true };
      this.#start({ type: 'tool_use', id, name, input: {} }, open);
      if (json !== '') this.#sendArguments(json, open);
      if (!open.end.isOver) return;
    }
  }

  #closeAll(): void {
    while (this.#waiting.size > 0) this.#openNextTool();
    this.#close();
  }

  #close(): void {
    const open = this.#open;
    if (!open) return;
    this.#hasHalfInput ||= isHalfInput(open);
    if (open.kind === 'tool' && !open.end.isOver) this.#ended.add(open.call, open.isBlank);
    const held = open.kind === 'tool' ? (open.held?.trim() ?? '') : '';
    if (held !== '') this.#inputDelta(JSON.stringify(toolInput(held)));
    this.#open = undefined;
    this.#event('content_block_stop', { index: this.#index });
  }
}

function isHalfInput(open: OpenBlock | undefined): boolean {
  return open?.kind === 'tool' && open.held === null && !open.end.isOver;
}

export function eventText(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

/** What the gateway itself says to an Anthropic client, outside of an upstream's answer. */
export const anthropicWords: ClientWords = {
  fail(error) {
    const message = anthropicMessage(error);
    return eventText('error', { error: { type: anthropicErrorType(error), message } });
  },
};
