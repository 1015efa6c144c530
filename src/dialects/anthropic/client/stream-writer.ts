/** Writes a neutral answer as the events of an Anthropic stream. */
import type { Citation, FinishReason, WebSearch } from '../../../core/answer.ts';
import {
  bufferedArgumentsMax,
  toolCallNamesLengthMax,
  toolCallsPerAnswerMax,
} from '../../../core/bounds.ts';
import type { GatewayError } from '../../../core/errors.ts';
import type { ReplyIdentity, SettledUsage, StreamFormat, StreamWriter } from '../../dialect.ts';
import { MalformedAnswer } from '../../failure.ts';
import { answerId } from '../../normalize/responses/identity.ts';
import { EndedCalls, JsonEndScanner, toolInput } from '../../normalize/responses/tool-arguments.ts';
import { Stop } from '../finish.ts';
import { openingUsage, writeUsage } from '../usage.ts';
import { anthropicErrorType, anthropicMessage } from './error.ts';
import { citationOf, imageBlock } from './reply-writer.ts';
import { Searches } from './searches.ts';

/** A call whose block has to wait, because only one block may be open at a time. */
interface WaitingCall {
  readonly call: number;
  readonly id: string;
  readonly name: string;
  json: string;
  readonly end: JsonEndScanner;
}

interface OpenTool {
  readonly kind: 'tool';
  readonly call: number;
  readonly end: JsonEndScanner;
  /** The unsent input, while it is blank or isn't an object; null once input has been sent. */
  pending: string | null;
  isBlank: boolean;
}

type OpenBlock = { readonly kind: 'text' | 'thinking' } | OpenTool;

export class AnthropicStreamWriter implements StreamWriter {
  readonly #identity: ReplyIdentity;
  readonly #inputTokensEstimate: number;
  #out = '';
  #hasBegun = false;
  /** The index of the open block. If no block is open, the index of the last block. */
  #index = -1;
  #open: OpenBlock | undefined;
  /**
   * Signatures of text. They are never sent last, because clients use the last block as the answer.
   */
  readonly #textSignatures: string[] = [];
  readonly #waiting = new Map<number, WaitingCall>();
  readonly #ended = new EndedCalls();
  #waitingLength = 0;
  #namesLength = 0;
  readonly #searches: Searches;
  readonly #stop = new Stop();

  constructor(identity: ReplyIdentity, inputTokensEstimate: number) {
    this.#identity = identity;
    this.#searches = new Searches(identity.id);
    this.#inputTokensEstimate = inputTokensEstimate;
  }

  text(text: string): void {
    if (text === '') return;
    this.#ensureBlock('text');
    this.#delta(`{"type":"text_delta","text":${JSON.stringify(text)}}`);
  }

  reasoning(text: string): void {
    if (text === '') return;
    this.#ensureBlock('thinking');
    this.#delta(`{"type":"thinking_delta","thinking":${JSON.stringify(text)}}`);
  }

