/** Answers of OpenAI-style upstreams in our own words. */
import type { AnswerListener } from '../../core/answer.ts';
import { type Fields, fieldsOf, isObject, objectsIn } from '../../core/json.ts';
import type { Usage } from '../../core/usage.ts';
import { parseExact } from '../answer/exact-json.ts';
import type { SseMessage, StreamReader, UpstreamFailure } from '../dialect.ts';
import {
  failureInside,
  malformed,
  readErrorObject,
  unreadableAnswer,
  unreadableEvent,
} from '../failure.ts';
import { AnswerTeller } from './answer-teller.ts';
import { mendChoice, noOutput } from './choice.ts';
import { ChunkMender, isNothing, isTerminator } from './chunk.ts';
import { charactersIn, stopSequenceIn } from './message.ts';
import { isPromptAlone, mergeUsage, usageIn } from './usage.ts';

export class OpenAiStreamReader implements StreamReader {
  ended = false;
  /** The last choice that had a finish reason. */
  #end: Fields | undefined;
  readonly #to: AnswerListener;
  readonly #teller: AnswerTeller;
  readonly #mender: ChunkMender;
  #usage: Usage | undefined;

  constructor(to: AnswerListener, toolNames?: readonly string[]) {
    this.#to = to;
    this.#teller = new AnswerTeller(to);
    this.#mender = new ChunkMender(toolNames);
  }

  get finished(): boolean {
    return this.#end !== undefined && (this.ended || !this.#mender.goesOn);
  }

  push({ event, data }: SseMessage): UpstreamFailure | undefined {
    if (this.ended) return this.#takeLateUsage(data);
    if (isTerminator(data)) {
      this.ended = true;
      this.#tellLacking();
      return undefined;
    }
    const chunk = parseExact(data);
    if (!isObject(chunk)) return this.#takeGarbage(event, data);
    const usage = usageIn(chunk, this.#usage);
    const failure = event === 'error' ? readErrorObject(chunk) : failureInside(chunk);
    if (failure === undefined) this.#takeChoices(chunk);
    // Usage is told after the words that it counts.
    this.#tellUsage(chunk, usage);
    return failure;
  }

  #takeChoices(chunk: Fields): void {
    const choices = objectsIn(chunk.choices);
    this.#mender.mend(chunk, choices);
    // Only clients of OpenAI's dialect can be told of several choices.
    for (const choice of choices) if (choice.index === 0) this.#takeChoice(choice);
  }

  #takeChoice(choice: Fields): void {
    const { delta, finish_reason: reason } = choice;
    const words = fieldsOf(delta);
    // Some servers write a finish reason into every chunk: a reason is the end only if no words
    // follow.
    if (this.#end !== undefined && charactersIn(words) === 0) return;
    this.#teller.tell(words);
    if (typeof reason !== 'string') return;
    this.#end = choice;
    this.#teller.finish(reason, stopSequenceIn(choice));
  }

  /** A finish reason beside a piece of a call may not be the end; after the terminator it is. */
  #tellLacking(): void {
    const lacking = this.#end ? this.#mender.complete(0, this.#end.finish_reason) : [];
    if (lacking.length > 0) this.#takeChoice({ ...this.#end, delta: { tool_calls: lacking } });
  }

  /** Some servers send the usage after their terminator; nothing else is read there. */
  #takeLateUsage(data: string): undefined {
    const chunk = this.#usage === undefined ? parseExact(data) : undefined;
    if (isObject(chunk)) this.#tellUsage(chunk, usageIn(chunk));
  }

  #tellUsage(chunk: Fields, usage: Usage | undefined): void {
    if (usage === undefined) return;
    this.#usage = mergeUsage(this.#usage, usage);
    this.#to.usage?.(this.#usage, isPromptAlone(chunk, this.#usage));
  }

  #takeGarbage(event: string | null, data: string): UpstreamFailure | undefined {
    if (event === 'error') return readErrorObject(data);
    if (isNothing(data)) return undefined;
    // A connection cut after the finish reason loses at most the usage: the answer is whole.
    return this.finished ? undefined : unreadableEvent(data);
  }
}

/** Tells a whole answer; the failure that it is instead, if it is one. */
export function tellReply(text: string, listener: AnswerListener): UpstreamFailure | undefined {
  const body = parseExact(text);
  if (!isObject(body)) return unreadableAnswer(text);
  const failure = failureInside(body);
  if (failure) return failure;
  const choices = objectsIn(body.choices);
  const first = choices.find(({ index }) => index === 0) ?? choices[0] ?? {};
  const { message, characters, finishReason } = mendChoice(first, 0);
  if (characters === 0 && finishReason === null) return malformed(noOutput);
  const teller = new AnswerTeller(listener);
  teller.tell(message);
  teller.finish(finishReason, stopSequenceIn(first));
  const usage = usageIn(body);
  if (usage) listener.usage?.(usage, isPromptAlone(body, usage));
  return undefined;
}
