import { expect, test } from 'bun:test';
import { fc } from '../../../../tests/support/random.ts';
import { JsonEndScanner } from './tool-arguments.ts';

test('JsonEndScanner finds the end of an object that is split at any position', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.integer({ min: 1, max: 9 }),
      (value, size) => {
        const json = JSON.stringify(value);
        const scanner = new JsonEndScanner();
        for (let index = 0; index < json.length; index += size) {
          expect(scanner.isComplete).toBe(false);
          scanner.push(json.slice(index, index + size));
        }
        expect(scanner.isComplete).toBe(true);
      },
    ),
  );
});

const parts = ['', '"{}"', 'null', '{"a":"}', '[{}', '{"a":"\\"}'];
const others = ['} else {', 'f({})', ' - [1]'];

test.each([...parts, ...others])('JsonEndScanner does not find an end in %p', (json) => {
  const scanner = new JsonEndScanner();
  scanner.push(json);
  expect(scanner.isComplete).toBe(false);
});

test('JsonEndScanner returns the length up to the end', () => {
  const scanner = new JsonEndScanner();
  expect(scanner.push('{"a":')).toBe(5);
  expect(scanner.push('1}}')).toBe(2);
  expect(scanner.push('{"a":1}')).toBe(0);
  expect(scanner.isComplete).toBe(true);
});
