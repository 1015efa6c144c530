import type { Usage } from './usage.ts';

/**
 * What an upstream said, kept to be heard again. Replaying it runs the same code as the first time,
 * free of charge; so one recording serves streams and whole replies alike.
 */
export interface Recording {
  /** The upstream's dialect. */
  readonly dialect: string;
  readonly form: 'stream' | 'whole';
  /** The answer, byte for byte as text. */
  readonly text: string;
  /** The alias and the provider that answered. */
  readonly model: string;
  readonly provider: string;
  /** The parameters that its provider was not asked for, as the header lists them. */
  readonly dropped?: string | undefined;
  /** The request that it was made for, as its client was told; left out in older recordings. */
  readonly first?: FirstRequest;
}

/** In characters. A busy store may take seconds for a longer one: others do not wait for it. */
const longLength = 500_000;

export function isLong(recording: Recording | null): boolean {
  return recording !== null && recording.text.length > longLength;
}

/** The request that paid for an answer, and what it cost. */
export interface FirstRequest {
  readonly requestId: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  readonly endedAt: number;
  readonly usage: Usage;
  readonly costCredits: number;
}
