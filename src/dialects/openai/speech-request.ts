/** A request for speech in OpenAI's words, as clients send it. */
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Ask } from '../../core/ask.ts';
import { refuseUnspeakable, type SpeechFormat, speechFields } from '../../core/audio-formats.ts';
import { invalidRequest } from '../../core/errors.ts';
import { misfit } from '../../core/misfit.ts';
import { oneOf, optional } from '../../core/schema-builders.ts';
import { routingFields, wholeAsk } from '../ask/routing.ts';
import { unknownFields } from '../ask/unknown-fields.ts';

export const speechSchema = Type.Object({
  ...routingFields,
  input: Type.String({ minLength: 1 }),
  ...speechFields,
  stream_format: optional(oneOf('audio', 'sse')),
  user: optional(Type.String({ maxLength: 1000 })),
});
const validator = Compile(speechSchema);

export interface SpeechRequest {
  readonly ask: Ask;
  readonly input: string;
  /** As the client named it. */
  readonly voice: string;
  readonly format: SpeechFormat;
  readonly speed: number | null;
  readonly instructions: string | null;
  readonly more: Readonly<Record<string, unknown>>;
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
  const more = unknownFields(value, { ...speechSchema.properties, stream: null });
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
