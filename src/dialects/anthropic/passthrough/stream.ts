/**
 * Forwards an Anthropic stream to an Anthropic client. Every event except the first and the last is
 * forwarded as text, so that unknown blocks and fields survive. Only blocks with missing or wrong
 * start events, stop events, or indexes are normalized.
 */
import type { GatewayError } from '../../../core/errors.ts';
import { fieldsOf, isObject, type JsonObject, textOf } from '../../../core/json.ts';
import { hasSameTotals, promptTokens, type Usage } from '../../../core/usage.ts';
import type {
  AnswerMetrics,
  ReplyIdentity,
  SettledUsage,
  SseMessage,
  StreamTransform,
  UpstreamFailure,
} from '../../dialect.ts';
import { keepAlive } from '../../event-stream.ts';
import { failureInside, invalidJsonEvent, malformed, readErrorObject } from '../../failure.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { openAiFinishReasons } from '../../normalize/responses/answer-metrics.ts';
import { answerId, renameModel } from '../../normalize/responses/identity.ts';
import { removeCharges, removePrivateFields } from '../../normalize/responses/private-fields.ts';
import { JsonEndScanner } from '../../normalize/responses/tool-arguments.ts';
import type { AnthropicEvent } from '../block-events.ts';
import {
  BlockEvents,
  charactersOfBlock,
  charactersOfDelta,
  openingEvents,
} from '../block-events.ts';
import { anthropicStreamFormat, eventText } from '../client/stream-writer.ts';
import { finishReasonOf, forwardedStopReason, noStopReason } from '../finish.ts';
import { isNamedEvent, readReport, startedAgain } from '../upstream/reader.ts';
import { openingUsage, StreamUsage, writeUsage } from '../usage.ts';

class StreamMetrics extends StreamUsage implements AnswerMetrics {
  finishReason: string | undefined = undefined;
  failure: UpstreamFailure | undefined = undefined;
}

export class AnthropicPassThrough implements StreamTransform {
  readonly metrics = new StreamMetrics();
  started = false;
  finished = false;
  /** Set after the end, a failure, or the gateway's own closing event. */
  ended = false;
  readonly #identity: ReplyIdentity;
  readonly #inputTokensEstimate: number;
  /** The upstream's name for the model; '' until received. */
  #upstreamModel = '';
  #hasTools = false;
  /** The input of the last block if that is a tool call. */
  #input: JsonEndScanner | undefined;
  /** True if the input of an earlier call was cut off. */
  #hasCutInput = false;
  readonly #blocks = new BlockEvents();
  /**
   * The `message_delta`, held until the usage is settled, because the upstream may have omitted its
   * usage.
   */
  #held: AnthropicEvent | undefined;
  /** The `delta` of the last event that had a stop reason. */
  #end: unknown;

  constructor(identity: ReplyIdentity, inputTokensEstimate: number) {
    this.#identity = identity;
    this.#inputTokensEstimate = inputTokensEstimate;
  }

  push({ event, data }: SseMessage): string {
    if (this.ended) return '';
    const fields = parseExact(data);
    if (event === 'error') return this.#break(readErrorObject(fields ?? data));
    if (!isObject(fields)) return this.#break(invalidJsonEvent(data));
    if (fields.type === 'message_start') return this.#begin(fields);
    const isNamed = isNamedEvent(event, fields);
    if (!this.started) return isNamed ? '' : this.#findFailure(fields);
    return this.#take(fields, data, isNamed);
  }

