import type { Prompt, Turn } from '../../src/core/prompt.ts';
import {
  type ChatRequestInfo,
  type ModelNeeds,
  noPreferences,
} from '../../src/core/request-info.ts';
import type { Target } from '../../src/dialects/dialect.ts';

const plainPrompt: Prompt = {
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
  unsupported: [],
};

/** Returns a minimal prompt with the given changes. */
export function makePrompt(change: Partial<Prompt> = {}): Prompt {
  return { ...plainPrompt, ...change };
}

/** Returns a user turn with one text. */
export function userTurn(text: string): Turn {
  return { role: 'user', parts: [{ kind: 'text', text }] };
}

export function makeTarget(change: Partial<Target> = {}): Target {
  return {
    upstreamModel: 'chat-large',
    quirks: {},
    outputTokensMax: null,
    images: new Map(),
    modelOutputTokensMax: null,
    thinking: 'effort',
    ...change,
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

/** Returns the request info of a short chat, for tests of routing, limits, and billing. */
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
    usesLongCacheTtl: () => false,
    images: [],
    user: null,
    search: null,
    skills: [],
    ...change,
  };
}
