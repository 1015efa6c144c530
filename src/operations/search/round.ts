import type { AnswerListener, Citation, FinishReason, ReasoningName } from '../../core/answer.ts';
import type { AssistantPart, ReasoningPart } from '../../core/dialogue.ts';
import type { Usage } from '../../core/usage.ts';
import { NotedFacts } from '../../dialects/answer/facts.ts';
import { finishWords } from '../../dialects/answer/tally.ts';

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
interface Manner {
  /** The text between what was said in earlier rounds and what is said now. */
  readonly gap: string;
  /** Whether the client wants an answer in JSON. */
  readonly isJson: boolean;
  /**
   * Called after the words that come before the client's own calls: some clients' texts end there.
   */
  readonly endWords: () => void;
}

/**
 * One round of a conversation with searches: what the model says goes on to the client, its calls
 * of our tool do not, and everything is remembered for the next round.
 */
export class SearchRound implements AnswerListener {
  readonly searches: SearchCall[] = [];
  readonly clientCalls: ClientCall[] = [];
  finished: { readonly reason: FinishReason; readonly stopSequence: string | null } | undefined;
  /** Text, thoughts and calls, by which usage is estimated. */
  readonly facts = new NotedFacts();
  readonly #toolName: string;
  readonly #to: AnswerListener;
  readonly #byCall = new Map<number, SearchCall | ClientCall>();
  readonly #gap: string;
  readonly #endWords: () => void;
  readonly #thoughts: ReasoningPart[] = [];
  #thought = '';
  #text = '';
  /** The end of the text, which the client has not heard. */
  #untold = '';
  /** Words before JSON are held back: “Let me look.” must not get into it if a search follows. */
  #holdsBack: boolean;
  #hasBegun = false;
  /**
   * Whether the client was shown something that is not sent back to the model, such as a picture.
   */
  #hasShown = false;

  constructor(toolName: string, to: AnswerListener, { gap, isJson, endWords }: Manner) {
    this.#toolName = toolName;
    this.#to = to;
    this.#gap = gap;
    this.#holdsBack = isJson;
    this.#endWords = endWords;
  }

  /** The text of this round as the client sees it. */
  get said(): string {
    const length = this.#toldLength;
    return length === 0 ? '' : this.#gap + this.#text.slice(0, length);
  }

  /** Whether the client was told anything of this round. */
  get hasSpoken(): boolean {
    const hasThought = this.#thought !== '' || this.#thoughts.length > 0;
    return this.#toldLength > 0 || hasThought || this.clientCalls.length > 0 || this.#hasShown;
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
      this.#thought === '' ? [] : [{ kind: 'reasoning', text: this.#thought }];
    return [...this.#thoughts, ...open, ...texts, ...calls];
  }

  text(text: string): void {
    if (!this.#hasBegun && text.trim() !== '') {
      this.#hasBegun = true;
      this.#holdsBack &&= !/^\s*[[{]/.test(text);
    }
    this.facts.outputCharacters += text.length;
    this.#text += text;
    this.#untold += text;
    if (!this.#holdsBack) this.tell();
  }

  /** Tells the client what it has not heard yet. */
  tell(): void {
    const untold = this.#untold;
    if (untold === '') return;
    if (this.#toldLength === 0 && this.#gap !== '') this.#to.text(this.#gap);
    this.#untold = '';
    this.#to.text(untold);
  }

  get #toldLength(): number {
    return this.#text.length - this.#untold.length;
  }

  reasoning(text: string, name?: ReasoningName): void {
    this.facts.outputCharacters += text.length;
    this.#thought += text;
    this.#to.reasoning(text, name);
  }

  reasoningSignature(signature: string): void {
    this.#thoughts.push({ kind: 'reasoning', text: this.#thought, signature });
    this.#thought = '';
    this.#to.reasoningSignature(signature);
  }

  redactedReasoning(data: string): void {
    this.facts.outputCharacters += data.length;
    this.#thoughts.push({ kind: 'reasoning', text: '', redacted: data });
    this.#to.redactedReasoning(data);
  }

  toolCall(call: number, id: string, name: string): void {
    this.facts.outputCharacters += this.#toolName.length;
    if (name === this.#toolName) {
      const search: SearchCall = { id, arguments: '' };
      this.#byCall.set(call, search);
      this.searches.push(search);
      return;
    }
    // A round with a call for the client is the last one, so nothing is held back any longer.
    this.tell();
    const number = this.clientCalls.length;
    if (number === 0) this.#endWords();
    const own: ClientCall = { number, id, name, arguments: '' };
    this.#byCall.set(call, own);
    this.clientCalls.push(own);
    this.#to.toolCall(number, id, name);
  }

  toolArguments(call: number, json: string): void {
    const known = this.#byCall.get(call);
    if (!known) return;
    this.facts.outputCharacters += json.length;
    known.arguments += json;
    if ('number' in known) this.#to.toolArguments(known.number, json);
  }

  refusal(text: string): void {
    this.#hasShown = true;
    this.#to.refusal(text);
  }

  citation(citation: Citation): void {
    this.#to.citation(citation);
  }

  image(mediaType: string, base64: string): void {
    this.#hasShown = true;
    this.#to.image(mediaType, base64);
  }

  /** Whether this is the end of the answer is decided when the round is over. */
  finish(reason: FinishReason, stopSequence: string | null): void {
    this.finished = { reason, stopSequence };
    this.facts.finishReason = finishWords[reason];
  }

  usage(usage: Usage, isEstimate = false): void {
    this.facts.usage = usage;
    this.facts.isEstimate = isEstimate;
  }
}
