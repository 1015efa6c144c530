import { strict as assert } from 'node:assert';
import type { ReplyFacts, UpstreamFailure, UpstreamRequest } from '../dialects/dialect.ts';
import type { Offer } from '../route/catalogue.ts';
import { attempt } from './attempt.ts';
import type { Link } from './link.ts';

/** A question to an offer whose answer is read as a whole before any of it is told. */
interface Question<Read extends object> {
  readonly request: UpstreamRequest;
  read(text: string): Read | UpstreamFailure;
  /** Time for the whole attempt, whatever the provider's own timeouts say. */
  readonly attemptMs?: number;
}

/** For an answer that reports its usage in fields of its own, or not at all. */
export const noFacts: ReplyFacts = {
  usage: undefined,
  finishReason: undefined,
  outputCharacters: 0,
  failure: undefined,
};

/** Asks once; returns what was read in the answer, or why there is nothing. */
export async function tryWhole<Read extends object>(
  { request, read, attemptMs }: Question<Read>,
  offer: Offer,
  link: Link,
): Promise<Read | UpstreamFailure> {
  let found: Read | undefined;
  const result = await attempt({
    offer,
    link,
    request,
    crossing: {
      relayStream: () => assert.fail('Nobody asked for a stream.'),
      streamReply: () => assert.fail('Nobody asked for a stream.'),
      relayReply(text) {
        const answer = read(text);
        if (isFailure(answer)) return answer;
        found = answer;
        return { facts: noFacts, write: () => '' };
      },
    },
    stream: false,
    attemptMs,
  });
  if (result.kind === 'failed') return result.failure;
  assert(found, 'An answer was read and is not there.');
  return found;
}

export function isFailure(read: object): read is UpstreamFailure {
  return 'kind' in read && 'retryAfterSeconds' in read;
}
