import type { Usage } from './usage.ts';

/**
 * Receives an answer as neutral events. Provider dialects parse both streams and complete responses
 * into these calls, and client dialects write them. The events are method calls rather than
 * objects, because a stream has thousands of them.
 *
 * Calls arrive in order. Parts don't interleave, except the arguments of parallel tool calls.
 */
export interface AnswerSink {
  text(text: string): void;
  /** Receives part of the reasoning. `name` is the provider's field name if clients know it. */
  reasoning(text: string, name?: ReasoningName): void;
  /**
   * Ends the current reasoning with the provider's signature, marked as in signature.ts. The
   * reasoning can be empty: a tool call's signature arrives right before that call.
   */
  reasoningSignature(signature: string): void;
  /** Receives a complete encrypted reasoning block. */
  redactedReasoning(data: string): void;
  /** Starts a tool call. `call` counts from 0 in order of appearance. `id` is never empty. */
  toolCall(call: number, id: string, name: string): void;
  /** Receives part of that call's JSON arguments. Not called if it has none. */
  toolArguments(call: number, json: string): void;
  refusal(text: string): void;
  /** Receives the source of a statement in the text. */
  citation(citation: Citation): void;
  /** Receives a web search by the gateway. Absent if the client's format shows no searches. */
  webSearch?(search: WebSearch): void;
  /** Receives an image that the model generated. */
  image(mediaType: string, base64: string): void;
  /**
   * Receives the URL of an image hosted by the provider. Absent if the client's format has no field
   * for such a URL, which is then sent as text.
   */
  imageAt?(url: string): void;
  /**
   * Receives why the answer ended. Usage and even text can follow; the last call counts.
   * `upstreamReason` is the provider's own value if it isn't known here and `reason` is a guess.
   */
  finish(reason: FinishReason, stopSequence: string | null, upstreamReason?: string): void;
  /**
   * Receives the total usage so far, partly estimated if `isEstimate`. The last call counts. Absent
   * if the client's format ignores it: clients get the settled usage at the end.
   */
  usage?(usage: Usage, isEstimate?: boolean): void;
  /**
   * Returns the sink of another choice. Called once for each choice except the first, which the
   * methods above receive; its number starts at 1. Undefined or absent if the client requested only
   * one choice.
   */
  choice?(number: number): AnswerSink | undefined;
}

/** The field in which many OpenAI-compatible providers send reasoning and clients expect it. */
export type ReasoningName = 'reasoning_content';

export interface Citation {
  readonly url: string;
  readonly title: string;
  /** The quoted text of the source, or '' if the provider sent none. */
  readonly quote: string;
  /** The range of characters in the answer's text that the source supports, or null if unknown. */
  readonly range: { readonly start: number; readonly end: number } | null;
}

/** A web search that the gateway ran for the model. */
export interface WebSearch {
  readonly query: string;
  /** The pages that the model received, in their order. Empty if the search failed. */
  readonly pages: readonly WebPage[];
  /** Null if the search succeeded. `limit`: the request's searches were used up. */
  readonly error: 'failed' | 'limit' | null;
}

export interface WebPage {
  readonly url: string;
  readonly title: string;
  /** For example `2026-11-15`, if the search engine reported it. */
  readonly date?: string;
}

/**
 * `context`: the context window is full. `pause`: the provider paused and expects a continuation.
 */
export type FinishReason =
  | 'stop'
  | 'stop_sequence'
  | 'length'
  | 'context'
  | 'tool_calls'
  | 'content_filter'
  | 'pause';
