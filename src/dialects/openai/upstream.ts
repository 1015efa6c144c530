import type { AnswerListener } from '../../core/answer.ts';
import type { Dialogue } from '../../core/dialogue.ts';
import { isObject } from '../../core/json.ts';
import type { Target, UpstreamDialect, UpstreamFailure, UpstreamRequest } from '../dialect.ts';
import { parseExact } from '../exact-json.ts';
import { failureInside, malformed } from '../failure.ts';
import { writeBody } from './dialogue-body.ts';
import { repairChoice } from './reply.ts';
import { AnswerTeller, OpenAiStreamReader } from './stream-reader.ts';
import { writeChat } from './upstream-request.ts';
import { usageIn } from './usage.ts';

/** OpenAI-style upstreams, for clients that speak differently. */
export const openAiUpstream: UpstreamDialect = {
  toolNameLengthMax: 64,
  write(dialogue: Dialogue, target: Target): UpstreamRequest {
    const { body, dropped } = writeBody(dialogue);
    return { ...writeChat({ body, source: null }, target), dropped };
  },
  openStream: (listener) => new OpenAiStreamReader(listener),
  readReply: tellReply,
};

function tellReply(text: string, listener: AnswerListener): UpstreamFailure | undefined {
  const body = parseExact(text);
  if (!isObject(body)) {
    return malformed(`The upstream's answer is no readable JSON object: ${text.slice(0, 200)}`);
  }
  const failure = failureInside(body);
  if (failure) return failure;
  const [first] = Array.isArray(body.choices) ? body.choices.filter(isObject) : [];
  const { choice, characters, finishReason } = repairChoice(first ?? {}, 0);
  if (characters === 0 && finishReason === null) {
    return malformed('The upstream answered without any output and without a finish reason.');
  }
  const teller = new AnswerTeller(listener);
  teller.tell(isObject(choice.message) ? choice.message : {});
  const usage = usageIn(body);
  if (usage) listener.usage(usage);
  teller.finish(finishReason ?? 'stop');
  return undefined;
}
