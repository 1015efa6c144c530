/** Speech of an OpenAI-style upstream. */

import { isObject, isText, parseJson } from '../../../core/json.ts';
import { speechFormats } from '../../../core/media/audio-formats.ts';
import type { Usage } from '../../../core/usage.ts';
import type { SseMessage, UpstreamFailure } from '../../dialect.ts';
import { failureInside } from '../../failure.ts';
import type { AudioEvents, SpeechDialect } from '../../media/speech.ts';
import { spell } from '../../media/spell.ts';
import { readMediaUsage } from '../usage.ts';

export const openAiSpeech: SpeechDialect = {
  formats: speechFormats,
  write({ input, voice, format, speed, instructions, asEvents, more }, target) {
    const { fields, dropped } = spell({ ...more, speed, instructions }, target);
    const body = JSON.stringify({
      model: target.upstreamModel,
      input,
      voice,
      response_format: format,
      ...(asEvents ? { stream_format: 'sse' } : {}),
      ...fields,
    });
    return { path: '/audio/speech', body, dropped };
  },
  openEvents: () => new SpeechEvents(),
};

/** `speech.audio.delta` with audio in base64, then `speech.audio.done` with usage. */
class SpeechEvents implements AudioEvents {
  finished = false;
  usage: Usage | undefined;

  push({ data }: SseMessage): Uint8Array | UpstreamFailure | undefined {
    const event = parseJson(data);
    if (!isObject(event)) return undefined;
    const failure = failureInside(event);
    if (failure) return failure;
    if (event.type === 'speech.audio.done') {
      this.finished = true;
      this.usage = readMediaUsage(event.usage);
    }
    const { audio } = event;
    return isText(audio) ? Buffer.from(audio, 'base64') : undefined;
  }
}
