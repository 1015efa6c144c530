/** Checks that every recording is tested, and that every expected recording exists. */
import { expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const tests = join(import.meta.dir, '..');
const fixtures = join(tests, '../fixtures');
const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

const expectedIn = (folder: string) =>
  Object.keys(JSON.parse(readFileSync(join(fixtures, folder, 'expect.json'), 'utf8')));
const expected = [
  ...expectedIn('.'),
  ...expectedIn('written').map((path) => `written/${path}`),
  ...['written/expect.json', 'written/errors.json'],
];

test('every recording is in expect.json or named by a test', () => {
  const code = filesIn(tests)
    .filter((path) => path.endsWith('.ts'))
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
  const recordings = filesIn(fixtures)
    .map((path) => path.slice(fixtures.length + 1))
    .filter((path) => path.includes('/'));
  expect(recordings.length).toBeGreaterThan(100);
  const untested = recordings.filter((path) => !expected.includes(path) && !code.includes(path));
  expect(untested).toEqual([]);
});

test('every recording in expect.json exists', () => {
  expect(expected.filter((path) => !existsSync(join(fixtures, path)))).toEqual([]);
});
