import { expect, test } from 'bun:test';
import type { SpeechTerms } from '../config/model-schema.ts';
import { textLimitOf } from './speech-limit.ts';

test.each<[string, SpeechTerms | undefined, number, 'characters' | 'bytes']>([
  ['a first-party-style model', { style: 'first_party' }, 4096, 'characters'],
  ['another', { style: 'mapped' }, 1000, 'bytes'],
  ['one that says nothing', undefined, 1000, 'bytes'],
  ['another with a number of characters', { input_characters_max: 300 }, 300, 'characters'],
  ['another with a number of bytes', { input_bytes_max: 2000 }, 2000, 'bytes'],
  [
    'a first-party-style model with a number of characters',
    { style: 'first_party', input_characters_max: 2000 },
    2000,
    'characters',
  ],
  [
    'a first-party-style model with a number of bytes',
    { style: 'first_party', input_bytes_max: 600 },
    600,
    'bytes',
  ],
])('%s: %j takes %d %s', (_, terms, max, unit) => {
  expect(textLimitOf(terms)).toEqual({ unit, max });
});
