/** A whole response of an upstream on its way to a Responses client. */
import { isObject } from '../../core/json.ts';
import { parseExact } from '../answer/exact-json.ts';
import type { ReplyIdentity, ReplyRelay, UpstreamFailure } from '../dialect.ts';
import { unreadableAnswer } from '../failure.ts';
import { countedUsage, PassedOutput, signResponse } from './passed-response.ts';
import { failureOf } from './reader.ts';
import type { Echo } from './response-object.ts';

export function readReply(
  text: string,
  identity: ReplyIdentity,
  echo: Echo,
): ReplyRelay | UpstreamFailure {
  const response = parseExact(text);
  if (!isObject(response)) return unreadableAnswer(text);
  const failure = failureOf(response, response.status);
  if (failure) return failure;
  const output = new PassedOutput();
  output.end(response);
  const { facts } = output;
  return {
    facts,
    write: (closing) =>
      signResponse(response, identity, echo, countedUsage(response, facts.usage, closing)),
  };
}
