/** One entry of the book, and the totals over all entries. */

import { type Form, field } from './parsed-request.ts';

/**
 * 'hung': the answer stays silent; when its client gives up it becomes 'client-disconnected', as every
 * answer does whose client leaves before the end.
 */
export type Outcome = 'open' | 'complete' | 'client-disconnected' | 'reset' | 'cut' | 'hung';

export interface LoggedRequest {
  readonly id: number;
  /** The number of the connection; equal numbers mean that it was used again. */
  readonly connection: number;
  /**
   * Milliseconds since 1970 with fractions, like all times here, so that processes can be compared.
   */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  raw: Uint8Array;
  bodyBytes: number;
  /** When the request's last byte was in. */
  bodyAt: number | null;
  json: unknown;
  form: Form | undefined;
  model: string | undefined;
  stream: boolean;
  status: number | null;
  /** Bytes handed to the kernel, including the head. */
  bytesSent: number;
  eventsSent: number;
  /** How often the reader was too slow and sending had to pause. */
  pauses: number;
  /** The words sent for the client to see. */
  text: string;
  /** The last usage object that went out, as it was. */
  usageSent: unknown;
  /**
   * The reported usage if any was sent, otherwise what was really sent. Final once the answer
   * ended.
   */
  tokens: { prompt: number; completion: number };
  firstByteAt: number | null;
  /** When the outcome was known. */
  finishedAt: number | null;
  /** When the connection closed; null while it is open or if it carried a later request. */
  closedAt: number | null;
  outcome: Outcome;
}

export interface RequestTotals {
  readonly requests: number;
  readonly open: number;
  readonly openMax: number;
  readonly connections: number;
  readonly connectionsOpen: number;
  readonly bytesSent: number;
  readonly byOutcome: Readonly<Record<string, number>>;
  readonly byStatus: Readonly<Record<string, number>>;
  readonly byModel: Readonly<
    Record<string, { requests: number; promptTokens: number; completionTokens: number }>
  >;
  readonly malformed: readonly string[];
}

export function newTotals() {
  const byModel: Record<
    string,
    { requests: number; promptTokens: number; completionTokens: number }
  > = {};
  const byOutcome: Record<string, number> = {};
  const byStatus: Record<string, number> = {};
  const malformed: string[] = [];
  const counts = { requests: 0, open: 0, openMax: 0, connections: 0, connectionsOpen: 0 };
  return { ...counts, bytesSent: 0, byOutcome, byStatus, byModel, malformed };
}

export function describeRequest(entry: LoggedRequest): string {
  const { id, model, path, status, eventsSent, outcome } = entry;
  return `#${id} ${path} ${model ?? '-'} ${status ?? '-'} ${eventsSent} events ${outcome}`;
}

/** Reads the usage of any dialect; numbers that it lacks are filled from what was counted. */
export function reportedTokens(usage: unknown, produced: { prompt: number; completion: number }) {
  const number = (name: string) => {
    const value = field(usage, name);
    return typeof value === 'number' ? value : undefined;
  };
  const input = number('input_tokens') ?? number('inputTokens');
  const cached = number('cache_read_input_tokens') ?? number('cacheReadInputTokens') ?? 0;
  const output = number('output_tokens') ?? number('outputTokens');
  return {
    prompt: number('prompt_tokens') ?? (input === undefined ? produced.prompt : input + cached),
    completion: number('completion_tokens') ?? output ?? produced.completion,
  };
}
