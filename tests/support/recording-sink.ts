/** A listener that keeps everything it is told, and throws at words that must not come. */
import type { AnswerSink, Citation, FinishReason } from '../../src/core/answer.ts';
import type { Usage } from '../../src/core/usage.ts';
import type { StreamReader, UpstreamFailure } from '../../src/dialects/dialect.ts';
import { MalformedAnswer } from '../../src/dialects/failure.ts';

interface RecordedCall {
  readonly id: string;
  readonly name: string;
  arguments: string;
  /** The signature that came right before the call. */
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
  /** The kinds of words in order; several of one kind in a row count once. */
  readonly order: string[] = [];
  finishReason: FinishReason | null = null;
  stopSequence: string | null = null;
  lastUsage: Usage | undefined;
  isEstimate = false;
  #signature: string | undefined;

  text(text: string): void {
    this.#hear('text', text);
    this.fullText += text;
  }

  reasoning(text: string): void {
    this.#hear('reasoning', text);
    this.reasoningText += text;
  }

  reasoningSignature(signature: string): void {
    this.#hear('signature', signature);
    this.#signature = signature;
    this.signatures.push(signature);
  }

  redactedReasoning(data: string): void {
    this.#hear('redacted', data);
    this.redacted.push(data);
  }

  toolCall(call: number, id: string, name: string): void {
    const signature = this.#signature;
    this.#hear('call', id);
    if (call !== this.calls.length) throw new Error(`call ${call} came as ${this.calls.length}`);
    // Every listener of the gateway refuses it too.
    if (name === '') throw new MalformedAnswer('a tool call without a name');
    this.calls.push({ id, name, arguments: '', signature });
  }

  toolArguments(call: number, json: string): void {
    const open = this.calls[call];
    if (!open) throw new Error(`arguments of call ${call}, which is not open`);
    this.#hear('arguments', json);
    open.arguments += json;
  }

  refusal(text: string): void {
    this.#hear('refusal', text);
    this.refusalText += text;
  }

  citation(citation: Citation): void {
    this.#hear('citation', citation.url);
    this.citations.push(citation);
  }

  image(mediaType: string, base64: string): void {
    this.#hear('image', base64);
    this.images.push({ mediaType, base64 });
  }

  finish(reason: FinishReason, stopSequence: string | null): void {
    this.#hear('finish', reason);
    this.stopSequence = stopSequence;
    this.finishReason = reason;
  }

  usage(usage: Usage, isEstimate = false): void {
    this.lastUsage = usage;
    this.isEstimate = isEstimate;
  }

  #hear(kind: string, word: string): void {
    // If anything follows a finish, the answer had not finished.
    this.finishReason = null;
    if (word === '') throw new Error(`an empty ${kind}`);
    if (this.order.at(-1) !== kind) this.order.push(kind);
    if (kind !== 'signature') this.#signature = undefined;
  }
}

/** Feeds a stream to a reader, event by event, and returns what it told up to the first failure. */
export function readEvents(
  open: (listener: AnswerSink) => StreamReader,
  events: readonly unknown[],
) {
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
