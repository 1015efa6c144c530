import type { SpeechTerms } from '../config/model-schema.ts';
import type { TextLimit } from '../core/media/audio-formats.ts';

/** Used where the catalogue names no limit: characters for first-party style, else bytes. */
const charactersUsual = 4_096;
const bytesUsual = 1_000;

export function textLimitOf(terms: SpeechTerms = {}): TextLimit {
  const { style, input_characters_max: characters, input_bytes_max: bytes } = terms;
  const isCounted = characters !== undefined || (bytes === undefined && style === 'first_party');
  return isCounted
    ? { unit: 'characters', max: characters ?? charactersUsual }
    : { unit: 'bytes', max: bytes ?? bytesUsual };
}
