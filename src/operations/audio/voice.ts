import type { SpeechTerms } from '../../config/model-schema.ts';
import { type GatewayError, invalidRequest } from '../../core/errors.ts';
import { refusalOfManner } from '../../core/media/audio-formats.ts';
import { type SpeechDialect, speechDialect } from '../../dialects/media/speech.ts';
import type { SpeechRequest } from '../../dialects/openai/media/speech-request.ts';
import type { Offer } from '../../route/catalogue.ts';
import { textLimitOf } from '../../route/speech-limit.ts';

/** How a model's style of speech changes what a client asked for. */

/** Why an offer cannot speak this text in the wanted way; null when it can. */
export function refusalOf(
  wish: SpeechRequest,
  size: { readonly characters: number; readonly bytes: number },
  { model, speech, dialect }: Offer,
): GatewayError | null {
  const { style, voices } = model.speech ?? {};
  if (style === 'first_party') {
    const refusal = refusalOfManner(wish, voices ? Object.keys(voices) : null, model.id);
    if (refusal) return refusal;
  }
  const { unit, max } = textLimitOf(speech);
  if (size[unit] > max) {
    const found = `input has ${size[unit]} ${unit === 'bytes' ? 'UTF-8 bytes' : unit}`;
    const most = `${model.id} takes at most ${max} at once`;
    return invalidRequest(`${found}, and ${most}; POST /v1/jobs takes longer texts.`, 'input');
  }
  const formats = speechDialect(dialect)?.formats ?? [];
  if (!formats.includes(wish.format)) {
    const message = `response_format must be one of ${formats.join(', ')} with ${model.id}.`;
    return invalidRequest(message, 'response_format');
  }
  return null;
}

/** The speed to ask for: only first-party-style models follow it, and theirs was checked before. */
export function speedAt({ speed }: SpeechRequest, { model }: Offer): number | null {
  return model.speech?.style === 'first_party' ? speed : null;
}

/** What the provider calls a voice; an unknown one becomes its default. */
export function voiceAt(voice: string, terms: SpeechTerms, dialect: SpeechDialect): string {
  const isTold = terms.voices !== undefined || terms.default_voice !== undefined;
  const { voices = {}, default_voice: usual } = isTold ? terms : (dialect.voices ?? {});
  if (Object.hasOwn(voices, voice)) return voices[voice] ?? voice;
  // The provider's own name for a voice, or a voice that was made there from a recording.
  const isTheirs = Object.values(voices).includes(voice) || voice.includes(':');
  return isTheirs ? voice : (usual ?? voice);
}
