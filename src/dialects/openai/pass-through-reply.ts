/** A whole chat completion of an OpenAI-style upstream on its way to an OpenAI client. */
import { type Fields, isObject, objectsIn } from '../../core/json.ts';
import { parseExact } from '../answer/exact-json.ts';
import type { ReplyFacts, ReplyIdentity, ReplyRelay, UpstreamFailure } from '../dialect.ts';
import { failureInside, malformed, unreadableAnswer } from '../failure.ts';
import { type MendedChoice, mendChoice, noOutput } from './choice.ts';
import { removePrivateFields } from './chunk.ts';
import type { ReplyOptions } from './client.ts';
import { tellCustomCalls } from './custom-calls.ts';
import { hideReasoning } from './message.ts';
import { isPromptAlone, outputDetailsIn, usageIn, writeUsage } from './usage.ts';

/** The relay of a usable answer, or why the answer is not usable. */
export function readReply(
  text: string,
  identity: ReplyIdentity,
  options: ReplyOptions = {},
): ReplyRelay | UpstreamFailure {
  const body = parseExact(text);
  if (!isObject(body)) return unreadableAnswer(text);
  const failure = failureInside(body);
  if (failure !== undefined) return failure;
  const choices = objectsIn(body.choices);
  const said = mendChoices(choices, options);
  if (said === undefined) return malformed(noOutput);
  const usage = usageIn(body);
  const facts = { ...said, usage, isEstimate: usage !== undefined && isPromptAlone(body, usage) };
  removePrivateFields(body);
  body.id = identity.id;
  body.object = 'chat.completion';
  body.created = identity.created;
  body.model = identity.model;
  body.provider = identity.provider;
  body.choices = choices;
  const outputDetails = usage && outputDetailsIn(body);
  body.usage = undefined;
  // Everything is written but the usage, which is settled last.
  const answer = JSON.stringify(body).slice(0, -1);
  return {
    facts,
    write(closing) {
      const counted = writeUsage(closing.usage, closing.costCredits, outputDetails);
      return `${answer},"usage":${JSON.stringify(counted)}}`;
    },
  };
}

/** Mends all choices in place and says what they come to; undefined when none says anything. */
function mendChoices(
  choices: readonly Fields[],
  { hidesReasoning, customTools, knowsFunctions = false }: ReplyOptions,
): Omit<ReplyFacts, 'usage'> | undefined {
  let saysAnything = false;
  let first: MendedChoice | undefined;
  let outputCharacters = 0;
  for (const [position, choice] of choices.entries()) {
    const mended = mendChoice(choice, position, !knowsFunctions);
    const { message, characters, finishReason } = mended;
    if (characters > 0 || finishReason !== null) saysAnything = true;
    if (mended.index === 0) first ??= mended;
    outputCharacters += characters;
    if (hidesReasoning) hideReasoning(message);
    tellCustomCalls(message, customTools);
  }
  if (!saysAnything) return undefined;
  const finishReason = first?.finishReason ?? undefined;
  return { finishReason, outputCharacters, failure: undefined };
}
