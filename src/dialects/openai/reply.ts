/** A whole chat completion of an OpenAI-style upstream on its way to an OpenAI client. */
import { isObject } from '../../core/json.ts';
import type {
  ReplyClosing,
  ReplyFacts,
  ReplyIdentity,
  ReplyRelay,
  UpstreamFailure,
} from '../dialect.ts';
import { parseExact } from '../exact-json.ts';
import { failureInside, malformed } from '../failure.ts';
import { isChoiceIndex, removePrivateFields } from './chunk.ts';
import { charactersIn, hideReasoning, readFinishReason, repairText } from './message.ts';
import { repairToolCalls } from './tool-calls.ts';
import { usageIn, writeUsage } from './usage.ts';

function repairMessage(raw: unknown): Record<string, unknown> {
  // Azure leaves the message out of a choice that its filter took.
  if (!isObject(raw)) return { role: 'assistant', content: '' };
  repairText(raw);
  raw.role = 'assistant';
  if (raw.content === undefined) raw.content = null;
  const calls = Array.isArray(raw.tool_calls) ? repairToolCalls(raw.tool_calls) : [];
  raw.tool_calls = calls.length > 0 ? calls : undefined;
  return raw;
}

interface RepairedChoice {
  readonly choice: Record<string, unknown>;
  readonly index: number;
  readonly characters: number;
  readonly finishReason: string | null;
}

export function repairChoice(choice: Record<string, unknown>, position: number): RepairedChoice {
  const message = repairMessage(choice.message);
  const index = isChoiceIndex(choice.index) ? choice.index : position;
  const finishReason = readFinishReason(choice.finish_reason, message.tool_calls !== undefined);
  return {
    choice: { ...choice, index, message, finish_reason: finishReason },
    index,
    characters: charactersIn(message),
    finishReason,
  };
}

/** The relay of a usable answer, or why it is none. */
export function readReply(
  text: string,
  identity: ReplyIdentity,
  options: { readonly hidesReasoning?: boolean } = {},
): ReplyRelay | UpstreamFailure {
  const body = parseExact(text);
  if (!isObject(body)) {
    return malformed(
      `The upstream's answer is no readable JSON object: ${text.trim().slice(0, 200)}`,
    );
  }
  const failure = failureInside(body);
  if (failure !== undefined) return failure;
  const rawChoices = Array.isArray(body.choices) ? body.choices.filter(isObject) : [];
  const choices = rawChoices.map(repairChoice);
  if (!choices.some(({ characters, finishReason }) => characters > 0 || finishReason !== null)) {
    return malformed('The upstream answered without any output and without a finish reason.');
  }
  const facts: ReplyFacts = {
    usage: usageIn(body),
    finishReason: choices.find(({ index }) => index === 0)?.finishReason ?? undefined,
    outputCharacters: choices.reduce((sum, { characters }) => sum + characters, 0),
    failure: undefined,
  };
  removePrivateFields(body);
  if (options.hidesReasoning) {
    for (const { choice } of choices) if (isObject(choice.message)) hideReasoning(choice.message);
  }
  const { id, model, provider, created } = identity;
  const answer = JSON.stringify({
    ...body,
    ...{ id, object: 'chat.completion', created, model, provider },
    choices: choices.map(({ choice }) => choice),
    usage: undefined,
  });
  return {
    facts,
    write(closing: ReplyClosing): string {
      const usage = writeUsage(closing.usage, closing.costCredits);
      return `${answer.slice(0, -1)},"usage":${JSON.stringify(usage)}}`;
    },
  };
}
