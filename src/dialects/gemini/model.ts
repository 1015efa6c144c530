/** How Gemini's models are addressed, and asked for pictures. */
import type { Target } from '../dialect.ts';

/** Google's lists call its models `models/…`, and operators copy such names. */
export function modelName(upstreamModel: string): string {
  return upstreamModel.replace(/^models\//, '').toWellFormed();
}

export function modelPath(upstreamModel: string, verb: string): string {
  return `/models/${encodeURIComponent(modelName(upstreamModel))}:${verb}`;
}

/** Models that make pictures do so only when asked. */
export function pictureModalities({
  outputModalities = [],
}: Pick<Target, 'outputModalities'>): readonly string[] {
  return outputModalities.includes('text') ? ['TEXT', 'IMAGE'] : ['IMAGE'];
}
