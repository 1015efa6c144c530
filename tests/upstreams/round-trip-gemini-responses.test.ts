/** A dialogue written as a request and read back is the same: nothing is lost on the way. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { Prompt, Turn } from '../../src/core/prompt.ts';
import { geminiUpstream } from '../../src/dialects/gemini/upstream/upstream.ts';
import { responsesUpstream } from '../../src/dialects/responses/upstream/reader.ts';
import {
  type PromptFeatures,
  randomPrompts,
  responsesFeatures,
} from '../support/random-prompts.ts';
import { readGeminiRequest } from '../support/gemini-request.ts';
import { makeTarget } from '../support/prompts.ts';
import { readResponsesRequest } from '../support/responses-request.ts';

const target = makeTarget();

const gemini: PromptFeatures = {
  signatureOrigin: 'gemini',
  reasoningPosition: 'anywhere',
  redactedReasoning: false,
  emptyReasoningBeforeText: false,
  systemTurns: false,
  remoteFiles: false,
  imageDetail: false,
  documentNames: false,
  audio: true,
  resultFiles: true,
  resultErrors: true,
  strictTools: false,
  jsonNames: false,
  forcedJson: false,
  parallelTools: false,
  stop: true,
  user: false,
  efforts: ['low', 'medium', 'high'],
  sampling: ['temperature', 'topP', 'topK', 'seed', 'presencePenalty', 'frequencyPenalty'],
};

/** The word that stands for a lost signature is nobody's thought. */
function withoutPlaceholder(dialogue: Prompt): Prompt {
  const isReal = (part: object) =>
    !('signature' in part) || part.signature !== 'gemini:skip_thought_signature_validator';
  const turns = dialogue.turns.map((turn) => ({ ...turn, parts: turn.parts.filter(isReal) }));
  return { ...dialogue, turns: turns as Turn[] };
}

/** Results in the opposite order, as a client may send them. */
function withResultsReversed(dialogue: Prompt): Prompt {
  const turns = dialogue.turns.map((turn): Turn => {
    if (turn.role !== 'user') return turn;
    const results = turn.parts.filter((part) => part.kind === 'tool_result').reverse();
    return {
      role: 'user',
      parts: [...results, ...turn.parts.filter((part) => part.kind !== 'tool_result')],
    };
  });
  return { ...dialogue, turns };
}

/** The same dialogue as another provider would have made it. */
function withThoughtsOf(maker: string, dialogue: Prompt): Prompt {
  const turns = dialogue.turns.map((turn) => {
    if (turn.role !== 'assistant') return turn;
    const parts = turn.parts.map((part) =>
      part.kind === 'reasoning' && part.signature !== undefined
        ? { ...part, signature: part.signature.replace(/^\w+:/, maker) }
        : part,
    );
    return { ...turn, parts };
  });
  return { ...dialogue, turns };
}

function withoutThoughts(dialogue: Prompt): Prompt {
  const turns = dialogue.turns.map((turn) => ({
    ...turn,
    parts: turn.parts.filter(({ kind }) => kind !== 'reasoning'),
  }));
  return { ...dialogue, turns: turns as Turn[] };
}

const runs = { numRuns: 300 };
const timeoutMs = 120_000;

describe('a dialogue that Gemini can carry', () => {
  const roundTrip = (dialogue: Prompt) =>
    withoutPlaceholder(readGeminiRequest(geminiUpstream.write(dialogue, target)));

  test(
    'comes back the same, with nothing told as dropped',
    () => {
      fc.assert(
        fc.property(randomPrompts(gemini), (dialogue) => {
          expect(geminiUpstream.write(dialogue, target).dropped).toEqual([]);
          expect(roundTrip(dialogue)).toEqual(dialogue);
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test(
    'has its results in the order of the calls, however they came',
    () => {
      fc.assert(
        fc.property(randomPrompts(gemini), (dialogue) => {
          expect(roundTrip(withResultsReversed(dialogue))).toEqual(dialogue);
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test.each(['responses:', ''])(
    'leaves the thoughts of another maker behind: %p',
    (maker) => {
      fc.assert(
        fc.property(randomPrompts(gemini), (dialogue) => {
          const read = roundTrip(withThoughtsOf(maker, dialogue));
          expect(read).toEqual(withoutThoughts(dialogue));
        }),
        runs,
      );
    },
    timeoutMs,
  );
});

describe('a dialogue that the Responses endpoint can carry', () => {
  const roundTrip = (dialogue: Prompt) =>
    readResponsesRequest(responsesUpstream.write(dialogue, target));

  test(
    'comes back the same, with nothing told as dropped',
    () => {
      fc.assert(
        fc.property(randomPrompts(responsesFeatures), (dialogue) => {
          expect(responsesUpstream.write(dialogue, target).dropped).toEqual([]);
          expect(roundTrip(dialogue)).toEqual(dialogue);
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test.each(['gemini:', ''])(
    'leaves the thoughts of another maker behind: %p',
    (maker) => {
      fc.assert(
        fc.property(randomPrompts(responsesFeatures), (dialogue) => {
          const read = roundTrip(withThoughtsOf(maker, dialogue));
          expect(read).toEqual(withoutThoughts(dialogue));
        }),
        runs,
      );
    },
    timeoutMs,
  );
});
