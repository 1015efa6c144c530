import { describe, expect, test } from 'bun:test';
import { makePrompt, makeTarget } from '../../../../tests/support/prompts.ts';
import { fc } from '../../../../tests/support/random.ts';
import type { ImagePart } from '../../../core/prompt.ts';
import { dialects } from '../../registry.ts';
import { checkBase64, checkBytes, checkDataUrl, readDataUrl } from './inline-data.ts';

test.each([
  ['data:image/png;base64,AAAA', { mediaType: 'image/png', base64: 'AAAA' }],
  ['DATA:Image/PNG;charset=x;BASE64,AAAA', { mediaType: 'image/png', base64: 'AAAA' }],
  ['data:text/plain,a%20b', { mediaType: 'text/plain', base64: 'YSBi' }],
  ['data:,a', { mediaType: 'text/plain', base64: 'YQ==' }],
  ['data:image/png;base64,', { mediaType: 'image/png', base64: '' }],
  ['data:image/jpg;base64,AAAA', { mediaType: 'image/jpeg', base64: 'AAAA' }],
])('readDataUrl reads %s', (url, read) => {
  expect(readDataUrl(url)).toEqual(read);
});

test.each(['https://a.example/b.png', 'data:image/png;base64', 'data:,%E0%A4%A', '', 'files/a'])(
  'readDataUrl returns undefined for %p',
  (url) => {
    expect(readDataUrl(url)).toBeUndefined();
  },
);

test.each([
  ['image/jpeg', '/9j/4AAQSkZJRgABAQAAAQABAAD'],
  ['image/png', 'iVBORw0KGgoAAAANSUhEUgAAAAE'],
  ['image/gif', 'R0lGODlhAQABAIAAAAAAAP///yH'],
  ['image/webp', 'UklGRiQAAABXRUJQVlA4IBgAAAA'],
  ['application/pdf', 'JVBERi0xLjQKJcOkw7zDtsOfCjI'],
])('readDataUrl detects %s by its bytes', (mediaType, base64) => {
  for (const named of ['image/png', 'image/jpg', 'image/*', 'application/octet-stream']) {
    expect(readDataUrl(`data:${named};base64,${base64}`)).toEqual({ mediaType, base64 });
  }
  expect(readDataUrl(`data:text/plain;base64,${base64}`)?.mediaType).toBe('text/plain');
});

test('readDataUrl accepts a long percent-encoded file name', () => {
  const url = `data:application/pdf;name=${'%E6'.repeat(765)};base64,AAAA`;
  expect(readDataUrl(url)).toEqual({ mediaType: 'application/pdf', base64: 'AAAA' });
});

test('readDataUrl does not search long content', () => {
  const content = 'A'.repeat(1_000_000);
  expect(readDataUrl(`data:image/png;base64,${content}`)?.base64.length).toBe(1_000_000);
  expect(readDataUrl(`data:${';'.repeat(1_000_000)}`)).toBeUndefined();
});

/** Returns the error as text; null if nothing is thrown. */
function errorOf(check: () => void): string | null {
  try {
    check();
    return null;
  } catch (error) {
    return String(error);
  }
}

describe('checkBase64', () => {
  const lines = (text: string) => text.replaceAll(/.{76}/g, '$&\r\n');
  const long = Buffer.alloc(1_000, 'Grüße').toString('base64');
  test.each([
    ['that needs no padding', 'aGV5'],
    ['with padding', 'aGk='],
    ['with 2 padding characters', 'aA=='],
    ['without padding', 'aGk'],
    ['in the URL-safe alphabet', '_-8_'],
    ['split into lines', lines(long)],
    ['with a line break at the end', `${long}\n`],
    ['after a space', ' aGV5'],
  ])('accepts base64 %s', (_, text) => {
    expect(errorOf(() => checkBase64(text, 'data'))).toBeNull();
  });

  test.each([
    '!!!!',
    'hello, world',
    'aGk=aGk=',
    'aGV5a',
    'aGV5\nä',
    'aGk===',
    'data:a/b;base64,aGk=',
  ])('rejects %j', (text) => {
    expect(errorOf(() => checkBase64(text, 'a[0].data'))).toContain(
      'a[0].data is not valid base64.',
    );
  });

  test('accepts base64 of any length, but rejects it if one character is invalid', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 40 }),
      fc.nat(9).map((extra) => new Uint8Array(98_300 + extra).fill(0xfb)),
    );
    const invalid = fc.constantFrom('!', '=', '.', ',', '*', '\0', 'ÿ', '€', 'Ł', '\u{1f600}');
    const alphabet = fc.constantFrom('base64', 'base64url');
    fc.assert(
      fc.property(bytes, alphabet, invalid, fc.nat(), (content, encoding, character, position) => {
        const text = Buffer.from(content).toString(encoding as BufferEncoding);
        expect(errorOf(() => checkBase64(text, 'data'))).toBeNull();
        const at = position % text.replace(/=+$/, '').length;
        for (const wrong of [
          text.slice(0, at) + character + text.slice(at + 1),
          text.slice(0, at) + character + text.slice(at),
        ]) {
          const isPadded = /^[\w+/-]+={1,2}$/.test(wrong);
          if (!isPadded) expect(errorOf(() => checkBase64(wrong, 'data'))).toContain('data is ');
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test.each(['', ' \n', '=', '=='])('rejects %j as empty', (text) => {
    expect(errorOf(() => checkBase64(text, 'data'))).toContain('data is empty.');
  });
});

describe('checkDataUrl', () => {
  test.each([
    'data:image/png;base64,aGk=',
    'DATA:image/png;charset=x;BASE64,aGk',
    'data:;base64,aGk=',
    'data:image/svg+xml,%3Csvg%3E',
    'https://a.test/not-looked-at!',
  ])('accepts %s', (url) => expect(errorOf(() => checkDataUrl(url, 'url'))).toBeNull());

  test.each([
    ['data:image/png;base64,', 'url is empty.'],
    ['data:,', 'url is empty.'],
    ['data:image/png;base64,<svg>', 'url is not valid base64.'],
    ['data:image/png', 'url is not a valid data: URL.'],
    ['data:text/plain,%zz', 'url is not a valid data: URL.'],
  ])('rejects %s', (url, message) => {
    expect(errorOf(() => checkDataUrl(url, 'url'))).toContain(message);
  });
});

test.each(['https://a.test/b.pdf', 'gs://bucket/b.pdf', 'aGk=', 'data:a/b;base64,aGk='])(
  'checkBytes accepts %s',
  (text) => expect(errorOf(() => checkBytes(text, 'file_data'))).toBeNull(),
);

test.each(['C:\\a.pdf', 'report.pdf', '', 'data:application/pdf;base64,?'])(
  'checkBytes rejects %j',
  (text) => expect(errorOf(() => checkBytes(text, 'file_data'))).toContain('file_data is '),
);

const image: ImagePart = { kind: 'image', url: 'data:image/png;base64,iVBORw0KGgo=' };

test.each([
  ['anthropic', ['detail']],
  ['bedrock', ['detail']],
  ['gemini', ['detail']],
  ['openai', []],
  ['openai-responses', []],
] as const)(
  'a request to %s reports %j as dropped if an image has a detail level',
  (dialect, names) => {
    const droppedWith = (detail?: string) => {
      const prompt = makePrompt({ turns: [{ role: 'user', parts: [{ ...image, detail }] }] });
      return dialects[dialect].chat?.write(prompt, makeTarget()).dropped;
    };
    expect(droppedWith('low')).toEqual([...names]);
    expect(droppedWith('auto')).toEqual([]);
    expect(droppedWith()).toEqual([]);
  },
);
