import type { AnswerSink, Citation, FinishReason, ReasoningName } from '../../core/answer.ts';
import type { AssistantPart, ReasoningPart } from '../../core/prompt.ts';
import type { Usage } from '../../core/usage.ts';
import {
  openAiFinishReasons,
  RecordedMetrics,
} from '../../dialects/normalize/responses/answer-metrics.ts';
import type { ClientCall } from '../../tools/search-notes.ts';

/** A call to the search tool. Its arguments arrive in fragments. */
export interface SearchCall {
  readonly kind: 'search';
  readonly id: string;
  arguments: string;
}

/** A call to one of the client's tools. Its arguments arrive in fragments. */
interface OpenClientCall extends ClientCall {
  readonly kind: 'client';
  /** The index of the call in the client's answer. */
  readonly index: number;
  arguments: string;
}

interface RoundOptions {
  /** Written between the text of earlier rounds and the text of this one. */
  readonly separator: string;
  /** True if the client requested JSON output. */
  readonly isJson: boolean;
  /** Called before the client's first tool call, because text ends there in some dialects. */
  readonly onTextEnd: () => void;
}

/**
 * One round of a chat with searches. Forwards the model's output to the client, except calls to the
 * search tool, and collects the model's turn for the next round's prompt.
 */
export class SearchRound implements AnswerSink {
  readonly searches: SearchCall[] = [];
  readonly clientCalls: OpenClientCall[] = [];
  finished: { readonly reason: FinishReason; readonly stopSequence: string | null } | undefined;
  /** Counts text, reasoning, and tool calls, from which usage can be estimated. */
  readonly metrics = new RecordedMetrics();
  readonly #toolName: string;
  readonly #sink: AnswerSink;
  readonly #byCall = new Map<number, SearchCall | OpenClientCall>();
  readonly #separator: string;
  readonly #onTextEnd: () => void;
  readonly #reasoningParts: ReasoningPart[] = [];
  #openReasoning = '';
  #text = '';
  /** The end of the text, not yet sent to the client. */
  #pending = '';
  /**
   * Text before JSON is held back. If a search follows it, the text would make the JSON invalid.
   */
  #holdsText: boolean;
  #hasBegun = false;
  /** True if the client got content that is not sent back to the model, such as an image. */
  #sentOtherContent = false;

  constructor(toolName: string, sink: AnswerSink, { separator, isJson, onTextEnd }: RoundOptions) {
    this.#toolName = toolName;
    this.#sink = sink;
    this.#separator = separator;
    this.#holdsText = isJson;
    this.#onTextEnd = onTextEnd;
  }

  /** The text of this round that was sent to the client. */
  get sentText(): string {
    const length = this.#sentLength;
    return length === 0 ? '' : this.#separator + this.#text.slice(0, length);
  }

  /** True if the client got any output of this round. */
  get hasOutput(): boolean {
    const hasReasoning = this.#openReasoning !== '' || this.#reasoningParts.length > 0;
    return (
      this.#sentLength > 0 || hasReasoning || this.clientCalls.length > 0 || this.#sentOtherContent
    );
  }

  /** The model's turn, for the next round's prompt. */
  get parts(): readonly AssistantPart[] {
    const calls = [...this.#byCall.values()].map(
      (call): AssistantPart => ({
        kind: 'tool_call',
        id: call.id,
        name: call.kind === 'client' ? call.name : this.#toolName,
        arguments: call.arguments === '' ? '{}' : call.arguments,
      }),
    );
    const texts: AssistantPart[] = this.#text === '' ? [] : [{ kind: 'text', text: this.#text }];
    const open: AssistantPart[] =
      this.#openReasoning === '' ? [] : [{ kind: 'reasoning', text: this.#openReasoning }];
    return [...this.#reasoningParts, ...open, ...texts, ...calls];
  }

  text(text: string): void {
    if (!this.#hasBegun && text.trim() !== '') {
      this.#hasBegun = true;
      this.#holdsText &&= !/^\s*[[{]/.test(text);
    }
    this.metrics.outputCharacters += text.length;
    this.#text += text;
    this.#pending += text;
    if (!this.#holdsText) this.flush();
  }

  /** Sends the pending text to the client. */
  flush(): void {
    const pending = this.#pending;
    if (pending === '') return;
    if (this.#sentLength === 0 && this.#separator !== '') this.#sink.text(this.#separator);
    this.#pending = '';
    this.#sink.text(pending);
  }

  get #sentLength(): number {
    return this.#text.length - this.#pending.length;
  }

  reasoning(text: string, name?: ReasoningName): void {
    this.metrics.outputCharacters += text.length;
    this.#openReasoning += text;
    this.#sink.reasoning(text, name);
  }

  reasoningSignature(signature: string): void {
    this.#reasoningParts.push({ kind: 'reasoning', text: this.#openReasoning, signature });
    this.#openReasoning = '';
    this.#sink.reasoningSignature(signature);
  }

  redactedReasoning(data: string): void {
    this.metrics.outputCharacters += data.length;
    this.#reasoningParts.push({ kind: 'reasoning', text: '', redacted: data });
    this.#sink.redactedReasoning(data);
  }

  toolCall(call: number, id: string, name: string): void {
    this.metrics.outputCharacters += this.#toolName.length;
    if (name === this.#toolName) {
      const search: SearchCall = { kind: 'search', id, arguments: '' };
      this.#byCall.set(call, search);
      this.searches.push(search);
      return;
    }
    // A round with a client call is the last one, so no text needs to be held back.
    this.flush();
    const index = this.clientCalls.length;
    if (index === 0) this.#onTextEnd();
    const clientCall: OpenClientCall = { kind: 'client', index, id, name, arguments: '' };
    this.#byCall.set(call, clientCall);
    this.clientCalls.push(clientCall);
    this.#sink.toolCall(index, id, name);
  }

  toolArguments(call: number, json: string): void {
    const known = this.#byCall.get(call);
    if (!known) return;
    this.metrics.outputCharacters += json.length;
    known.arguments += json;
    if (known.kind === 'client') this.#sink.toolArguments(known.index, json);
  }

  refusal(text: string): void {
    this.#sentOtherContent = true;
    this.#sink.refusal(text);
  }

  citation(citation: Citation): void {
    this.#sink.citation(citation);
  }

  image(mediaType: string, base64: string): void {
    this.#sentOtherContent = true;
    this.#sink.image(mediaType, base64);
  }

  /** Stores the finish reason. The session decides later whether the answer ends here. */
  finish(reason: FinishReason, stopSequence: string | null): void {
    this.finished = { reason, stopSequence };
    this.metrics.finishReason = openAiFinishReasons[reason];
  }

  usage(usage: Usage, isEstimate = false): void {
    this.metrics.usage = usage;
    this.metrics.isEstimate = isEstimate;
  }
}
