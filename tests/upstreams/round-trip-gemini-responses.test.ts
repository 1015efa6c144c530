/** Writes random prompts as requests and reads them back. The prompt must be unchanged. */
import { describe, expect, test } from 'bun:test';
import type { Prompt, Turn } from '../../src/core/prompt.ts';
import { geminiUpstream } from '../../src/dialects/gemini/upstream/upstream.ts';
import { readPrompt } from '../../src/dialects/responses/client/prompt.ts';
import { readResponsesRequest as readBody } from '../../src/dialects/responses/client/request.ts';
import { responsesUpstream } from '../../src/dialects/responses/upstream/reader.ts';
import { readGeminiRequest } from '../support/gemini-request.ts';
import { makeTarget } from '../support/prompts.ts';
import { fc } from '../support/random.ts';
import {
  compact,
  type PromptFeatures,
  randomPrompts,
  responsesFeatures,
} from '../support/random-prompts.ts';
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

/** Drops the placeholder for missing signatures, because it isn't reasoning. */
function withoutPlaceholder(prompt: Prompt): Prompt {
  const isReal = (part: object) =>
    !('signature' in part) || part.signature !== 'gemini:skip_thought_signature_validator';
  const turns = prompt.turns.map((turn) => ({ ...turn, parts: turn.parts.filter(isReal) }));
  return { ...prompt, turns: turns as Turn[] };
}

/** Reverses the tool results, which clients may send in any order. */
function withResultsReversed(prompt: Prompt): Prompt {
  const turns = prompt.turns.map((turn): Turn => {
    if (turn.role !== 'user') return turn;
    const results = turn.parts.filter((part) => part.kind === 'tool_result').reverse();
    return {
      role: 'user',
      parts: [...results, ...turn.parts.filter((part) => part.kind !== 'tool_result')],
    };
  });
  return { ...prompt, turns };
}

/** Marks the reasoning as another vendor's. */
function withReasoningOf(vendor: string, prompt: Prompt): Prompt {
  const turns = prompt.turns.map((turn) => {
    if (turn.role !== 'assistant') return turn;
    const parts = turn.parts.map((part) =>
      part.kind === 'reasoning' && part.signature !== undefined
        ? { ...part, signature: part.signature.replace(/^\w+:/, vendor) }
        : part,
    );
    return { ...turn, parts };
  });
  return { ...prompt, turns };
}

function withoutReasoning(prompt: Prompt): Prompt {
  const turns = prompt.turns.map((turn) => ({
    ...turn,
    parts: turn.parts.filter(({ kind }) => kind !== 'reasoning'),
  }));
  return { ...prompt, turns: turns as Turn[] };
}

const runs = { numRuns: 300 };
const timeoutMs = 120_000;

describe('a prompt that Gemini can express', () => {
  const roundTrip = (prompt: Prompt) =>
    withoutPlaceholder(readGeminiRequest(geminiUpstream.write(prompt, target)));

  test(
    'is read back unchanged, without dropped parameters',
    () => {
      fc.assert(
        fc.property(randomPrompts(gemini), (prompt) => {
          expect(geminiUpstream.write(prompt, target).dropped).toEqual([]);
          expect(roundTrip(prompt)).toEqual(prompt);
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test(
    'has its tool results in the order of the calls',
    () => {
      fc.assert(
        fc.property(randomPrompts(gemini), (prompt) => {
          expect(roundTrip(withResultsReversed(prompt))).toEqual(prompt);
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test.each(['responses:', ''])(
    'drops the reasoning of another vendor: %p',
    (vendor) => {
      fc.assert(
        fc.property(randomPrompts(gemini), (prompt) => {
          const read = roundTrip(withReasoningOf(vendor, prompt));
          expect(read).toEqual(withoutReasoning(prompt));
        }),
        runs,
      );
    },
    timeoutMs,
  );
});

describe('a prompt that the Responses endpoint can express', () => {
  const roundTrip = (prompt: Prompt) =>
    readResponsesRequest(responsesUpstream.write(prompt, target));

  test(
    'is read back unchanged, without dropped parameters',
    () => {
      fc.assert(
        fc.property(randomPrompts(responsesFeatures), (prompt) => {
          expect(responsesUpstream.write(prompt, target).dropped).toEqual([]);
          expect(roundTrip(prompt)).toEqual(prompt);
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test.each(['gemini:', ''])(
    'drops the reasoning of another vendor: %p',
    (vendor) => {
      fc.assert(
        fc.property(randomPrompts(responsesFeatures), (prompt) => {
          const read = roundTrip(withReasoningOf(vendor, prompt));
          expect(read).toEqual(withoutReasoning(prompt));
        }),
        runs,
      );
    },
    timeoutMs,
  );
});

// The Responses format has no field for failed tool results.
const clientFeatures = { ...responsesFeatures, resultErrors: false };

test(
  'reading a Responses request returns the prompt that it was written from',
  () => {
    fc.assert(
      fc.property(randomPrompts(clientFeatures), (prompt) => {
        const text = String(responsesUpstream.write(prompt, target).body);
        const source = { text, bytes: new TextEncoder().encode(text) };
        const read = readPrompt(readBody(JSON.parse(text), source));
        const tools = prompt.tools.map((tool) => ({ strict: false, ...tool }));
        const sampling = compact(read.sampling);
        expect({ ...read, sampling }).toEqual({ ...prompt, tools });
      }),
      runs,
    );
  },
  timeoutMs,
);
