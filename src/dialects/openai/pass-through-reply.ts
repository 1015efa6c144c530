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
import { isChoiceIndex, removePrivateFields } from './chunk.ts';
import { charactersIn, hideReasoning, readFinishReason, repairText } from './message.ts';
import { completeToolCalls, repairToolCalls } from './tool-calls.ts';
import { usageIn, writeUsage } from './usage.ts';

function repairMessage(raw: unknown): Record<string, unknown> {
  // Azure leaves the message out of a choice that its filter took.
  if (!isObject(raw)) return { role: 'assistant', content: '' };
  repairText(raw);
  raw.role = 'assistant';
  if (raw.content === undefined) raw.content = null;
  if (raw.tool_calls === undefined) return raw;
  const calls = repairToolCalls([raw.tool_calls].flat());
  raw.tool_calls = calls.length > 0 ? calls : undefined;
  return raw;
}

interface RepairedChoice {
  readonly choice: Record<string, unknown>;
  readonly index: number;
  readonly characters: number;
  readonly finishReason: string | null;
}

/** Mends a choice in place. */
export function repairChoice(choice: Record<string, unknown>, position: number): RepairedChoice {
  const message = repairMessage(choice.message);
  const index = isChoiceIndex(choice.index) ? choice.index : position;
  const { tool_calls: calls } = message;
  const finishReason = readFinishReason(choice.finish_reason, calls !== undefined);
  if (finishReason === 'tool_calls' && Array.isArray(calls)) completeToolCalls(calls);
  choice.index = index;
  choice.message = message;
  choice.finish_reason = finishReason;
  return { choice, index, characters: charactersIn(message), finishReason };
}

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
  options: { readonly hidesReasoning?: boolean } = {},
): ReplyRelay | UpstreamFailure {
  const body = parseExact(text);
  if (!isObject(body)) return unreadableAnswer(text);
  const failure = failureInside(body);
  if (failure !== undefined) return failure;
  const choices = Array.isArray(body.choices) ? body.choices.filter(isObject) : [];
  const facts = repairChoices(choices, usageIn(body), options.hidesReasoning ?? false);
  if (facts === undefined) {
    return malformed('The upstream answered without any output and without a finish reason.');
  }
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
