/**
 * Writes random prompts as requests in a dialect and reads each request back as if a client had
 * sent it. The prompt must be unchanged.
 */
import { describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import type { Prompt, Turn } from '../../src/core/prompt.ts';
import { readPrompt as readAnthropic } from '../../src/dialects/anthropic/client/prompt.ts';
import { readMessagesRequest } from '../../src/dialects/anthropic/client/request.ts';
import { anthropicUpstream } from '../../src/dialects/anthropic/upstream/reader.ts';
import type { Target, UpstreamRequest } from '../../src/dialects/dialect.ts';
import { readPrompt as readOpenAi } from '../../src/dialects/openai-chat/client/prompt.ts';
import { readChatRequest } from '../../src/dialects/openai-chat/client/request.ts';
import { openAiUpstream } from '../../src/dialects/openai-chat/upstream/reader.ts';
import { makeTarget } from '../support/prompts.ts';
import { fc } from '../support/random.ts';
import { type PromptFeatures, randomPrompts } from '../support/random-prompts.ts';

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
  if (!isObject(value)) throw new Error("The body isn't an object.");
  return { value, source: { text, bytes: new TextEncoder().encode(text) } };
}

function throughAnthropic(prompt: Prompt, target: Target): Prompt {
  const { value, source } = bodyOf(anthropicUpstream.write(prompt, target));
  return readAnthropic(readMessagesRequest(value, source));
}

function throughOpenAi(prompt: Prompt, target: Target): Prompt {
  const { value, source } = bodyOf(openAiUpstream.write(prompt, target));
  return readOpenAi(readChatRequest(value, source));
}

/**
 * Applies what Anthropic requires: an output limit, and no numeric bounds in the schemas that it
 * enforces, which are the schemas of answers and of strict tools.
 */
function withAnthropicLimits(prompt: Prompt): Prompt {
  const { json, tools, outputTokensMax } = prompt;
  return {
    ...prompt,
    // Anthropic enforces every schema.
    json: json && withoutBounds({ ...json, strict: true }),
    tools: tools.map((tool) => (tool.strict ? withoutBounds(tool) : tool)),
    outputTokensMax: outputTokensMax ?? 8_192,
  };
}

function withoutBounds<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value, (key, inner) => (key === 'minimum' ? undefined : inner)));
}

function withCacheMarks(prompt: Prompt): Prompt {
  const cacheControl = { type: 'ephemeral', ttl: '1h' };
  const turns = prompt.turns.map((turn) => ({
    ...turn,
    parts: turn.parts.map((part) => (part.kind === 'reasoning' ? part : { ...part, cacheControl })),
  }));
  const tools = prompt.tools.map((tool) => ({ ...tool, cacheControl }));
  return { ...prompt, turns: turns as Turn[], tools };
}

/** Returns true if the last answer calls tools without reasoning before the calls. */
function lacksReasoning({ turns }: Prompt): boolean {
  const last = turns.findLast(({ role }) => role === 'assistant');
  const kinds: string[] = last?.parts.map(({ kind }) => kind) ?? [];
  return kinds.includes('tool_call') && !kinds.includes('reasoning');
}

describe('a prompt that Anthropic can express', () => {
  const target = makeTarget({ quirks: { system_messages: 'keep' } });

  test(
    'is read back unchanged, without dropped parameters',
    () => {
      fc.assert(
        fc.property(randomPrompts(anthropic), (prompt) => {
          expect(anthropicUpstream.write(prompt, target).dropped).toEqual([]);
          expect(throughAnthropic(prompt, target)).toEqual(withAnthropicLimits(prompt));
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test(
    'keeps its cache control',
    () => {
      fc.assert(
        fc.property(randomPrompts(anthropic), (plain) => {
          const prompt = withCacheMarks(plain);
          expect(throughAnthropic(prompt, target)).toEqual(withAnthropicLimits(prompt));
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test(
    'keeps its reasoning options, unless the reasoning before the latest calls is missing',
    () => {
      const efforts = ['low', 'medium', 'high', 'xhigh', 'max'] as const;
      const thinking = makeTarget({ ...target, thinking: 'adaptive' });
      fc.assert(
        fc.property(randomPrompts({ ...anthropic, efforts, sampling: [] }), (prompt) => {
          const isDropped = prompt.reasoning !== null && lacksReasoning(prompt);
          const { dropped } = anthropicUpstream.write(prompt, thinking);
          expect(dropped).toEqual(isDropped ? ['reasoning'] : []);
          const off = { effort: 'none', budgetTokens: null, visible: true } as const;
          // An adaptive model receives the adaptive mode in addition to the effort.
          const on = prompt.reasoning && { ...prompt.reasoning, isAdaptive: true };
          const expected = { ...prompt, reasoning: isDropped ? off : on };
          expect(throughAnthropic(prompt, thinking)).toEqual(withAnthropicLimits(expected));
        }),
        runs,
      );
    },
    timeoutMs,
  );

  test.each(['gemini:', 'responses:'])(
    'drops the reasoning of another vendor: %p',
    (vendor) => {
      fc.assert(
        fc.property(randomPrompts({ ...anthropic, redactedReasoning: false }), (prompt) => {
          const marked = prompt.turns.map((turn) => ({
            ...turn,
            parts: turn.parts.map((part) =>
              part.kind === 'reasoning' ? { ...part, signature: vendor + part.signature } : part,
            ),
          })) as Turn[];
          const { value } = bodyOf(anthropicUpstream.write({ ...prompt, turns: marked }, target));
          expect(JSON.stringify(value)).not.toContain(vendor);
          expect(JSON.stringify(value)).not.toContain('"thinking"');
        }),
        runs,
      );
    },
    timeoutMs,
  );
});

describe('a prompt that an OpenAI-style provider can express', () => {
  const target = makeTarget({ quirks: { replay_reasoning: 'reasoning_details' } });

  test(
    'is read back unchanged, without dropped parameters',
    () => {
      fc.assert(
        fc.property(randomPrompts(openai), (prompt) => {
          expect(openAiUpstream.write(prompt, target).dropped ?? []).toEqual([]);
          // The gateway, not the provider, decides how much reasoning the client receives.
          const { reasoning } = prompt;
          const visible = { ...prompt, reasoning: reasoning && { ...reasoning, visible: true } };
          const read = throughOpenAi(prompt, target);
          expect<Prompt>({ ...read, unsupported: [] }).toEqual(visible);
        }),
        runs,
      );
    },
    timeoutMs,
  );
});
