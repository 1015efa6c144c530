/** A whole response of an upstream on its way to a Responses client. */
import { isObject } from '../../core/json.ts';
import type { ReplyFacts, ReplyIdentity, ReplyRelay, UpstreamFailure } from '../dialect.ts';
import { parseExact } from '../exact-json.ts';
import { failureInside, malformed, readErrorObject } from '../failure.ts';
import { PassedOutput, passedFacts, signResponse } from './passed-response.ts';
import type { Echo } from './response-object.ts';

export function passReply(
  text: string,
  identity: ReplyIdentity,
  echo: Echo,
): ReplyRelay | UpstreamFailure {
  const response = parseExact(text);
  if (!isObject(response)) {
    const start = text.trim().slice(0, 200);
    return malformed(`The upstream's answer is no readable JSON object: ${start}`);
  }
  const failure = failureInside(response);
  if (failure) return failure;
  const { status } = response;
  if (status === 'failed' || status === 'cancelled') return readErrorObject(response);
  if (status !== 'completed' && status !== 'incomplete') {
    return malformed(`The upstream answered with the status ${String(status)}.`);
  }
  const output = new PassedOutput();
  const { usage, finishReason } = passedFacts(response, output);
  const facts: ReplyFacts = {
    usage,
    finishReason,
    outputCharacters: output.characters,
    failure: undefined,
  };
  return { facts, write: (closing) => signResponse(response, identity, usage, closing, echo) };
}
