import { totalTokens, type Usage } from '../core/usage.ts';

/** Several choices and rounds of searches fill a model's context more than once. */
const contextsMax = 16;

/** What a request can have used at most; a server that miscounts must empty no wallet. */
export function credibleTokens(contextTokens: number): number {
  return contextTokens * contextsMax;
}

export function isCredible(usage: Usage, contextTokens: number): boolean {
  return totalTokens(usage) <= credibleTokens(contextTokens);
}
