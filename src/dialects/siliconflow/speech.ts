/** Speech of SiliconFlow: OpenAI's request, with voices that are named after their model. */
import type { SpeechDialect } from '../media/speech.ts';
import { spell } from '../media/spell.ts';

/** The sample rate of OpenAI's raw audio; SiliconFlow's would be 44,100 unless asked for. */
const pcmSampleRate = 24_000;

export const siliconFlowSpeech: SpeechDialect = {
  formats: ['mp3', 'opus', 'wav', 'pcm'],
  voices: {
    voices: {
      alloy: 'alex',
      echo: 'benjamin',
      fable: 'charles',
      onyx: 'david',
      nova: 'anna',
      shimmer: 'bella',
      coral: 'claire',
      sage: 'diana',
    },
    default_voice: 'alex',
  },
  write({ input, voice, format, speed, instructions, more }, target) {
    const { upstreamModel } = target;
    const { fields, dropped } = spell({ ...more, speed }, target);
    const body = JSON.stringify({
      model: upstreamModel,
      input,
      // A voice that a customer made has a full name already, with colons in it.
      voice: voice.includes(':') ? voice : `${upstreamModel}:${voice}`,
      response_format: format,
      stream: true,
      ...(format === 'pcm' ? { sample_rate: pcmSampleRate } : {}),
      ...fields,
    });
    const unsaid = instructions === null ? dropped : [...dropped, 'instructions'];
    return { path: '/audio/speech', body, dropped: unsaid };
  },
};
