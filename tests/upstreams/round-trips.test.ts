/**
 * A dialogue written as the request of a dialect and read back as that dialect's clients write it
 * is the same: what two translators agree on, a conversation survives.
 */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { isObject } from '../../src/core/json.ts';
import type { Prompt, Turn } from '../../src/core/prompt.ts';
import { readPrompt as readAnthropic } from '../../src/dialects/anthropic/client/prompt.ts';
import { readMessagesRequest } from '../../src/dialects/anthropic/client/request.ts';
import { anthropicUpstream } from '../../src/dialects/anthropic/upstream/reader.ts';
import type { Target, UpstreamRequest } from '../../src/dialects/dialect.ts';
import { readPrompt as readOpenAi } from '../../src/dialects/openai-chat/client/prompt.ts';
import { readChatRequest } from '../../src/dialects/openai-chat/client/request.ts';
import { openAiUpstream } from '../../src/dialects/openai-chat/upstream/reader.ts';
import { type PromptFeatures, randomPrompts } from '../support/random-prompts.ts';
import { makeTarget } from '../support/prompts.ts';

const runs = { numRuns: 300 };
const timeoutMs = 120_000;

const anthropic: PromptFeatures = {
  signatureOrigin: 'anthropic',
  reasoningPosition: 'anywhere',
  redactedReasoning: true,
  emptyReasoningBeforeText: true,
  systemTurns: true,
  remoteFiles: true,
  imageDetail: false,
  documentNames: true,
  audio: false,
  resultFiles: true,
  resultErrors: true,
  strictTools: true,
  jsonNames: false,
  forcedJson: true,
  parallelTools: false,
  stop: true,
  user: true,
  efforts: [],
  sampling: ['topP', 'topK'],
};

const openai: PromptFeatures = {
  ...anthropic,
  reasoningPosition: 'front',
  remoteFiles: false,
  imageDetail: true,
  audio: true,
  resultFiles: false,
  resultErrors: false,
  jsonNames: true,
  parallelTools: true,
  efforts: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'],
  sampling: ['temperature', 'topP', 'seed', 'presencePenalty', 'frequencyPenalty', 'logprobs'],
};

function bodyOf({ body }: UpstreamRequest) {
  const text = String(body);
  const value: unknown = JSON.parse(text);
  if (!isObject(value)) throw new Error('the body is no object');
  return { value, source: { text, bytes: new TextEncoder().encode(text) } };
}

function throughAnthropic(dialogue: Prompt, target: Target): Prompt {
  const { value, source } = bodyOf(anthropicUpstream.write(dialogue, target));
  return readAnthropic(readMessagesRequest(value, source));
}

function throughOpenAi(dialogue: Prompt, target: Target): Prompt {
  const { value, source } = bodyOf(openAiUpstream.write(dialogue, target));
  return readOpenAi(readChatRequest(value, source));
}

/**
 * What Anthropic wants otherwise: a limit always, and no numeric bounds in the schemas that it
 * holds a model to, those of answers and of strict tools.
 */
function asAnthropicHasIt(dialogue: Prompt): Prompt {
  const { json, tools, outputTokensMax } = dialogue;
  return {
    ...dialogue,
    json: withoutBounds(json),
    tools: tools.map((tool) => (tool.strict ? withoutBounds(tool) : tool)),
    outputTokensMax: outputTokensMax ?? 8_192,
  };
}

function withoutBounds<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value, (key, inner) => (key === 'minimum' ? undefined : inner)));
}

function withCacheMarks(dialogue: Prompt): Prompt {
  const cacheControl = { type: 'ephemeral', ttl: '1h' };
  const turns = dialogue.turns.map((turn) => ({
    ...turn,
    parts: turn.parts.map((part) => (part.kind === 'reasoning' ? part : { ...part, cacheControl })),
  }));
  const tools = dialogue.tools.map((tool) => ({ ...tool, cacheControl }));
  return { ...dialogue, turns: turns as Turn[], tools };
}

/** The last answer asks for tools and has lost the thoughts behind that. */
function lacksThought({ turns }: Prompt): boolean {
  const last = turns.findLast(({ role }) => role === 'assistant');
  const kinds: string[] = last?.parts.map(({ kind }) => kind) ?? [];
  return kinds.includes('tool_call') && !kinds.includes('reasoning');
}

describe('a dialogue that Anthropic can carry', () => {
  const target = makeTarget({ quirks: { system_messages: 'keep' } });

  test(
    'comes back the same, with nothing told as dropped',
    () => {
      fc.assert(
        fc.property(randomPrompts(anthropic), (dialogue) => {
          expect(anthropicUpstream.write(dialogue, target).dropped).toEqual([]);
          expect(throughAnthropic(dialogue, target)).toEqual(asAnthropicHasIt(dialogue));
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test(
    'keeps its marks for the prompt cache',
    () => {
      fc.assert(
        fc.property(randomPrompts(anthropic), (plain) => {
          const dialogue = withCacheMarks(plain);
          expect(throughAnthropic(dialogue, target)).toEqual(asAnthropicHasIt(dialogue));
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test(
    'keeps its wish for thinking, unless the thoughts behind its latest calls are lost',
    () => {
      const efforts = ['low', 'medium', 'high', 'xhigh', 'max'] as const;
      const thinking = makeTarget({ ...target, thinking: 'adaptive' });
      fc.assert(
        fc.property(randomPrompts({ ...anthropic, efforts, sampling: [] }), (dialogue) => {
          const isLost = dialogue.reasoning !== null && lacksThought(dialogue);
          const { dropped } = anthropicUpstream.write(dialogue, thinking);
          expect(dropped).toEqual(isLost ? ['reasoning'] : []);
          const off = { effort: 'none', budgetTokens: null, visible: true } as const;
          // An adaptive model is told to think as it sees fit, beside the effort.
          const on = dialogue.reasoning && { ...dialogue.reasoning, isAdaptive: true };
          const expected = { ...dialogue, reasoning: isLost ? off : on };
          expect(throughAnthropic(dialogue, thinking)).toEqual(asAnthropicHasIt(expected));
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test.each(['gemini:', 'responses:'])(
    'leaves the thoughts of another maker behind: %p',
    (maker) => {
      fc.assert(
        fc.property(randomPrompts({ ...anthropic, redactedReasoning: false }), (dialogue) => {
          const marked = dialogue.turns.map((turn) => ({
            ...turn,
            parts: turn.parts.map((part) =>
              part.kind === 'reasoning' ? { ...part, signature: maker + part.signature } : part,
            ),
          })) as Turn[];
          const { value } = bodyOf(anthropicUpstream.write({ ...dialogue, turns: marked }, target));
          expect(JSON.stringify(value)).not.toContain(maker);
          expect(JSON.stringify(value)).not.toContain('"thinking"');
        }),
        runs,
      );
    },
    timeoutMs,
  );
});

describe('a dialogue that an OpenAI-style provider can carry', () => {
  const target = makeTarget({ quirks: { replay_reasoning: 'reasoning_details' } });

  test(
    'comes back the same, with nothing told as dropped',
    () => {
      fc.assert(
        fc.property(randomPrompts(openai), (dialogue) => {
          expect(openAiUpstream.write(dialogue, target).dropped ?? []).toEqual([]);
          // How much of the reasoning is shown is between the client and us.
          const { reasoning } = dialogue;
          const shown = { ...dialogue, reasoning: reasoning && { ...reasoning, visible: true } };
          const read = throughOpenAi(dialogue, target);
          expect<Prompt>({ ...read, foreign: [] }).toEqual(shown);
        }),
        runs,
      );
    },
    timeoutMs,
  );
});
