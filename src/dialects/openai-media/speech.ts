import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { invalidRequest } from '../../core/errors.ts';
import { isNonEmptyString, isObject, parseJson } from '../../core/json.ts';
import {
  isCustomVoice,
  rejectInvalidSpeechInput,
  speechFields,
  speechFormats,
} from '../../core/media/audio.ts';
import type { OwnAccountRequirement, RequestInfo } from '../../core/request-info.ts';
import { oneOf, optional, validationError } from '../../core/schema.ts';
import type { Usage } from '../../core/usage.ts';
import type { ReadResult, SseMessage } from '../dialect.ts';
import { failureInside } from '../failure.ts';
import type { AudioEvents, SpeechDialect, SpeechOptions } from '../media.ts';
import { label, nonStreamingRequest, routingFields } from '../normalize/requests/routing.ts';
import { forwardableFields } from '../normalize/requests/unknown-fields.ts';
import { toVendorParameters } from '../normalize/requests/vendor-parameters.ts';
import { readMediaUsage } from '../openai-chat/usage.ts';

// Speech requests in OpenAI's format, as clients send them.

export const speechSchema = Type.Object({
  ...routingFields,
  input: Type.String({ minLength: 1 }),
  ...speechFields,
  stream_format: optional(oneOf('audio', 'sse')),
  user: label,
});
const validator = Compile(speechSchema);

const customVoice: OwnAccountRequirement = {
  param: 'voice.id',
  why: "is a voice in the provider's account: use one of the model's own voices",
};

/** `voice` is the client's name for the voice. */
export interface SpeechRequest extends Omit<SpeechOptions, 'asEvents'> {
  readonly request: RequestInfo;
}

export function readSpeechRequest(value: Record<string, unknown>): SpeechRequest {
  if (!validator.Check(value)) throw validationError(speechSchema, value);
  const { input, speed, instructions } = value;
  rejectInvalidSpeechInput(input);
  if (value.stream_format === 'sse') {
    const message = 'stream_format must be "audio"; "sse" is not supported.';
    throw invalidRequest(message, 'stream_format');
  }
  // Audio is always sent as it arrives, so `stream` has no effect.
  const extraFields = forwardableFields(value, { ...speechSchema.properties, stream: null });
  const request = nonStreamingRequest('speech', value, extraFields);
  const custom = isCustomVoice(value.voice) ? customVoice : undefined;
  return {
    request: { ...request, ownAccount: request.ownAccount ?? custom },
    input,
    voice: value.voice,
    format: value.response_format ?? 'mp3',
    speed: speed ?? null,
    instructions: instructions ?? null,
    extraFields,
  };
}

// Speech of OpenAI-style upstreams.

export const openAiSpeech: SpeechDialect = {
  formats: speechFormats,
  voices: null,
  write({ input, voice, format, speed, instructions, asEvents, extraFields }, target) {
    const { fields, dropped } = toVendorParameters({ ...extraFields, speed, instructions }, target);
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

/** Reads `speech.audio.delta` events with base64 audio, then `speech.audio.done` with usage. */
class SpeechEvents implements AudioEvents {
  finished = false;
  usage: Usage | undefined;

  push({ data }: SseMessage): ReadResult<Uint8Array | undefined> {
    const event = parseJson(data);
    if (!isObject(event)) return { ok: true, value: undefined };
    const failure = failureInside(event);
    if (failure) return { ok: false, failure };
    if (event.type === 'speech.audio.done') {
      this.finished = true;
      this.usage = readMediaUsage(event.usage);
    }
    const { audio } = event;
    return { ok: true, value: isNonEmptyString(audio) ? Buffer.from(audio, 'base64') : undefined };
  }
}
