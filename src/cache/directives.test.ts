import { expect, test } from 'bun:test';
import { readDirectives } from './directives.ts';

const plain = { mayRead: true, mayWrite: true, maxAgeSeconds: null };

test.each([
  [null, plain],
  ['', plain],
  ['public, no-transform', plain],
  ['no-store', { mayRead: false, mayWrite: false, maxAgeSeconds: null }],
  ['No-Store', { mayRead: false, mayWrite: false, maxAgeSeconds: null }],
  ['no-cache, no-store', { mayRead: false, mayWrite: false, maxAgeSeconds: null }],
  ['no-cache', { mayRead: false, mayWrite: true, maxAgeSeconds: null }],
  ['max-age=60, no-cache', { mayRead: false, mayWrite: true, maxAgeSeconds: null }],
  ['max-age=60', { mayRead: true, mayWrite: true, maxAgeSeconds: 60 }],
  ['MAX-AGE="5"', { mayRead: true, mayWrite: true, maxAgeSeconds: 5 }],
  ['max-age=0', { mayRead: true, mayWrite: true, maxAgeSeconds: 0 }],
  ['max-age=-1', plain],
  ['max-age=1e3', plain],
  ['max-age=9999999999', plain],
  ['x-no-store', plain],
])('%p', (header, wanted) => {
  expect(readDirectives(header)).toEqual(wanted);
});
