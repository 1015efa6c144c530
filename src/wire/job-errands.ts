import { createHash } from 'node:crypto';
import type { Errand } from '../call.ts';
import { type Ask, noPreferences } from '../core/ask.ts';
import { inMemory } from '../dialects/long-body.ts';
import type { SpeechPiece, TranscriptionPiece } from '../jobs/runner.ts';
import { readSeconds } from '../operations/audio/length.ts';
import { nameAudio } from '../operations/audio/name.ts';
import { SpeechErrand } from '../operations/speech.ts';
import { TranscriptionErrand } from '../operations/transcription.ts';

/** A piece of a job as the errand that a request for the same audio would be. */
export async function errandOf(piece: SpeechPiece | TranscriptionPiece): Promise<Errand> {
  const { type: operation, model, provider } = piece;
  const ask: Ask = {
    operation,
    models: [model],
    preferences: { ...noPreferences, only: provider === null ? null : [provider] },
    stream: false,
    parameters: [],
    user: null,
  };
  if (piece.type === 'speech') {
    const { input, voice, format, speed, instructions } = piece;
    return new SpeechErrand({ ask, input, voice, format, speed, instructions, more: {} });
  }
  const { audio, format, language, prompt, temperature, granularities } = piece;
  const named = nameAudio(piece.extension);
  const content = inMemory(audio);
  const seconds = await readSeconds(content, named.contentType);
  const sha256 = createHash('sha256').update(audio).digest('hex');
  const wish = { format, language, prompt, temperature, granularities, more: {} };
  return new TranscriptionErrand({ ask, wish }, { ...named, content, sha256, seconds });
}

/**
 * The errand of a piece that is already paid for: asking again holds no credits and costs nothing.
 */
export function paidBefore(errand: Errand): Errand {
  const { ask, bounds } = errand;
  return {
    ask,
    bounds: {
      over: () => ({ wanted: 0, least: 0, most: 0 }),
      capWithin: () => null,
      usualCapAt: () => null,
      growthAt: () => null,
      contextTokensAt: (offer) => bounds.contextTokensAt(offer),
    },
    misfit: (offer) => errand.misfit(offer),
    refine: (plan) => errand.refine?.(plan) ?? plan,
    tryAt: (offer, link) => errand.tryAt(offer, link),
    measure: (facts, how) => ({ ...errand.measure(facts, how), isFree: true }),
  };
}
