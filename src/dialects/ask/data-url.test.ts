import { expect, test } from 'bun:test';
import { readDataUrl } from './data-url.ts';

test.each([
  ['data:image/png;base64,AAAA', { mediaType: 'image/png', base64: 'AAAA' }],
  ['DATA:Image/PNG;charset=x;BASE64,AAAA', { mediaType: 'image/png', base64: 'AAAA' }],
  ['data:text/plain,a%20b', { mediaType: 'text/plain', base64: 'YSBi' }],
  ['data:,a', { mediaType: 'text/plain', base64: 'YQ==' }],
  ['data:image/png;base64,', { mediaType: 'image/png', base64: '' }],
])('%s is read', (url, read) => {
  expect(readDataUrl(url)).toEqual(read);
});

test.each(['https://a.example/b.png', 'data:image/png;base64', 'data:,%E0%A4%A', '', 'files/a'])(
  '%p is no such address',
  (url) => {
    expect(readDataUrl(url)).toBeUndefined();
  },
);

test('a file may have a long name, and that written as addresses are', () => {
  const url = `data:application/pdf;name=${'%E6'.repeat(765)};base64,AAAA`;
  expect(readDataUrl(url)).toEqual({ mediaType: 'application/pdf', base64: 'AAAA' });
});

test('the content may be long and is not searched', () => {
  const content = 'A'.repeat(1_000_000);
  expect(readDataUrl(`data:image/png;base64,${content}`)?.base64.length).toBe(1_000_000);
  expect(readDataUrl(`data:${';'.repeat(1_000_000)}`)).toBeUndefined();
});
