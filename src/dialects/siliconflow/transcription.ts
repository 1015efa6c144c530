/** Transcription of SiliconFlow: a file goes in, a text comes out, and nothing can be asked for. */
import { writeForm } from '../long-body.ts';
import type { TranscriptionDialect } from '../media/transcription.ts';
import type { TranscriptionWish } from '../media/transcription-wish.ts';
import { readTranscript } from '../openai/transcription.ts';

export const siliconFlowTranscription: TranscriptionDialect = {
  // Without times there are no subtitles.
  formats: ['json', 'text'],
  write(wish, audio, { upstreamModel }) {
    const form = writeForm({ model: upstreamModel }, [{ name: 'file', ...audio }]);
    return { path: '/audio/transcriptions', ...form, dropped: namesOf(wish) };
  },
  read: readTranscript,
};

function namesOf({ language, prompt, temperature, more }: TranscriptionWish): readonly string[] {
  const given = Object.entries({ language, prompt, temperature, ...more });
  return given.filter(([, value]) => value !== null).map(([name]) => name);
}
