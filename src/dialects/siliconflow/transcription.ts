/** Transcription of SiliconFlow: a file goes in, a text comes out, and nothing can be asked for. */
import { writeForm } from '../long-body.ts';
import type { TranscriptionDialect } from '../media/transcription.ts';
import { readTranscript } from '../openai/media/transcription.ts';
import { namesGiven } from '../parameters.ts';

export const siliconFlowTranscription: TranscriptionDialect = {
  // Without times there are no subtitles.
  formats: ['json', 'text'],
  write({ language, prompt, temperature, more }, audio, { upstreamModel }) {
    const form = writeForm({ model: upstreamModel }, [{ name: 'file', ...audio }]);
    const dropped = namesGiven({ language, prompt, temperature, ...more });
    return { path: '/audio/transcriptions', ...form, dropped };
  },
  read: readTranscript,
};
