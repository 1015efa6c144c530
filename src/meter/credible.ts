import { totalTokens, type Usage } from '../core/usage.ts';

/** Several choices and rounds of searches fill a model's context more than once. */
const contextsMax = 16;

/** Whether a request can have used so many tokens; a server that miscounts must empty no wallet. */
export function isCredible(usage: Usage, contextTokens: number): boolean {
  return totalTokens(usage) <= contextTokens * contextsMax;
}
