/** An answer sink that records everything and throws for events that must not occur. */
import type { AnswerSink, Citation, FinishReason } from '../../src/core/answer.ts';
import type { Usage } from '../../src/core/usage.ts';
import type { StreamReader, UpstreamFailure } from '../../src/dialects/dialect.ts';
import { MalformedAnswer } from '../../src/dialects/failure.ts';

interface RecordedCall {
  readonly id: string;
  readonly name: string;
  arguments: string;
  /** The signature that arrived directly before the call. */
  readonly signature: string | undefined;
}

export class RecordingSink implements AnswerSink {
  fullText = '';
  reasoningText = '';
  refusalText = '';
  readonly calls: RecordedCall[] = [];
  readonly signatures: string[] = [];
  readonly images: { mediaType: string; base64: string }[] = [];
  readonly citations: Citation[] = [];
  readonly redacted: string[] = [];
  /** The event kinds in order. Consecutive events of one kind count once. */
  readonly order: string[] = [];
  finishReason: FinishReason | null = null;
  stopSequence: string | null = null;
  lastUsage: Usage | undefined;
  isEstimate = false;
  #signature: string | undefined;

  text(text: string): void {
    this.#record('text', text);
    this.fullText += text;
  }

  reasoning(text: string): void {
    this.#record('reasoning', text);
    this.reasoningText += text;
  }

  reasoningSignature(signature: string): void {
    this.#record('signature', signature);
    this.#signature = signature;
    this.signatures.push(signature);
  }

  redactedReasoning(data: string): void {
    this.#record('redacted', data);
    this.redacted.push(data);
  }

  toolCall(call: number, id: string, name: string): void {
    const signature = this.#signature;
    this.#record('call', id);
    if (call !== this.calls.length)
      throw new Error(`Tool call ${call} arrived as number ${this.calls.length}.`);
    // All answer sinks of the gateway also reject this.
    if (name === '') throw new MalformedAnswer('a tool call without a name');
    this.calls.push({ id, name, arguments: '', signature });
  }

  toolArguments(call: number, json: string): void {
    const open = this.calls[call];
    if (!open) throw new Error(`Arguments arrived for tool call ${call}, which isn't open.`);
    this.#record('arguments', json);
    open.arguments += json;
  }

  refusal(text: string): void {
    this.#record('refusal', text);
    this.refusalText += text;
  }

  citation(citation: Citation): void {
    this.#record('citation', citation.url);
    this.citations.push(citation);
  }

  image(mediaType: string, base64: string): void {
    this.#record('image', base64);
    this.images.push({ mediaType, base64 });
  }

  finish(reason: FinishReason, stopSequence: string | null): void {
    this.#record('finish', reason);
    this.stopSequence = stopSequence;
    this.finishReason = reason;
  }

  usage(usage: Usage, isEstimate = false): void {
    this.lastUsage = usage;
    this.isEstimate = isEstimate;
  }

  #record(kind: string, content: string): void {
    // If an event follows the finish reason, the answer wasn't finished.
    this.finishReason = null;
    if (content === '') throw new Error(`The ${kind} is empty.`);
    if (this.order.at(-1) !== kind) this.order.push(kind);
    if (kind !== 'signature') this.#signature = undefined;
  }
}

/** Passes events to a reader up to the first failure, and returns what it wrote to the sink. */
export function readEvents(open: (sink: AnswerSink) => StreamReader, events: readonly unknown[]) {
  const sink = new RecordingSink();
  const reader = open(sink);
  let failure: UpstreamFailure | undefined;
  for (const event of events) {
    const data = typeof event === 'string' ? event : JSON.stringify(event);
    failure = reader.push({ event: null, data });
    if (failure) break;
  }
  return { sink: sink, reader, failure };
}
