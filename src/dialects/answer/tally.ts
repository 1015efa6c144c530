/** What an answer comes to for the meter and the log, counted while it is told. */
import type { AnswerListener, Citation, FinishReason, ReasoningName } from '../../core/answer.ts';
import { pictureCharacters, type Usage } from '../../core/usage.ts';
import type { ToolNames } from '../ask/tools/tool-names.ts';
import { UnusableAnswer } from '../unusable-answer.ts';
import { NotedFacts } from './facts.ts';
import { tellImageAt } from './image-link.ts';

/** Finish reasons in the words of the log, which are OpenAI's. */
export const finishWords: Readonly<Record<FinishReason, string>> = {
  stop: 'stop',
  stop_sequence: 'stop',
  length: 'length',
  context: 'length',
  tool_calls: 'tool_calls',
  content_filter: 'content_filter',
  pause: 'stop',
};

/** Passes an answer on and notes its facts. */
export class Tally implements AnswerListener {
  readonly facts: NotedFacts;
  /** Whether the answer has said anything. */
  started = false;
  readonly #to: AnswerListener;
  readonly #names: ToolNames | undefined;
  /** The tally of the first choice, which keeps the totals of all choices. */
  readonly #first: Tally;
  /** Used in the first tally: the other choices that have begun and not ended. */
  readonly #open = new Set<Tally>();

  constructor(to: AnswerListener, names?: ToolNames, first?: Tally) {
    this.#to = to;
    this.#names = names;
    this.#first = first ?? this;
    this.facts = first?.facts ?? new NotedFacts();
  }

  choice(number: number): AnswerListener | undefined {
    const to = this.#to.choice?.(number);
    return to && new Tally(to, this.#names, this.#first);
  }

  text(text: string): void {
    this.#count(text.length);
    this.#to.text(text);
  }

  reasoning(text: string, name?: ReasoningName): void {
    this.#count(text.length);
    this.#to.reasoning(text, name);
  }

  reasoningSignature(signature: string): void {
    this.#first.started = true;
    this.#to.reasoningSignature(signature);
  }

  redactedReasoning(data: string): void {
    this.#count(data.length);
    this.#to.redactedReasoning(data);
  }

  /** A call without a name cannot be run, and upstreams refuse a conversation that contains one. */
  toolCall(call: number, id: string, name: string): void {
    if (name === '') throw new UnusableAnswer('a tool call without a name');
    this.#count(name.length);
    this.#to.toolCall(call, id, this.#names?.restore(name) ?? name);
  }

  toolArguments(call: number, json: string): void {
    this.#count(json.length);
    this.#to.toolArguments(call, json);
  }

  refusal(text: string): void {
    this.#count(text.length);
    this.#to.refusal(text);
  }

  citation(citation: Citation): void {
    this.#to.citation(citation);
  }

  image(mediaType: string, base64: string): void {
    this.#count(pictureCharacters);
    this.#to.image(mediaType, base64);
  }

  imageAt(url: string): void {
    this.#count(pictureCharacters);
    tellImageAt(url, this.#to);
  }

  finish(reason: FinishReason, stopSequence: string | null, word?: string): void {
    this.#first.started = true;
    if (this.#first === this) this.facts.finishReason = word ?? finishWords[reason];
    else this.#first.#open.delete(this);
    this.facts.isOpen = this.#first.#open.size > 0;
    this.#to.finish(reason, stopSequence, word);
  }

  usage(usage: Usage, isEstimate = false): void {
    this.facts.usage = usage;
    this.facts.isEstimate = isEstimate;
    this.#to.usage?.(usage, isEstimate);
  }

  #count(characters: number): void {
    this.#first.started = true;
    this.facts.outputCharacters += characters;
    if (this.#first === this) return;
    this.#first.#open.add(this);
    this.facts.isOpen = true;
  }
}
