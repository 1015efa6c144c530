import { createHash } from 'node:crypto';
import { type Ask, noPreferences, type OperationName } from '../core/ask.ts';
import { inMemory } from '../dialects/long-body.ts';
import type { SpeechPiece, TranscriptionPiece } from '../jobs/runner.ts';
import { readSeconds } from '../operations/audio/length.ts';
import { nameAudio } from '../operations/audio/name.ts';
import { SpeechErrand } from '../operations/speech.ts';
import { TranscriptionErrand } from '../operations/transcription.ts';
import type { JobErrands } from './job-runner.ts';

/** Pieces of jobs as the same errands that requests for audio are. */
export const jobErrands: JobErrands = {
  async speech(piece) {
    const { input, voice, format, speed, instructions } = piece;
    const ask = askOf('speech', piece);
    return new SpeechErrand({ ask, input, voice, format, speed, instructions, more: {} });
  },
  async transcription(piece) {
    const { audio, format, language, prompt, temperature, granularities } = piece;
    const named = nameAudio(piece.filename.replace(/^.*\./, ''));
    const content = inMemory(audio);
    const seconds = await readSeconds(content, named.contentType);
    const sha256 = createHash('sha256').update(audio).digest('hex');
    const wish = { format, language, prompt, temperature, granularities, more: {} };
    const ask = askOf('transcription', piece);
    return new TranscriptionErrand({ ask, wish }, { ...named, content, sha256, seconds });
  },
};

function askOf(
  operation: OperationName,
  { model, provider }: SpeechPiece | TranscriptionPiece,
): Ask {
  return {
    operation,
    models: [model],
    preferences: { ...noPreferences, only: provider === null ? null : [provider] },
    stream: false,
    parameters: [],
    user: null,
  };
}