  #take(fields: JsonObject, data: string, isNamed: boolean): string {
    switch (fields.type) {
      case 'content_block_start':
      case 'content_block_delta':
      case 'content_block_stop':
        return this.#emitAll(this.#blocks.take({ fields, data }));
      case 'message_delta':
        return this.#emitAll(this.#blocks.flush()) + this.#takeEnd({ fields, data });
      case 'message_stop':
        return this.#emitAll(this.#blocks.flush()) + this.#stop();
      default:
        if (!isNamed) this.#findFailure(fields);
        if (this.ended) return '';
        return this.#forward(fields, removePrivateFields(fields) ? JSON.stringify(fields) : data);
    }
  }

  #emitAll(events: readonly AnthropicEvent[]): string {
    let emitted = '';
    for (const event of events) emitted += this.#emit(event);
    return emitted;
  }

  #emit({ fields, data }: AnthropicEvent): string {
    const { type, content_block: block, delta } = fields;
    if (type === 'content_block_delta') {
      this.metrics.outputCharacters += charactersOfDelta(delta);
      this.#input?.push(textOf(fieldsOf(delta).partial_json));
    } else if (type === 'content_block_start' && isObject(block)) {
      const isTool = block.type === 'tool_use';
      this.#hasCutInput = this.#isInputCut;
      this.#input = isTool ? new JsonEndScanner() : undefined;
      if (isTool) this.#hasTools = true;
      this.metrics.outputCharacters += charactersOfBlock(block);
    }
    return this.#forward(fields, data);
  }

  get #isInputCut(): boolean {
    return this.#hasCutInput || this.#input?.isCut === true;
  }

  close({ usage }: SettledUsage): string {
    this.ended = true;
    return this.#release(usage) + eventText('message_stop', {});
  }

  fail(error: GatewayError): string {
    this.ended = true;
    return anthropicStreamFormat.fail(error, this.#identity);
  }

  keepAlive(): string {
    return this.started ? eventText('ping', {}) : keepAlive;
  }

  #begin(fields: JsonObject): string {
    if (this.metrics.outputCharacters > 0) return this.#break(malformed(startedAgain));
    const message = fieldsOf(fields.message);
    this.metrics.begin(message.usage);
    if (this.started) return '';
    this.started = true;
    if (typeof message.model === 'string') this.#upstreamModel = message.model;
    const { id, model } = this.#identity;
    // Clients read `usage` without checking that it exists.
    const usage = isObject(message.usage) ? message.usage : openingUsage(this.#inputTokensEstimate);
    const empty = { content: [], stop_reason: null };
    removePrivateFields(fields);
    removePrivateFields(message);
    removeCharges(usage);
    const named = { id: answerId('msg', id), model, provider: undefined };
    const rewritten = { ...message, ...named, usage, ...empty };
    const emitted = eventText('message_start', { ...fields, message: rewritten });
    return openingEvents(message).reduce((text, event) => text + this.push(event), emitted);
  }

  #takeEnd(received: AnthropicEvent): string {
    const event = withoutCharges(received);
    const { delta, usage } = event.fields;
    this.metrics.end(usage);
    const { stop_reason: reason } = fieldsOf(delta);
    const blockEnd = typeof reason === 'string' ? this.#emitAll(this.#blocks.end()) : '';
    const earlier = this.#release(undefined) + blockEnd;
    if (typeof reason === 'string') {
      const forwarded = forwardedStopReason(reason, this.#hasTools, this.#isInputCut);
      this.metrics.finishReason = openAiFinishReasons[finishReasonOf(forwarded, this.#hasTools)];
      this.#end = forwarded === reason ? delta : { ...fieldsOf(delta), stop_reason: forwarded };
    }
    // Clients use only the last `message_delta`, so if it has no stop reason, it gets the previous
    // stop reason.
    this.#held = this.#end === undefined ? event : withDelta(event, this.#end);
    return earlier;
  }

  #stop(): string {
    if (this.metrics.finishReason === undefined) return this.#break(malformed(noStopReason));
    this.finished = true;
    this.ended = true;
    return '';
  }

  /** Checks data that isn't an event of this dialect for a failure. Any other data is ignored. */
  #findFailure(fields: JsonObject): string {
    const failure = failureInside(fields);
    return failure ? this.#break(failure) : '';
  }

  #break(failure: UpstreamFailure): string {
    this.ended = true;
    this.metrics.failure = failure;
    return '';
  }

  /**
   * Returns the held event. Adds the settled usage if it isn't what the upstream reported, or if
   * the upstream reports zeros here for a prompt that it counted at the start.
   */
  #release(settled: Usage | undefined): string {
    const held = this.#held;
    if (!held) return '';
    this.#held = undefined;
    const { fields, data } = held;
    const counted = settled ?? this.metrics.usage;
    const report = readReport(fields.usage);
    const isForgotten =
      fieldsOf(fields.usage).input_tokens === 0 && !(report.usage && promptTokens(report.usage));
    const isCounted =
      !report.isEstimate && !isForgotten && hasSameTotals(this.metrics.usage, counted);
    const rewritten =
      counted && !isCounted
        ? { ...fields, usage: { ...fieldsOf(fields.usage), ...writeUsage(counted) } }
        : fields;
    const text = rewritten === fields && !data.includes('\n') ? data : JSON.stringify(rewritten);
    // The event may contain the upstream's model name again, for example as a model that was tried
    // or recommended.
    const renamed = renameModel(text, this.#upstreamModel, this.#identity.model);
    return `event: message_delta\ndata: ${renamed}\n\n`;
  }

  #forward(fields: JsonObject, data: string): string {
    const { type } = fields;
    if (typeof type !== 'string' || !isPlainType.test(type)) return '';
    const text = data.includes('\n') ? JSON.stringify(fields) : data;
    const event = `event: ${type}\ndata: ${text}\n\n`;
    return this.#held ? this.#release(undefined) + event : event;
  }
}

function withoutCharges(event: AnthropicEvent): AnthropicEvent {
  const { fields } = event;
  const hasPrivate = removePrivateFields(fields);
  const hasCharges = removeCharges(fields.usage);
  return hasPrivate || hasCharges ? { fields, data: JSON.stringify(fields) } : event;
}

function withDelta(event: AnthropicEvent, delta: unknown): AnthropicEvent {
  if (event.fields.delta === delta) return event;
  const fields = { ...event.fields, delta };
  return { fields, data: JSON.stringify(fields) };
}

const isPlainType = /^[\w.-]{1,64}$/;
