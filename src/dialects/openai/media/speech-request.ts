/** A request for speech in OpenAI's words, as clients send it. */
import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import type { Ask } from '../../../core/ask.ts';
import { invalidRequest } from '../../../core/errors.ts';
import { refuseUnspeakable, speechFields } from '../../../core/media/audio-formats.ts';
import { misfit } from '../../../core/misfit.ts';
import { oneOf, optional } from '../../../core/schema-builders.ts';
import { otherFields } from '../../ask/body/unknown-fields.ts';
import { label, routingFields, wholeAsk } from '../../ask/routing.ts';
import type { SpeechWish } from '../../media/speech.ts';

export const speechSchema = Type.Object({
  ...routingFields,
  input: Type.String({ minLength: 1 }),
  ...speechFields,
  stream_format: optional(oneOf('audio', 'sse')),
  user: label,
});
const validator = Compile(speechSchema);

/** The voice is named as the client names it. */
export interface SpeechRequest extends Omit<SpeechWish, 'asEvents'> {
  readonly ask: Ask;
}

export function readSpeechRequest(value: Record<string, unknown>): SpeechRequest {
  if (!validator.Check(value)) throw misfit(speechSchema, value);
  const { input, speed, instructions } = value;
  refuseUnspeakable(input);
  if (value.stream_format === 'sse') {
    throw invalidRequest(
      'stream_format must be audio: speech is answered in bytes.',
      'stream_format',
    );
  }
  // Audio always comes as it is made, so `stream` says nothing.
  const more = otherFields(value, { ...speechSchema.properties, stream: null });
  return {
    ask: wholeAsk('speech', value, more),
    input,
    voice: value.voice,
    format: value.response_format ?? 'mp3',
    speed: speed ?? null,
    instructions: instructions ?? null,
    more,
  };
}
