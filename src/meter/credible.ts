import { promptTokens, type Usage } from '../core/usage.ts';

/** What a model can take and give at once, as far as somebody wrote it down. */
interface Sized {
  readonly context_length?: number | undefined;
  readonly max_completion_tokens?: number | undefined;
}

/** Several choices and rounds of searches fill a model's context more than once. */
const fillingsMax = 16;

/** Whether a model can have used so many tokens; a server that miscounts must empty no wallet. */
export function isCredible(
  usage: Usage,
  { context_length, max_completion_tokens }: Sized,
): boolean {
  if (context_length === undefined) return true;
  const most = Math.max(context_length, max_completion_tokens ?? 0) * fillingsMax;
  return promptTokens(usage) + usage.outputTokens <= most;
}
