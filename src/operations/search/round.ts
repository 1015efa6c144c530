import type { AnswerSink, Citation, FinishReason, ReasoningName } from '../../core/answer.ts';
import type { AssistantPart, ReasoningPart } from '../../core/prompt.ts';
import type { Usage } from '../../core/usage.ts';
import {
  openAiFinishReasons,
  RecordedMetrics,
} from '../../dialects/normalize/responses/answer-metrics.ts';

/** A search that the model asks for. */
export interface SearchCall {
  readonly id: string;
  arguments: string;
}

interface ClientCall {
  /** The number of the call as the client knows it. */
  readonly number: number;
  readonly id: string;
  readonly name: string;
  arguments: string;
}

/** How a round speaks to the client. */
interface RoundOptions {
  /** The text between what was said in earlier rounds and what is said now. */
  readonly separator: string;
  /** Whether the client wants an answer in JSON. */
  readonly isJson: boolean;
  /**
   * Called after the words that come before the client's own calls: some clients' texts end there.
   */
  readonly onTextEnd: () => void;
}

/**
 * One round of a conversation with searches: what the model says goes on to the client, its calls
 * of our tool do not, and everything is remembered for the next round.
 */
export class SearchRound implements AnswerSink {
  readonly searches: SearchCall[] = [];
  readonly clientCalls: ClientCall[] = [];
  finished: { readonly reason: FinishReason; readonly stopSequence: string | null } | undefined;
  /** Text, thoughts and calls, by which usage is estimated. */
  readonly metrics = new RecordedMetrics();
  readonly #toolName: string;
  readonly #sink: AnswerSink;
  readonly #byCall = new Map<number, SearchCall | ClientCall>();
  readonly #separator: string;
  readonly #onTextEnd: () => void;
  readonly #reasoningParts: ReasoningPart[] = [];
  #openReasoning = '';
  #text = '';
  /** The end of the text, which the client has not heard. */
  #pending = '';
  /** Words before JSON are held back: “Let me look.” must not get into it if a search follows. */
  #holdsText: boolean;
  #hasBegun = false;
  /**
   * Whether the client was shown something that is not sent back to the model, such as a picture.
   */
  #sentOtherContent = false;

  constructor(toolName: string, sink: AnswerSink, { separator, isJson, onTextEnd }: RoundOptions) {
    this.#toolName = toolName;
    this.#sink = sink;
    this.#separator = separator;
    this.#holdsText = isJson;
    this.#onTextEnd = onTextEnd;
  }

  /** The text of this round as the client sees it. */
  get sentText(): string {
    const length = this.#sentLength;
    return length === 0 ? '' : this.#separator + this.#text.slice(0, length);
  }

  /** Whether the client was told anything of this round. */
  get hasOutput(): boolean {
    const hasReasoning = this.#openReasoning !== '' || this.#reasoningParts.length > 0;
    return (
      this.#sentLength > 0 || hasReasoning || this.clientCalls.length > 0 || this.#sentOtherContent
    );
  }

  /** The model's turn, to be sent back to it. */
  get parts(): readonly AssistantPart[] {
    const calls = [...this.#byCall.values()].map(
      (call): AssistantPart => ({
        kind: 'tool_call',
        id: call.id,
        name: 'name' in call ? call.name : this.#toolName,
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

  /** Tells the client what it has not heard yet. */
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
      const search: SearchCall = { id, arguments: '' };
      this.#byCall.set(call, search);
      this.searches.push(search);
      return;
    }
    // A round with a call for the client is the last one, so nothing is held back any longer.
    this.flush();
    const number = this.clientCalls.length;
    if (number === 0) this.#onTextEnd();
    const clientCall: ClientCall = { number, id, name, arguments: '' };
    this.#byCall.set(call, clientCall);
    this.clientCalls.push(clientCall);
    this.#sink.toolCall(number, id, name);
  }

  toolArguments(call: number, json: string): void {
    const known = this.#byCall.get(call);
    if (!known) return;
    this.metrics.outputCharacters += json.length;
    known.arguments += json;
    if ('number' in known) this.#sink.toolArguments(known.number, json);
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

  /** Whether this is the end of the answer is decided when the round is over. */
  finish(reason: FinishReason, stopSequence: string | null): void {
    this.finished = { reason, stopSequence };
    this.metrics.finishReason = openAiFinishReasons[reason];
  }

  usage(usage: Usage, isEstimate = false): void {
    this.metrics.usage = usage;
    this.metrics.isEstimate = isEstimate;
  }
}
