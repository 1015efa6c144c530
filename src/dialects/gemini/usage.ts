import { isObject, objectsIn } from '../../core/json.ts';
import type { Usage } from '../../core/usage.ts';
import { readCount, uncachedAudio } from '../answer/counts.ts';

/**
 * Gemini's `usageMetadata` in classes that do not overlap. Undefined when the numbers cannot be
 * trusted, or when there are none yet: most chunks of Vertex tell the traffic type only.
 */
export function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const prompt = readCount(raw.promptTokenCount);
  // Results of the provider's own tools are input that the prompt's count does not include.
  const toolUse = readCount(raw.toolUsePromptTokenCount);
  const candidates = readCount(raw.candidatesTokenCount);
  const thoughts = readCount(raw.thoughtsTokenCount);
  const cached = readCount(raw.cachedContentTokenCount);
  const total = readCount(raw.totalTokenCount);
  const counted = prompt + toolUse + candidates + thoughts;
  // No request has an empty prompt: a report with 0 has not counted yet.
  if (Number.isNaN(counted + cached + total) || prompt === 0) return undefined;
  const cacheReadTokens = Math.min(cached, prompt);
  const audio = uncachedAudio(soundsIn(raw.promptTokensDetails), soundsIn(raw.cacheTokensDetails), {
    prompt,
    cacheRead: cacheReadTokens,
    uncached: prompt - cacheReadTokens,
  });
  return {
    inputTokens: prompt - cacheReadTokens - audio + toolUse,
    inputAudioTokens: audio || undefined,
    cacheReadTokens,
    cacheWriteTokens: 0,
    // Tokens that only the total includes were made by the model.
    outputTokens: candidates + thoughts + Math.max(0, total - counted),
    reasoningTokens: thoughts,
  };
}

/** The audio tokens in counts by modality, which Gemini lists for prompts and cached parts. */
function soundsIn(counts: unknown): number {
  const sounds = objectsIn(counts).filter(({ modality }) => modality === 'AUDIO');
  return sounds.reduce((sum, { tokenCount }) => sum + readCount(tokenCount), 0);
}
