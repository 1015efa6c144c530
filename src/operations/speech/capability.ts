import type { SpeechSettings } from '../../config/model-schema.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import { isCustomVoice, speechStyleError, type Voice, voiceName } from '../../core/media/audio.ts';
import type { SpeechDialect } from '../../dialects/media.ts';
import type { SpeechRequest } from '../../dialects/openai-media/speech.ts';
import { dialects } from '../../dialects/registry.ts';
import { textLimitOf } from '../../route/capability.ts';
import type { Offer } from '../../route/catalog.ts';

/** Returns why an offer can't serve this request, or null. */
export function speechRejection(
  request: SpeechRequest,
  size: { readonly characters: number; readonly bytes: number },
  { model, speech, dialect }: Offer,
): GatewayError | null {
  const { style, voices } = model.speech ?? {};
  if (style === 'first_party') {
    const rejection = speechStyleError(request, voices ? Object.keys(voices) : null, model.id);
    if (rejection) return rejection;
  }
  const { unit, max } = textLimitOf(speech);
  if (size[unit] > max) {
    const found = `input has ${size[unit]} ${unit === 'bytes' ? 'UTF-8 bytes' : unit}`;
    const limit = `${model.id} accepts at most ${max}`;
    return invalidRequest(`${found}; ${limit}. Send longer text to POST /v1/jobs.`, 'input');
  }
  const formats = dialects[dialect].speech?.formats ?? [];
  if (!formats.includes(request.format)) {
    const message = `response_format must be one of ${formats.join(', ')} for ${model.id}.`;
    return invalidRequest(message, 'response_format');
  }
  return null;
}

/** Returns the speed to request. Only first-party models support one, which has been validated. */
export function speedFor({ speed }: SpeechRequest, { model }: Offer): number | null {
  return model.speech?.style === 'first_party' ? speed : null;
}

/** Returns the provider's name for a voice. An unknown voice is replaced by the default voice. */
export function voiceFor(
  requested: Voice,
  settings: SpeechSettings,
  dialect: SpeechDialect,
): Voice {
  // A dialect with a list of voices has no custom ones.
  if (isCustomVoice(requested) && dialect.voices === null) return requested;
  const voice = voiceName(requested);
  const hasOwnVoices = settings.voices !== undefined || settings.default_voice !== undefined;
  const { voices = {}, default_voice: defaultVoice } = hasOwnVoices
    ? settings
    : (dialect.voices ?? {});
  if (Object.hasOwn(voices, voice)) return voices[voice] ?? voice;
  // The provider's own name for a voice, or a custom voice made from a recording.
  const isProviderVoice = Object.values(voices).includes(voice) || voice.includes(':');
  return isProviderVoice ? voice : (defaultVoice ?? voice);
}
