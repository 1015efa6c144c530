import { expect, test } from 'bun:test';
import { readDataUrl } from './data-url.ts';

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
