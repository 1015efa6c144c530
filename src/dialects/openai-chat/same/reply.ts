/** A whole chat completion of an OpenAI-style upstream on its way to an OpenAI client. */
import { type Fields, isObject, objectsIn } from '../../../core/json.ts';
import type {
  AnswerMetrics,
  ReplyIdentity,
  TransformedReply,
  UpstreamFailure,
} from '../../dialect.ts';
import { failureInside, invalidJsonAnswer, malformed } from '../../failure.ts';
import { parseExact } from '../../normalize/exact-json.ts';
import { removePrivateFields } from '../chunk.ts';
import type { ReplyOptions } from '../client/stream-writer.ts';
import { convertCustomCalls } from '../client/tool-forms.ts';
import { hideReasoning, type NormalizedChoice, noOutput, normalizeChoice } from '../message.ts';
import { isPromptAlone, outputDetailsIn, usageIn, writeUsage } from '../usage.ts';

/** The relay of a usable answer, or why the answer is not usable. */
export function readReply(
  text: string,
  identity: ReplyIdentity,
  options: ReplyOptions = {},
): TransformedReply | UpstreamFailure {
  const body = parseExact(text);
  if (!isObject(body)) return invalidJsonAnswer(text);
  const failure = failureInside(body);
  if (failure !== undefined) return failure;
  const choices = objectsIn(body.choices);
  const summary = normalizeChoices(choices, options);
  if (summary === undefined) return malformed(noOutput);
  const usage = usageIn(body);
  const metrics = {
    ...summary,
    usage,
    isEstimate: usage !== undefined && isPromptAlone(body, usage),
  };
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
    metrics,
    write(settled) {
      const counted = writeUsage(settled.usage, settled.costCredits, outputDetails);
      return `${answer},"usage":${JSON.stringify(counted)}}`;
    },
  };
}

/** Mends all choices in place and says what they come to; undefined when none says anything. */
function normalizeChoices(
  choices: readonly Fields[],
  { hidesReasoning, customTools, usesLegacyFunctions = false }: ReplyOptions,
): Omit<AnswerMetrics, 'usage'> | undefined {
  let hasOutput = false;
  let first: NormalizedChoice | undefined;
  let outputCharacters = 0;
  for (const [position, choice] of choices.entries()) {
    const normalized = normalizeChoice(choice, position, !usesLegacyFunctions);
    const { message, characters, finishReason } = normalized;
    if (characters > 0 || finishReason !== null) hasOutput = true;
    if (normalized.index === 0) first ??= normalized;
    outputCharacters += characters;
    if (hidesReasoning) hideReasoning(message);
    convertCustomCalls(message, customTools);
  }
  if (!hasOutput) return undefined;
  const finishReason = first?.finishReason ?? undefined;
  return { finishReason, outputCharacters, failure: undefined };
}