  reasoningSignature(signature: string): void {
    if (this.#open?.kind === 'text') this.#textSignatures.push(signature);
    else this.#endThinking(signature);
  }

  redactedReasoning(data: string): void {
    this.#writeCompleteBlock({ type: 'redacted_thinking', data });
  }

  toolCall(call: number, id: string, name: string): void {
    this.#stop.hasToolCalls = true;
    this.#namesLength += id.length + name.length;
    if (this.#waiting.size >= toolCallsPerAnswerMax || this.#namesLength > toolCallNamesLengthMax) {
      throw new MalformedAnswer('too many tool calls');
    }
    this.#waiting.set(call, { call, id, name, json: '', end: new JsonEndScanner() });
    if (this.#open?.kind !== 'tool' || this.#open.end.isComplete) this.#openNextTool();
  }

  toolArguments(call: number, json: string): void {
    if (json === '') return;
    const open = this.#open;
    if (open?.kind === 'tool' && open.call === call) {
      this.#sendArguments(json, open);
      if (open.end.isComplete) this.#openNextTool();
      return;
    }
    const waiting = this.#waiting.get(call);
    if (!waiting) {
      this.#ended.rejectTrailing(call, json);
      return;
    }
    waiting.json += json;
    waiting.end.push(json);
    this.#waitingLength += json.length;
    if (this.#waitingLength > bufferedArgumentsMax) this.#openNextTool();
  }

  refusal(text: string): void {
    this.#stop.hasRefusal = true;
    this.text(text);
  }

  citation(citation: Citation): void {
    // A citation belongs in the block of its text, which may already be closed.
    if (this.#open?.kind !== 'text') return;
    this.#delta(JSON.stringify({ type: 'citations_delta', citation: citationOf(citation) }));
  }

  webSearch(search: WebSearch): void {
    const { use, result } = this.#searches.add(search);
    this.#closeAll();
    this.#start({ ...use, input: {} }, undefined);
    this.#inputDelta(JSON.stringify(use.input));
    this.#event('content_block_stop', { index: this.#index });
    this.#writeCompleteBlock(result);
  }

  image(mediaType: string, base64: string): void {
    this.#writeCompleteBlock(imageBlock(mediaType, base64));
  }

  finish(reason: FinishReason, stopSequence: string | null): void {
    this.#stop.reason = reason;
    this.#stop.sequence = stopSequence;
    this.#begin();
  }

  take(): string {
    const out = this.#out;
    this.#out = '';
    return out;
  }

  close({ usage }: SettledUsage): string {
    this.#begin();
    this.#closeAll();
    const counts = { ...writeUsage(usage), ...this.#searches.usage };
    this.#event('message_delta', { delta: this.#stop.fields, usage: counts });
    this.#event('message_stop', {});
    return this.take();
  }

  fail(error: GatewayError): string {
    return this.take() + anthropicStreamFormat.fail(error, this.#identity);
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

  #ensureBlock(kind: 'text' | 'thinking'): void {
    // Text after a signature gets a new block, so that the signature stays between the two texts.
    if (this.#open?.kind === kind && this.#textSignatures.length === 0) return;
    this.#closeAll();
    const empty = kind === 'text' ? { text: '' } : { thinking: '', signature: '' };
    this.#start({ type: kind, ...empty }, { kind });
  }

  /** Writes a block whose content is all in its start event. */
  #writeCompleteBlock(block: object): void {
    this.#closeAll();
    this.#start(block, undefined);
    this.#event('content_block_stop', { index: this.#index });
  }

  #endThinking(signature: string): void {
    this.#ensureBlock('thinking');
    this.#delta(JSON.stringify({ type: 'signature_delta', signature }));
    this.#close();
  }

  #start(block: object, open: OpenBlock | undefined): void {
    for (const signature of this.#textSignatures.splice(0)) this.#endThinking(signature);
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
   * Sends tool input as an object, because clients parse it as an object when its block ends. Wraps
   * any other value in an object, and drops what some servers send after the object.
   */
  #sendArguments(fragment: string, open: OpenTool): void {
    const length = open.end.push(fragment);
    const json = open.end.isObject ? fragment.slice(0, length) : fragment;
    if (json === '') return;
    const all = (open.pending ?? '') + json;
    const start = open.isBlank ? json.trimStart() : '';
    if (start !== '') open.isBlank = false;
    const isSent =
      open.pending === null || start.startsWith('{') || all.length > bufferedArgumentsMax;
    open.pending = isSent ? null : all;
    if (isSent) this.#inputDelta(all);
  }

  #inputDelta(json: string): void {
    this.#delta(`{"type":"input_json_delta","partial_json":${JSON.stringify(json)}}`);
  }

  /** Opens the next waiting call. If that call is complete, continues with the one after it. */
  #openNextTool(): void {
    for (const { call, id, name, json } of this.#waiting.values()) {
      this.#waiting.delete(call);
      this.#waitingLength -= json.length;
      this.#close();
      const end = new JsonEndScanner();
      const open: OpenTool = { kind: 'tool', call, end, pending: '', isBlank: true };
      this.#start({ type: 'tool_use', id, name, input: {} }, open);
      if (json !== '') this.#sendArguments(json, open);
      if (!open.end.isComplete) return;
    }
  }

  #closeAll(): void {
    while (this.#waiting.size > 0) this.#openNextTool();
    this.#close();
  }

  #close(): void {
    const open = this.#open;
    if (!open) return;
    if (open.kind === 'tool' && !open.end.isComplete) this.#ended.add(open.call, open.isBlank);
    const pending = open.kind === 'tool' ? (open.pending?.trim() ?? '') : '';
    if (pending !== '') this.#inputDelta(JSON.stringify(toolInput(pending)));
    this.#open = undefined;
    this.#event('content_block_stop', { index: this.#index });
  }
}

export function eventText(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

/** Writes the gateway's own stream errors for Anthropic clients. */
export const anthropicStreamFormat: StreamFormat = {
  fail(error) {
    const message = anthropicMessage(error);
    return eventText('error', { error: { type: anthropicErrorType(error), message } });
  },
};
