/** A whole chat completion of an OpenAI-style upstream on its way to an OpenAI client. */
import { isObject } from '../../core/json.ts';
import type { Usage } from '../../core/usage.ts';
import { parseExact } from '../answer/exact-json.ts';
import type {
  ReplyClosing,
  ReplyFacts,
  ReplyIdentity,
  ReplyRelay,
  UpstreamFailure,
} from '../dialect.ts';
import { failureInside, malformed, unreadableAnswer } from '../failure.ts';
import { noOutput, type RepairedChoice, repairChoice } from './choice.ts';
import { removePrivateFields } from './chunk.ts';
import type { OpenAiClientOptions } from './client.ts';
import { hideReasoning } from './message.ts';
import { usageIn, writeUsage } from './usage.ts';

/** Everything is written but the usage, which is settled last. */
class PassedReply implements ReplyRelay {
  readonly facts: ReplyFacts;
  readonly #answer: string;

  constructor(facts: ReplyFacts, answer: string) {
    this.facts = facts;
    this.#answer = answer;
  }

  write(closing: ReplyClosing): string {
    const usage = writeUsage(closing.usage, closing.costCredits);
    return `${this.#answer.slice(0, -1)},"usage":${JSON.stringify(usage)}}`;
  }
}

/** The relay of a usable answer, or why it is none. */
export function readReply(
  text: string,
  identity: ReplyIdentity,
  { hidesReasoning = false }: Pick<OpenAiClientOptions, 'hidesReasoning'> = {},
): ReplyRelay | UpstreamFailure {
  const body = parseExact(text);
  if (!isObject(body)) return unreadableAnswer(text);
  const failure = failureInside(body);
  if (failure !== undefined) return failure;
  const choices = Array.isArray(body.choices) ? body.choices.filter(isObject) : [];
  const facts = repairChoices(choices, usageIn(body), hidesReasoning);
  if (facts === undefined) return malformed(noOutput);
  removePrivateFields(body);
  body.id = identity.id;
  body.object = 'chat.completion';
  body.created = identity.created;
  body.model = identity.model;
  body.provider = identity.provider;
  body.choices = choices;
  body.usage = undefined;
  return new PassedReply(facts, JSON.stringify(body));
}

/** Mends all choices in place and says what they come to; undefined when none says anything. */
function repairChoices(
  choices: readonly Record<string, unknown>[],
  usage: Usage | undefined,
  hidesReasoning: boolean,
): ReplyFacts | undefined {
  let saysAnything = false;
  let first: RepairedChoice | undefined;
  let outputCharacters = 0;
  for (let position = 0; position < choices.length; position += 1) {
    const repaired = repairChoice(choices[position] ?? {}, position);
    const { choice, characters, finishReason } = repaired;
    if (characters > 0 || finishReason !== null) saysAnything = true;
    if (repaired.index === 0) first ??= repaired;
    outputCharacters += characters;
    if (hidesReasoning && isObject(choice.message)) hideReasoning(choice.message);
  }
  if (!saysAnything) return undefined;
  const finishReason = first?.finishReason ?? undefined;
  return { usage, finishReason, outputCharacters, failure: undefined };
}
