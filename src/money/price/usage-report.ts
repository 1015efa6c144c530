import type { ChatRequestInfo } from '../../core/request-info.ts';
import { type Measured, noUsage, promptTokens, type Usage } from '../../core/usage.ts';
import type { AnswerMetrics } from '../../dialects/dialect.ts';
import type { PricedOffer } from './bounds.ts';
import { addedInputTokensMax, chatTokensMax, contextTokensOf } from './cost.ts';

// Decides which parts of a provider's usage report are charged. The table in docs/credits.md lists
// the rules.

/** For a provider that reported no usage, or counts that aren't numbers of tokens. */
export const estimateNote = 'The provider reported no billable usage. The tokens are an estimate.';
const unfinishedNote =
  "The provider didn't count its complete answer. The output tokens are an estimate.";
const noInputNote = "The provider didn't count the input. The input tokens are an estimate.";
export const excessiveNote =
  'The provider reported more tokens than the request can use. The tokens are an estimate.';

/** A request as it was sent to an offer. */
export interface SentRequest {
  readonly request: ChatRequestInfo;
  readonly model: PricedOffer['model'];
  /** The bytes of the request without its images. */
  readonly textBytes: number;
  /** The output cap that replaced the client's, or null. */
  readonly outputTokensMax: number | null;
  /** False if the provider doesn't receive an output cap. */
  readonly hasCap: boolean;
}

/** GPT-4o mini counts 48,000 tokens for the largest image, more than any other model. */
const tokensPerImageMax = 50_000;
/**
 * Some providers don't count reasoning toward the cap. Calls of a provider's own tools are output
 * that clients of another dialect don't receive.
 */
const uncappedTokensMax = 16_384;
/** Providers count a few more tokens than the cap, and some have a minimum cap of 16. */
const excessTokensMax = 32;
const excessRatioMax = 1.1;

/** Returns false if a request can't have used the reported tokens. */
export function isPlausible(usage: Usage, outputCharacters: number, sent: SentRequest): boolean {
  return (
    promptTokens(usage) <= inputTokensMax(usage, sent) &&
    countedTowardCap(usage, sent) <= Math.max(outputTokensMax(sent), outputCharacters)
  );
}

/** No tokenizer yields more tokens than bytes. */
function inputTokensMax({ includesToolResults }: Usage, sent: SentRequest): number {
  const { request, model, textBytes } = sent;
  if (includesToolResults) return chatTokensMax(model);
  // The context is full, however long the files are.
  if (hasContentOfUnknownLength(request)) return contextTokensOf(model) + addedInputTokensMax;
  const images = request.images.length * tokensPerImageMax;
  return Math.min(chatTokensMax(model), textBytes + images + addedInputTokensMax);
}

/** Files may be compressed, and the provider may fetch content by URL or have stored it. */
function hasContentOfUnknownLength({ needs, urls, ownAccount }: ChatRequestInfo): boolean {
  return needs.files || (urls !== undefined && urls.length > 0) || ownAccount !== undefined;
}

function outputTokensMax({ request, model, outputTokensMax: cap, hasCap }: SentRequest): number {
  const requested = hasCap ? (cap ?? request.outputTokensMax) : null;
  const limits = [requested, model.max_completion_tokens].filter((limit) => limit != null);
  const perChoice = limits.length > 0 ? Math.min(...limits) : contextTokensOf(model);
  return request.choices * (perChoice * excessRatioMax + excessTokensMax);
}

function countedTowardCap(usage: Usage, { request }: SentRequest): number {
  const { outputTokens, reasoningTokens, includesToolResults } = usage;
  const uncapped = includesToolResults ? outputTokens : reasoningTokens;
  return Math.max(0, outputTokens - Math.min(uncapped, uncappedTokensMax * request.choices));
}

interface ReportContext {
  /** False for an answer that broke off, whose report may lack its output. */
  readonly isComplete: boolean;
  isPlausible(usage: Usage): boolean;
  /** Estimates the usage from the request and the delivered output. */
  estimate(): Usage;
}

/** Returns the usage to charge: what the provider reported if that can be true, or an estimate. */
export function billableUsage(
  metrics: AnswerMetrics,
  { isComplete, isPlausible, estimate }: ReportContext,
): Omit<Measured, 'units'> {
  const { usage, isEstimate = false, outputCharacters } = metrics;
  if (!usage) return { usage: estimate(), isEstimate: true, note: estimateNote };
  const hasInput = promptTokens(usage) > 0;
  if (!hasInput && usage.outputTokens === 0) {
    return isComplete && isUnused(metrics)
      ? { usage: noUsage, isEstimate: false, note: null, isFree: true }
      : { usage: estimate(), isEstimate: true, note: estimateNote };
  }
  if (!isPlausible(usage)) return { usage: estimate(), isEstimate: true, note: excessiveNote };
  const counts = usage.includesToolResults ? { ...usage, includesToolResults: undefined } : usage;
  const isEmpty = isComplete && outputCharacters === 0;
  const hasOutput = !isEstimate && (usage.outputTokens > 0 || isEmpty);
  if (hasInput && hasOutput) return { usage: counts, isEstimate: false, note: null };
  const estimated = estimate();
  const { inputTokens } = hasInput ? counts : estimated;
  const outputTokens = usage.outputTokens || estimated.outputTokens;
  return {
    usage: { ...counts, inputTokens, outputTokens },
    isEstimate: true,
    reported: hasOutput ? counts : { ...counts, outputTokens: 0, reasoningTokens: 0 },
    note: noteFor(hasInput, hasOutput),
  };
}

/**
 * Returns whether an answer without any tokens can be true: it is empty, or a filter replaced it,
 * so that no model saw the prompt.
 */
function isUnused({ finishReason, outputCharacters }: AnswerMetrics): boolean {
  return outputCharacters === 0 || finishReason === 'content_filter';
}

function noteFor(hasInput: boolean, hasOutput: boolean): string {
  if (hasInput) return unfinishedNote;
  return hasOutput ? noInputNote : estimateNote;
}
