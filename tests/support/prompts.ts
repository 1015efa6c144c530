import type { Prompt, Turn } from '../../src/core/prompt.ts';
import {
  type ChatRequestInfo,
  type ModelNeeds,
  noPreferences,
} from '../../src/core/request-info.ts';
import type { Target } from '../../src/dialects/dialect.ts';

const plainQuestion: Prompt = {
  turns: [{ role: 'user', parts: [{ kind: 'text', text: 'Hello!' }] }],
  tools: [],
  toolChoice: null,
  parallelTools: null,
  outputTokensMax: null,
  stop: [],
  json: null,
  reasoning: null,
  sampling: {},
  user: null,
  stream: false,
  choices: 1,
  foreign: [],
};

/** The plainest dialogue, with the given fields changed. */
export function makePrompt(given: Partial<Prompt> = {}): Prompt {
  return { ...plainQuestion, ...given };
}

/** A user's turn with one text. */
export function userTurn(text: string): Turn {
  return { role: 'user', parts: [{ kind: 'text', text }] };
}

export function makeTarget(given: Partial<Target> = {}): Target {
  return {
    upstreamModel: 'chat-large',
    quirks: {},
    outputTokensMax: null,
    images: new Map(),
    modelOutputTokensMax: null,
    thinking: 'effort',
    ...given,
  };
}

export const noNeeds: ModelNeeds = {
  tools: false,
  json: false,
  images: false,
  audio: false,
  files: false,
  thinkingBudget: false,
};

/** The ask of a short question, for tests of routing, limits and billing. */
export function chatRequestInfo(change: Partial<ChatRequestInfo> = {}): ChatRequestInfo {
  return {
    operationName: 'chat',
    models: ['test/chat'],
    preferences: noPreferences,
    stream: false,
    outputTokensMax: null,
    choices: 1,
    needs: noNeeds,
    parameters: [],
    inputBytes: 300,
    cachesForHour: () => false,
    images: [],
    user: null,
    search: null,
    skills: [],
    ...change,
  };
}
