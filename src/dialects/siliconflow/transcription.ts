/** Transcription of SiliconFlow: it takes a file, answers with a text, and has no options. */
import { writeForm } from '../long-body.ts';
import type { TranscriptionDialect } from '../media/transcription.ts';
import { readTranscript } from '../openai/media/transcription.ts';
import { namesGiven } from '../parameters.ts';

export const siliconFlowTranscription: TranscriptionDialect = {
  // Its transcripts have no times, which subtitles need.
  formats: ['json', 'text'],
  write({ language, prompt, temperature, more }, audio, { upstreamModel }) {
    const form = writeForm({ model: upstreamModel }, [{ name: 'file', ...audio }]);
    const dropped = namesGiven({ language, prompt, temperature, ...more });
    return { path: '/audio/transcriptions', ...form, dropped };
  },
  read: readTranscript,
};
