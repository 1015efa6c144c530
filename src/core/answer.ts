import type { Usage } from './usage.ts';

/**
 * The words of an answer, as they come. Every upstream's dialect tells its answers in these words,
 * whole or streamed, and every client's dialect listens to them: they are the one vocabulary in
 * between. Methods and not objects, because a stream has thousands of them.
 *
 * Told in order. Parts do not interleave, but for tool calls, whose arguments may.
 */
export interface AnswerSink {
  text(text: string): void;
  /** A piece of the model's visible thinking; `name` is the upstream's own, which clients know. */
  reasoning(text: string, name?: ReasoningName): void;
  /**
   * Ends the thought just told with the provider's proof of it, marked as in signature.ts. Perhaps
   * there was no text: a proof that belongs to a tool call is told right before that call.
   */
  reasoningSignature(signature: string): void;
  /** A whole encrypted thought. */
  redactedReasoning(data: string): void;
  /** Begins a call; `call` counts from 0 in the order of appearance. `id` is never empty. */
  toolCall(call: number, id: string, name: string): void;
  /** A piece of that call's JSON text. A call that gets none has no arguments. */
  toolArguments(call: number, json: string): void;
  refusal(text: string): void;
  /** The source of something said in the text. */
  citation(citation: Citation): void;
  /** A picture the model made. */
  image(mediaType: string, base64: string): void;
  /** A picture that the upstream keeps; left out where its address has to be told as a text. */
  imageAt?(url: string): void;
  /**
   * Why the answer ended. Usage may follow, and even words: then the last finish counts. `word` is
   * the upstream's own, where it is new to us and the reason a guess.
   */
  finish(reason: FinishReason, stopSequence: string | null, upstreamReason?: string): void;
  /**
   * All that was used so far, perhaps in part a guess; the last one counts. Left out where nobody
   * asks: clients are told the settled numbers at the end.
   */
  usage?(usage: Usage, isEstimate?: boolean): void;
  /**
   * The listener to another choice of the same answer; asked for once for each, by its number, from
   * 1 on. The words above are the first choice's. Undefined, or left out, where nobody wants more.
   */
  choice?(number: number): AnswerSink | undefined;
}

/** Where many OpenAI-style upstreams put their thinking, and their clients look for it. */
export type ReasoningName = 'reasoning_content';

export interface Citation {
  readonly url: string;
  readonly title: string;
  /** The words of the source; '' when they were not given. */
  readonly quote: string;
  /** Which characters of the answer's text it is for; null when nobody said. */
  readonly range: { readonly start: number; readonly end: number } | null;
}

/**
 * `context`: the model's window is full. `pause`: the provider stopped for a while and wants to be
 * asked to go on.
 */
export type FinishReason =
  | 'stop'
  | 'stop_sequence'
  | 'length'
  | 'context'
  | 'tool_calls'
  | 'content_filter'
  | 'pause';
