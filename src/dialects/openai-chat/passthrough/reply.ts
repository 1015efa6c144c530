/** Passes a chat completion of an OpenAI-style upstream to an OpenAI client. */
import type { JsonObject } from '../../../core/json.ts';
import {
  type AnswerMetrics,
  costForClient,
  type ReadResult,
  type ReplyIdentity,
  type TransformedReply,
} from '../../dialect.ts';
import { noOutputFailure, parseReply } from '../answer-parser.ts';
import { removeUpstreamFields } from '../chunk.ts';
import type { ReplyOptions } from '../client/reply-writer.ts';
import { convertCustomCalls } from '../client/tool-formats.ts';
import { hideReasoning, type NormalizedChoice, normalizeChoice } from '../message.ts';
import { outputDetailsIn, writeUsage } from '../usage.ts';

/** Returns the client's response, or the failure if the provider's isn't usable. */
export function readReply(
  text: string,
  identity: ReplyIdentity,
  options: ReplyOptions = {},
): ReadResult<TransformedReply> {
  const parsed = parseReply(text);
  if (!parsed.ok) return parsed;
  const { body, choices, usage, isPromptOnly: isEstimate } = parsed.value;
  const summary = normalizeChoices(choices, options);
  if (summary === undefined) return { ok: false, failure: noOutputFailure() };
  const metrics = { ...summary, usage, isEstimate };
  removeUpstreamFields(body);
  body.id = identity.id;
  body.object = 'chat.completion';
  body.created = identity.created;
  body.model = identity.model;
  body.provider = identity.provider;
  body.system_fingerprint ??= null;
  body.choices = choices;
  const outputDetails = usage && outputDetailsIn(body);
  body.usage = undefined;
  // Serialize everything now except the usage, which isn't settled yet.
  const answer = JSON.stringify(body).slice(0, -1);
  const write: TransformedReply['write'] = (settled) => {
    const counted = writeUsage(settled.usage, costForClient(settled), outputDetails);
    return `${answer},"usage":${JSON.stringify(counted)}}`;
  };
  return { ok: true, value: { metrics, write } };
}

/** Normalizes the choices in place. Returns their metrics, or undefined if none has any output. */
function normalizeChoices(
  choices: readonly JsonObject[],
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
