/** An entry of the request log, and the totals of all entries. */

import { type Form, field } from './parsed-request.ts';

/** 'hung': the answer has stopped. It becomes 'client-disconnected' when its client gives up. */
export type Outcome = 'open' | 'complete' | 'client-disconnected' | 'reset' | 'cut' | 'hung';

export interface LoggedRequest {
  readonly id: number;
  /** The connection's number. Requests with the same number shared a connection. */
  readonly connection: number;
  /** In Unix milliseconds with fractions, like all times here. Processes can compare them. */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  raw: Uint8Array;
  bodyBytes: number;
  /** When the last byte of the request arrived. */
  bodyAt: number | null;
  json: unknown;
  form: Form | undefined;
  model: string | undefined;
  stream: boolean;
  status: number | null;
  /** Bytes written to the socket, including the head. */
  bytesSent: number;
  eventsSent: number;
  /** How often sending paused because the client read too slowly. */
  pauses: number;
  /** The sent text of the answer. */
  text: string;
  /** The last usage object that was sent. */
  usageSent: unknown;
  /** The reported usage. Without usage, the number of sent words. Final when the answer ends. */
  tokens: { prompt: number; completion: number };
  firstByteAt: number | null;
  /** When the answer ended. */
  finishedAt: number | null;
  /** When the connection closed. Null while it is open or if a later request used it. */
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

/** Reads the usage of any dialect. Missing numbers are taken from `produced`. */
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
