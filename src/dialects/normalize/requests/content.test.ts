import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { question, targetOf } from '../../../../tests/support/question.ts';
import type { ImagePart } from '../../../core/prompt.ts';
import { dialects } from '../../registry.ts';
import { checkBase64, checkBytes, checkDataUrl, readDataUrl } from './content.ts';

test.each([
  ['data:image/png;base64,AAAA', { mediaType: 'image/png', base64: 'AAAA' }],
  ['DATA:Image/PNG;charset=x;BASE64,AAAA', { mediaType: 'image/png', base64: 'AAAA' }],
  ['data:text/plain,a%20b', { mediaType: 'text/plain', base64: 'YSBi' }],
  ['data:,a', { mediaType: 'text/plain', base64: 'YQ==' }],
  ['data:image/png;base64,', { mediaType: 'image/png', base64: '' }],
  ['data:image/jpg;base64,AAAA', { mediaType: 'image/jpeg', base64: 'AAAA' }],
])('%s is read', (url, read) => {
  expect(readDataUrl(url)).toEqual(read);
});

test.each(['https://a.example/b.png', 'data:image/png;base64', 'data:,%E0%A4%A', '', 'files/a'])(
  '%p is no such address',
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
])('a file is %s by its bytes, whatever it is called', (mediaType, base64) => {
  for (const named of ['image/png', 'image/jpg', 'image/*', 'application/octet-stream']) {
    expect(readDataUrl(`data:${named};base64,${base64}`)).toEqual({ mediaType, base64 });
  }
  expect(readDataUrl(`data:text/plain;base64,${base64}`)?.mediaType).toBe('text/plain');
});

test('a file may have a long name that is percent-encoded', () => {
  const url = `data:application/pdf;name=${'%E6'.repeat(765)};base64,AAAA`;
  expect(readDataUrl(url)).toEqual({ mediaType: 'application/pdf', base64: 'AAAA' });
});

test('the content may be long and is not searched', () => {
  const content = 'A'.repeat(1_000_000);
  expect(readDataUrl(`data:image/png;base64,${content}`)?.base64.length).toBe(1_000_000);
  expect(readDataUrl(`data:${';'.repeat(1_000_000)}`)).toBeUndefined();
});

/** The sentence of the refusal; null when there is none. */
function refusalOf(check: () => void): string | null {
  try {
    check();
    return null;
  } catch (error) {
    return String(error);
  }
}

describe('base64', () => {
  const lines = (text: string) => text.replaceAll(/.{76}/g, '$&\r\n');
  const long = Buffer.alloc(1_000, 'Grüße').toString('base64');
  test.each([
    ['of whole groups', 'aGV5'],
    ['with its padding', 'aGk='],
    ['with two signs of it', 'aA=='],
    ['without its padding', 'aGk'],
    ['of the other alphabet', '_-8_'],
    ['in lines', lines(long)],
    ['with a line break at its end', `${long}\n`],
    ['after a blank', ' aGV5'],
  ])('%s is taken', (_, text) => {
    expect(refusalOf(() => checkBase64(text, 'data'))).toBeNull();
  });

  test.each([
    '!!!!',
    'hello, world',
    'aGk=aGk=',
    'aGV5a',
    'aGV5\nä',
    'aGk===',
    'data:a/b;base64,aGk=',
  ])('%j is none', (text) => {
    expect(refusalOf(() => checkBase64(text, 'a[0].data'))).toContain(
      'a[0].data is not valid base64.',
    );
  });

  test('of any length is taken, and refused with one sign in it that is no letter', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 40 }),
      fc.nat(9).map((more) => new Uint8Array(98_300 + more).fill(0xfb)),
    );
    const sign = fc.constantFrom('!', '=', '.', ',', '*', '\0', 'ÿ', '€', 'Ł', '\u{1f600}');
    const alphabet = fc.constantFrom('base64', 'base64url');
    fc.assert(
      fc.property(bytes, alphabet, sign, fc.nat(), (content, spelling, odd, place) => {
        const text = Buffer.from(content).toString(spelling as BufferEncoding);
        expect(refusalOf(() => checkBase64(text, 'data'))).toBeNull();
        const at = place % text.replace(/=+$/, '').length;
        for (const wrong of [
          text.slice(0, at) + odd + text.slice(at + 1),
          text.slice(0, at) + odd + text.slice(at),
        ]) {
          const isPadded = /^[\w+/-]+={1,2}$/.test(wrong);
          if (!isPadded) expect(refusalOf(() => checkBase64(wrong, 'data'))).toContain('data is ');
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test.each(['', ' \n', '=', '=='])('%j has nothing in it', (text) => {
    expect(refusalOf(() => checkBase64(text, 'data'))).toContain('data is empty.');
  });
});

describe('a data: URL', () => {
  test.each([
    'data:image/png;base64,aGk=',
    'DATA:image/png;charset=x;BASE64,aGk',
    'data:;base64,aGk=',
    'data:image/svg+xml,%3Csvg%3E',
    'https://a.test/not-looked-at!',
  ])('%s is taken', (url) => expect(refusalOf(() => checkDataUrl(url, 'url'))).toBeNull());

  test.each([
    ['data:image/png;base64,', 'url is empty.'],
    ['data:,', 'url is empty.'],
    ['data:image/png;base64,<svg>', 'url is not valid base64.'],
    ['data:image/png', 'url is not a valid data: URL.'],
    ['data:text/plain,%zz', 'url is not a valid data: URL.'],
  ])('%s is refused', (url, message) => {
    expect(refusalOf(() => checkDataUrl(url, 'url'))).toContain(message);
  });
});

test.each(['https://a.test/b.pdf', 'gs://bucket/b.pdf', 'aGk=', 'data:a/b;base64,aGk='])(
  'bytes may be %s',
  (text) => expect(refusalOf(() => checkBytes(text, 'file_data'))).toBeNull(),
);

test.each(['C:\\a.pdf', 'report.pdf', '', 'data:application/pdf;base64,?'])(
  'bytes may not be %j',
  (text) => expect(refusalOf(() => checkBytes(text, 'file_data'))).toContain('file_data is '),
);

const picture: ImagePart = { kind: 'image', url: 'data:image/png;base64,iVBORw0KGgo=' };

test.each([
  ['anthropic', ['detail']],
  ['bedrock', ['detail']],
  ['gemini', ['detail']],
  ['openai', []],
  ['openai-responses', []],
] as const)('of how closely %s is to look at a picture, %j is left out', (dialect, left) => {
  const droppedWith = (detail?: string) => {
    const asked = question({ turns: [{ role: 'user', parts: [{ ...picture, detail }] }] });
    return dialects[dialect].chat?.write(asked, targetOf()).dropped;
  };
  expect(droppedWith('low')).toEqual([...left]);
  expect(droppedWith('auto')).toEqual([]);
  expect(droppedWith()).toEqual([]);
});
